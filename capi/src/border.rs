//! The border between C and Rust. Errors become a code and a text of the thread, no panic crosses
//! the border, and the Rust code runs on a stack of its own.

use super::failure::{Code, Failure};
use core::cell::Cell;
use core::ffi::{c_char, c_int};
use refrain_border::own_stack;

/// Bytes of the error text with its final zero; longer texts are cut.
const TEXT_BYTES: usize = 2048;

thread_local! {
    /// Not on the heap, where its address would differ from life to life.
    static LAST_ERROR: [Cell<u8>; TEXT_BYTES] = const { [const { Cell::new(0) }; TEXT_BYTES] };
}

/// The text of this thread's last error. Its address stays the same; the next error of the thread
/// overwrites it.
pub fn last_error() -> *const c_char {
    LAST_ERROR.with(|text| text.as_ptr().cast())
}

fn remember(text: &str) {
    let mut end = text.len().min(TEXT_BYTES - 1);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let bytes = text[..end].bytes().filter(|byte| *byte != 0);
    LAST_ERROR.with(|last| {
        for (place, byte) in last.iter().zip(bytes.chain([0])) {
            place.set(byte);
        }
    });
}

/// Runs the body of a function for C. Returns 0, or the code of its error.
#[inline]
pub fn call(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    let code = own_stack::run(|| match without_panic(body) {
        Ok(()) => 0,
        Err(failure) => {
            remember(&failure.text);
            failure.code as i64
        }
    });
    code as c_int
}

/// As [`call`], for a function that returns a number; -1 for an error.
#[inline]
pub fn number(body: impl FnOnce() -> Result<i64, Failure>) -> i64 {
    own_stack::run(|| {
        without_panic(body).unwrap_or_else(|failure| {
            remember(&failure.text);
            -1
        })
    })
}

/// Runs `body` and turns a panic into an error. A caller that lends state to `body` must handle the
/// state that a panic leaves.
pub fn without_panic<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    refrain_border::catch(body).unwrap_or_else(|defect| Err(Failure::new(Code::Internal, defect)))
}

#[cfg(test)]
#[allow(unsafe_code, reason = "reads the text as C does")]
mod tests {
    use super::*;
    use core::ffi::CStr;

    fn said() -> String {
        // SAFETY: nothing fails meanwhile.
        let text = unsafe { CStr::from_ptr(last_error()) };
        text.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_is_a_code_and_a_text() {
        let code = call(|| panic!("{} is broken", 7));
        assert_eq!(code, Code::Internal as c_int);
        assert_eq!(said(), "a defect of the library: 7 is broken");
        assert_eq!(number(|| panic!("again")), -1);
        assert_eq!(said(), "a defect of the library: again");
    }

    #[test]
    fn the_text_is_that_of_the_last_error_of_the_thread() {
        assert_eq!(said(), "");
        assert_eq!(call(|| Err(Failure::argument("a\0b"))), 1);
        assert_eq!(call(|| Ok(())), 0);
        assert_eq!(said(), "ab");
        std::thread::spawn(|| assert_eq!(said(), ""))
            .join()
            .unwrap();
        let long = "ä".repeat(TEXT_BYTES);
        assert_eq!(call(|| Err(Failure::argument(long))), 1);
        assert_eq!(said(), "ä".repeat(TEXT_BYTES / 2 - 1));
    }
}
