//! The border between C and Rust: errors become codes and a text of the thread,
//! and no panic crosses it.

use super::failure::{Code, Failure};
use core::any::Any;
use core::cell::RefCell;
use core::ffi::{CStr, c_char, c_int};
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::default();
}

/// The text of the last error of this thread. It stays where it is until the next
/// error of the thread.
pub fn last_error() -> *const c_char {
    let text = LAST_ERROR.try_with(|text| text.borrow().as_ptr());
    text.unwrap_or(c"the thread has ended".as_ptr())
}

fn remember(text: &str) {
    let mut bytes = text.as_bytes().to_vec();
    bytes.retain(|byte| *byte != 0);
    let text = CString::new(bytes).unwrap_or_default();
    // A thread that has ended reads nothing any more.
    let _ = LAST_ERROR.try_with(|last| *last.borrow_mut() = text);
}

/// Runs the body of a function of C: 0, or the code of its error.
pub fn call(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    match without_panic(body) {
        Ok(()) => 0,
        Err(failure) => {
            remember(&failure.text);
            failure.code as c_int
        }
    }
}

/// The same, of a function that returns a number of its own: -1 for an error.
pub fn number(body: impl FnOnce() -> Result<i64, Failure>) -> i64 {
    without_panic(body).unwrap_or_else(|failure| {
        remember(&failure.text);
        -1
    })
}

/// A panic is an error like another. Whoever lends state to `body` sees to what a
/// panic leaves of it.
pub fn without_panic<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        Err(Failure::new(
            Code::Internal,
            format_args!("a defect of the library: {}", words_of(payload.as_ref())),
        ))
    })
}

fn words_of(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without words")
}

/// The name of an error's code.
pub fn name_of(code: c_int) -> &'static CStr {
    Code::name_of(code)
}

#[cfg(test)]
#[allow(unsafe_code, reason = "reads the text as C does")]
mod tests {
    use super::*;

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
    }
}
