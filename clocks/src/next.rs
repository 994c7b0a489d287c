//! What the C library, or a library preloaded behind this one, has of the same names.
//! Looked up once: `clock_gettime` leads to the kernel's page (vDSO) then, as ever.

#![allow(
    unsafe_code,
    reason = "calls functions that the dynamic linker finds by name"
)]

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A function of that name behind this library.
pub struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Self {
        Self {
            name,
            found: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Its address; null: there is none.
    #[inline]
    pub fn address(&self) -> *mut c_void {
        match self.found.load(Ordering::Relaxed) {
            found if found.is_null() => self.look_up(),
            found => found,
        }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Declares functions that call what the C library has of that name. Where it has
/// none they return the value behind `else`.
macro_rules! next {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, else $none:expr;)*) => {$(
        /// # Safety
        /// As the C library's.
        #[inline]
        pub unsafe fn $name($($argument: $type),*) -> $result {
            static NEXT: $crate::next::Next = $crate::next::Next::new(
                match ::core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => c"",
                },
            );
            let address = NEXT.address();
            if address.is_null() {
                return $none;
            }
            // SAFETY: the function of that name has this type in every C library.
            let function = unsafe {
                ::core::mem::transmute::<
                    *mut ::core::ffi::c_void,
                    unsafe extern "C" fn($($type),*) -> $result,
                >(address)
            };
            // SAFETY: as the caller promises.
            unsafe { function($($argument),*) }
        }
    )*};
}
pub(crate) use next;
