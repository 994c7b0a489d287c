//! Texts: Fortran fills them with blanks and passes their lengths, C ends them with a zero.

#![allow(unsafe_code, reason = "reads and writes texts of the program")]

use super::descriptor::Descriptor;
use core::ffi::{c_char, c_int};
use core::mem::MaybeUninit;

/// The longest text that the ABI knows has 8191 characters (MPI_MAX_LIBRARY_VERSION_STRING).
const ROOM: usize = 8192;

/// A text for C.
pub struct Text {
    few: [MaybeUninit<u8>; 256],
    many: Vec<u8>,
}

impl Text {
    /// A text of the program, without the blanks behind it.
    ///
    /// # Safety
    /// It has that many characters.
    pub unsafe fn read(at: *mut c_char, length: usize) -> Self {
        // SAFETY: the caller's promise.
        Self::of(unsafe { filled(at, length) })
    }

    /// As [`read`](Self::read), also without the blanks before it, as keys and values of info are
    /// taken.
    ///
    /// # Safety
    /// It has that many characters.
    pub unsafe fn stripped(at: *mut c_char, length: usize) -> Self {
        // SAFETY: the caller's promise.
        let text = unsafe { filled(at, length) };
        let begin = text.iter().position(|byte| *byte != b' ');
        Self::of(&text[begin.unwrap_or(0)..])
    }

    /// As [`read`](Self::read), of a text with a descriptor.
    ///
    /// # Safety
    /// The descriptor is one.
    pub unsafe fn described(text: *const Descriptor) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self::read((*text).base.cast(), (*text).element) }
    }

    fn of(text: &[u8]) -> Self {
        let mut made = Self {
            few: [const { MaybeUninit::uninit() }; 256],
            many: Vec::new(),
        };
        match text.len() < made.few.len() {
            true => {
                for (place, byte) in made.few.iter_mut().zip(text.iter().chain(&[0])) {
                    place.write(*byte);
                }
            }
            false => made.many = text.iter().copied().chain([0]).collect(),
        }
        made
    }

    pub fn at(&self) -> *mut c_char {
        match self.many.is_empty() {
            true => self.few.as_ptr().cast_mut().cast(),
            false => self.many.as_ptr().cast_mut().cast(),
        }
    }
}

/// A text of the program up to its last character that is no blank.
///
/// # Safety
/// It has that many characters.
unsafe fn filled<'a>(at: *mut c_char, length: usize) -> &'a [u8] {
    if at.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise.
    let text = unsafe { core::slice::from_raw_parts(at.cast::<u8>(), length) };
    let last = text.iter().rposition(|byte| *byte != b' ');
    &text[..last.map_or(0, |last| last + 1)]
}

/// Texts for C from a list of the program whose elements are some apart; the list ends with a null.
pub struct Texts {
    _texts: Vec<Text>,
    places: Vec<*mut c_char>,
}

impl Texts {
    /// `count` texts, or those before the first that is blank.
    ///
    /// # Safety
    /// The list has them.
    pub unsafe fn read(at: *mut c_char, length: usize, apart: usize, count: Option<usize>) -> Self {
        let mut texts = Vec::new();
        for index in 0..count.unwrap_or(usize::MAX) {
            // SAFETY: the caller's promise.
            let text = unsafe { Text::read(at.add(index * apart * length), length) };
            // SAFETY: it was made with an end.
            if count.is_none() && unsafe { text.at().read() } == 0 {
                break;
            }
            texts.push(text);
        }
        let ends = [core::ptr::null_mut()];
        let places = texts.iter().map(Text::at).chain(ends).collect();
        Self {
            _texts: texts,
            places,
        }
    }

    pub fn at(&mut self) -> *mut *mut c_char {
        self.places.as_mut_ptr()
    }
}

/// Room for a text that C gives.
pub struct Room([MaybeUninit<u8>; ROOM]);

impl Room {
    /// The longest text that has room, without its end.
    pub const LONGEST: c_int = ROOM as c_int - 1;

    pub fn new() -> Self {
        let mut room = [const { MaybeUninit::uninit() }; ROOM];
        room[0].write(0);
        Self(room)
    }

    pub fn at(&mut self) -> *mut c_char {
        self.0.as_mut_ptr().cast()
    }

    /// Writes the text to the program, if the call that gave it was right, with blanks behind it.
    ///
    /// # Safety
    /// The program has that much room.
    pub unsafe fn write(&mut self, to: *mut c_char, length: usize, code: c_int) {
        if code != 0 || to.is_null() {
            return;
        }
        // SAFETY: there is an end, at the latest the first byte.
        let text = unsafe { core::ffi::CStr::from_ptr(self.at()) }.to_bytes();
        let count = text.len().min(length);
        let to = to.cast::<u8>();
        // SAFETY: the caller's promise.
        unsafe {
            to.copy_from_nonoverlapping(text.as_ptr(), count);
            to.add(count).write_bytes(b' ', length - count);
        }
    }
}
