//! Types of the ABI.

#![allow(unsafe_code, reason = "reads and writes numbers of programs in C")]

use core::ffi::{c_char, c_int, c_void};

/// Defines handles: numbers that look like pointers.
macro_rules! handles {
    ($($name:ident),*) => {$(
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(transparent)]
        pub struct $name(pub usize);
    )*};
}

handles!(
    Comm,
    Datatype,
    Errhandler,
    File,
    Group,
    Info,
    Message,
    Op,
    Request,
    Session,
    Win,
    Tenum,
    Tcvarhandle,
    Tpvarhandle,
    Tpvarsession,
    Teventregistration,
    Teventinstance
);

pub type Tcbsafety = c_int;
pub type Tsourceorder = c_int;

/// `MPI_Status`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Status {
    pub source: c_int,
    pub tag: c_int,
    pub error: c_int,
    /// Low and high half of the number of bytes.
    bytes: [u32; 2],
    pub cancelled: c_int,
    unused: [c_int; 2],
}

const _: () = assert!(size_of::<Status>() == 32);

impl Status {
    pub fn new(source: c_int, tag: c_int, bytes: u64) -> Self {
        let mut status = Self {
            source,
            tag,
            error: 0,
            bytes: [0; 2],
            cancelled: 0,
            unused: [0; 2],
        };
        status.set_bytes(bytes);
        status
    }

    pub fn bytes(&self) -> u64 {
        u64::from(self.bytes[0]) | u64::from(self.bytes[1]) << 32
    }

    pub fn set_bytes(&mut self, bytes: u64) {
        self.bytes = [bytes as u32, (bytes >> 32) as u32];
    }
}

/// A list of numbers of the program; null: none.
#[derive(Clone, Copy, Debug)]
pub enum Numbers {
    Int(*const c_int),
    Long(*const i64),
}

impl Numbers {
    /// The first `count` numbers; none of a null list.
    ///
    /// # Safety
    /// The list has that many, unless it is null.
    pub unsafe fn read(self, count: usize) -> Vec<i64> {
        match self {
            // SAFETY: the caller's promise.
            Self::Int(at) => unsafe { list(at, count) }
                .iter()
                .map(|it| i64::from(*it))
                .collect(),
            // SAFETY: likewise.
            Self::Long(at) => unsafe { list(at, count) }.to_vec(),
        }
    }
}

/// `count` values of the program; none if the pointer is null.
///
/// # Safety
/// The list has that many, unless it is null, and stays unchanged as long as the result is used.
pub unsafe fn list<'a, T>(at: *const T, count: usize) -> &'a [T] {
    match at.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { core::slice::from_raw_parts(at, count) },
    }
}

/// As [`list`], to write.
///
/// # Safety
/// As [`list`].
pub unsafe fn list_mut<'a, T>(at: *mut T, count: usize) -> &'a mut [T] {
    match at.is_null() {
        true => &mut [],
        // SAFETY: the caller's promise.
        false => unsafe { core::slice::from_raw_parts_mut(at, count) },
    }
}

/// A place for a number, or for several.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    Int(*mut c_int),
    Long(*mut i64),
}

impl Place {
    /// Writes a number. One that does not fit is `MPI_UNDEFINED`.
    pub fn set(self, value: i64) {
        match self {
            Self::Int(at) => put(
                at,
                c_int::try_from(value).unwrap_or(super::exports::UNDEFINED),
            ),
            Self::Long(at) => put(at, value),
        }
    }

    /// The number that is there.
    ///
    /// # Safety
    /// It can be read.
    pub unsafe fn get(self) -> i64 {
        match self {
            // SAFETY: the caller's promise.
            Self::Int(at) => i64::from(unsafe { at.read() }),
            // SAFETY: likewise.
            Self::Long(at) => unsafe { at.read() },
        }
    }
}

/// Writes to a place of the program; null drops the value. Each function that has such a place in
/// its parameters asks the program that it can be written.
#[inline]
pub fn put<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the standard asks it of the program.
        unsafe { place.write(value) }
    }
}

/// Writes the status of a call on one operation: its error field stays as it is (MPI-5.0, section
/// 3.2.5). Null drops it.
#[inline]
pub fn put_status(place: *mut Status, status: Status) {
    if place.is_null() {
        return;
    }
    // SAFETY: the standard asks it of the program.
    unsafe {
        (*place).source = status.source;
        (*place).tag = status.tag;
        (*place).bytes = status.bytes;
        (*place).cancelled = status.cancelled;
    }
}

/// The object whose error handler gets an error.
#[derive(Clone, Copy, Debug)]
pub enum Subject {
    Comm(Comm),
    Session(Session),
    /// A file, of which there are none yet: errors are returned (MPI-5.0, section 14.7).
    File,
    /// A communicator that the call would make, with this error handler.
    New(Errhandler),
    None,
}

/// How a collective starts.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    Blocking,
    Begun(*mut Request),
    Prepared(*mut Request),
}

pub type Userfunction = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut c_int, *mut Datatype);
pub type Userfunctionc = unsafe extern "C" fn(*mut c_void, *mut c_void, *mut i64, *mut Datatype);
/// Copies an attribute of an object, whose handle is a number in each case.
pub type CopyAttribute =
    unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void, *mut c_void, *mut c_int) -> c_int;
/// Deletes an attribute of an object.
pub type DeleteAttribute = unsafe extern "C" fn(usize, c_int, *mut c_void, *mut c_void) -> c_int;
pub type Commcopyattrfunction = CopyAttribute;
pub type Typecopyattrfunction = CopyAttribute;
pub type Wincopyattrfunction = CopyAttribute;
pub type Copyfunction = CopyAttribute;
pub type Commdeleteattrfunction = DeleteAttribute;
pub type Typedeleteattrfunction = DeleteAttribute;
pub type Windeleteattrfunction = DeleteAttribute;
pub type Deletefunction = DeleteAttribute;
/// Handles an error: gets the handle of the object and the code.
pub type HandleError = unsafe extern "C" fn(*mut usize, *mut c_int);
pub type Commerrhandlerfunction = HandleError;
pub type Fileerrhandlerfunction = HandleError;
pub type Sessionerrhandlerfunction = HandleError;
pub type Winerrhandlerfunction = HandleError;
pub type Grequestqueryfunction = unsafe extern "C" fn(*mut c_void, *mut Status) -> c_int;
pub type Grequestfreefunction = unsafe extern "C" fn(*mut c_void) -> c_int;
pub type Grequestcancelfunction = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
/// Functions that are stored or called by nothing yet.
pub type Unused = unsafe extern "C" fn();
pub type Datarepextentfunction = Unused;
pub type Datarepconversionfunction = Unused;
pub type Datarepconversionfunctionc = Unused;
pub type Teventcbfunction = Unused;
pub type Teventfreecbfunction = Unused;
pub type Teventdroppedcbfunction = Unused;

/// Copies a text to the program, with its end; `room` includes the end.
pub fn put_text(place: *mut c_char, text: impl AsRef<[u8]>, room: usize) -> usize {
    let text = text.as_ref();
    let end = text.len().min(room.saturating_sub(1));
    if !place.is_null() && room > 0 {
        // SAFETY: the standard asks the program for this room.
        unsafe {
            place.copy_from_nonoverlapping(text.as_ptr().cast(), end);
            place.add(end).write(0);
        }
    }
    end
}

/// A text of the program, in any encoding; `None` for a null pointer.
///
/// # Safety
/// The text ends with a zero.
pub unsafe fn text(at: *const c_char) -> Option<Vec<u8>> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { core::ffi::CStr::from_ptr(at) };
    Some(text.to_bytes().to_vec())
}
