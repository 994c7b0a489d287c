//! PMIx, by its client library (the PMIx standard 4, chapters 5 to 8), which is loaded at run time.

#![allow(
    unsafe_code,
    reason = "loads libpmix, and calls its functions with structures of the standard"
)]

use crate::error::PmiError;
use core::ffi::{CStr, c_char, c_int};
use core::mem::ManuallyDrop;
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::env;
use std::ffi::CString;
use std::ptr;

/// The names of the library's files, the usual one first.
const FILES: [&str; 2] = ["libpmix.so.2", "libpmix.so"];
/// Of PMIx 2 to 5.
const NAMESPACE: &str = "PMIX_NAMESPACE";

pub fn is_named() -> bool {
    env::var_os(NAMESPACE).is_some()
}

type Status = c_int;
const SUCCESS: Status = 0;
const BOOL: u16 = 1;
const STRING: u16 = 3;
const UINT32: u16 = 14;
/// The value is for tasks on all hosts.
const GLOBAL: u8 = 3;
/// Stands for all tasks.
const RANK_WILDCARD: u32 = u32::MAX - 1;

/// `pmix_proc_t`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Task {
    namespace: [c_char; 256],
    rank: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
union Data {
    text: *mut c_char,
    unsigned: u32,
    flag: bool,
    /// The largest member is of this size.
    room: [u64; 3],
}

/// `pmix_value_t`.
#[repr(C)]
struct Value {
    kind: u16,
    data: Data,
}

/// `pmix_info_t`.
#[repr(C)]
struct Attribute {
    key: [c_char; 512],
    flags: u32,
    value: Value,
}

type Init = unsafe extern "C" fn(*mut Task, *mut Attribute, usize) -> Status;
type Put = unsafe extern "C" fn(u8, *const c_char, *mut Value) -> Status;
type Commit = unsafe extern "C" fn() -> Status;
type Fence = unsafe extern "C" fn(*const Task, usize, *const Attribute, usize) -> Status;
type Get = unsafe extern "C" fn(
    *const Task,
    *const c_char,
    *const Attribute,
    usize,
    *mut *mut Value,
) -> Status;
type Finalize = unsafe extern "C" fn(*const Attribute, usize) -> Status;
type ErrorString = unsafe extern "C" fn(Status) -> *const c_char;

#[derive(Debug)]
pub struct Client {
    /// Never unloaded: its threads run.
    library: ManuallyDrop<Library>,
    task: Task,
    size: u32,
}

fn unusable(why: impl ToString) -> PmiError {
    PmiError::Unusable {
        interface: "PMIx",
        why: why.to_string(),
    }
}

fn terminated(text: &str) -> Result<CString, PmiError> {
    CString::new(text).map_err(unusable)
}

impl Attribute {
    fn new(key: &CStr, kind: u16, data: Data) -> Self {
        let mut room = [0; 512];
        for (to, from) in room.iter_mut().zip(key.to_bytes()) {
            *to = *from as c_char;
        }
        let value = Value { kind, data };
        Self {
            key: room,
            flags: 0,
            value,
        }
    }
}

impl Data {
    const fn empty() -> Self {
        Self { room: [0; 3] }
    }
}

impl Client {
    /// Loads the library and connects to the server.
    pub fn begin() -> Result<Self, PmiError> {
        let mut missing = String::new();
        let mut found = None;
        for file in FILES {
            // SAFETY: the initialisers of libpmix do no harm. Its plugins look for its symbols,
            // hence `RTLD_GLOBAL`.
            match unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) } {
                Ok(library) => {
                    found = Some(library);
                    break;
                }
                Err(error) => missing = error.to_string(),
            }
        }
        let library = found.ok_or_else(|| {
            unusable(format_args!(
                "{missing}: install libpmix, or let its folder be in LD_LIBRARY_PATH"
            ))
        })?;
        let mut client = Self {
            library: ManuallyDrop::new(library),
            task: Task {
                namespace: [0; 256],
                rank: 0,
            },
            size: 0,
        };
        // SAFETY: the type is the one of the standard.
        let init = unsafe { client.find::<Init>(c"PMIx_Init") }?;
        let mut task = client.task;
        // SAFETY: the library fills in the task.
        client.check("PMIx_Init", unsafe {
            init(&raw mut task, ptr::null_mut(), 0)
        })?;
        client.task = task;
        client.size = client.read_size()?;
        Ok(client)
    }

    /// # Safety
    /// `T` is the type of this function.
    unsafe fn find<T: Copy>(&self, name: &CStr) -> Result<T, PmiError> {
        // SAFETY: as the caller promises; the library stays loaded.
        let symbol = unsafe { self.library.get::<T>(name.to_bytes_with_nul()) };
        symbol.map(|symbol| *symbol).map_err(unusable)
    }

    fn check(&self, what: &str, status: Status) -> Result<(), PmiError> {
        if status == SUCCESS {
            return Ok(());
        }
        // SAFETY: the type is the one of the standard.
        let words = match unsafe { self.find::<ErrorString>(c"PMIx_Error_string") } {
            // SAFETY: it returns a text that lives as long as the library.
            Ok(text) => unsafe { CStr::from_ptr(text(status)) }.to_string_lossy(),
            Err(_) => "unknown error".into(),
        };
        Err(unusable(format_args!("{what}: {words} ({status})")))
    }

    /// A value of a task, which `read` takes from it.
    fn value<T>(
        &self,
        rank: u32,
        key: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Result<T, PmiError> {
        let task = Task { rank, ..self.task };
        let name = terminated(key)?;
        // SAFETY: the type is the one of the standard.
        let get = unsafe { self.find::<Get>(c"PMIx_Get") }?;
        let mut value: *mut Value = ptr::null_mut();
        // SAFETY: the pointers are of things that outlive the call.
        let status = unsafe {
            get(
                &raw const task,
                name.as_ptr(),
                ptr::null(),
                0,
                &raw mut value,
            )
        };
        self.check(&format!("PMIx_Get of {key} of task {rank}"), status)?;
        // The few values that a task reads are not freed: how to do so differs between versions.
        // SAFETY: the library has made a value.
        let value = unsafe { value.as_ref() };
        let value = value.and_then(read);
        value.ok_or_else(|| unusable(format_args!("{key} of task {rank} is of another type")))
    }

    fn read_size(&self) -> Result<u32, PmiError> {
        self.value(RANK_WILDCARD, "pmix.job.size", |value| {
            match value.kind {
                // SAFETY: the kind says which member is valid.
                UINT32 => Some(unsafe { value.data.unsigned }),
                _ => None,
            }
        })
    }

    pub fn rank(&self) -> u32 {
        self.task.rank
    }

    pub fn size(&self) -> u32 {
        self.size
    }

    pub fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        let (name, text) = (terminated(key)?, terminated(value)?);
        let mut data = Data::empty();
        data.text = text.as_ptr().cast_mut();
        let mut value = Value { kind: STRING, data };
        // SAFETY: the types are those of the standard.
        let (put, commit) = unsafe {
            (
                self.find::<Put>(c"PMIx_Put")?,
                self.find::<Commit>(c"PMIx_Commit")?,
            )
        };
        // SAFETY: the library copies the value.
        self.check("PMIx_Put", unsafe {
            put(GLOBAL, name.as_ptr(), &raw mut value)
        })?;
        // SAFETY: it has no arguments.
        self.check("PMIx_Commit", unsafe { commit() })
    }

    pub fn get(&mut self, rank: u32, key: &str) -> Result<String, PmiError> {
        self.value(rank, key, |value| {
            // SAFETY: the kind says which member is valid; the text ends in NUL.
            let text =
                (value.kind == STRING).then(|| unsafe { CStr::from_ptr(value.data.text) })?;
            Some(text.to_string_lossy().into_owned())
        })
    }

    pub fn fence(&mut self) -> Result<(), PmiError> {
        let all = Task {
            rank: RANK_WILDCARD,
            ..self.task
        };
        let mut data = Data::empty();
        data.flag = true;
        let collects = Attribute::new(c"pmix.collect", BOOL, data);
        // SAFETY: the type is the one of the standard.
        let fence = unsafe { self.find::<Fence>(c"PMIx_Fence") }?;
        // SAFETY: the pointers are of things that outlive the call.
        let status = unsafe { fence(&raw const all, 1, &raw const collects, 1) };
        self.check("PMIx_Fence", status)
    }

    pub fn finish(self) -> Result<(), PmiError> {
        // SAFETY: the type is the one of the standard.
        let finalize = unsafe { self.find::<Finalize>(c"PMIx_Finalize") }?;
        // SAFETY: there are no attributes.
        let status = unsafe { finalize(ptr::null(), 0) };
        self.check("PMIx_Finalize", status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes and places of the standard's structures, as a C compiler has them.
    #[test]
    fn structures_have_the_layout_of_the_standard() {
        assert_eq!(size_of::<Task>(), 260);
        assert_eq!(
            (size_of::<Value>(), core::mem::offset_of!(Value, data)),
            (32, 8)
        );
        assert_eq!(size_of::<Attribute>(), 552);
        assert_eq!(core::mem::offset_of!(Attribute, flags), 512);
        assert_eq!(core::mem::offset_of!(Attribute, value), 520);
    }
}
