//! The functions of the same names in the C library, or in a library that is preloaded after
//! this one. Each is looked up once; `clock_gettime` still uses the kernel's vDSO.

#![allow(
    unsafe_code,
    reason = "calls functions that the dynamic linker finds by name"
)]

use core::ffi::{CStr, c_void};
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// A function of this name that comes after this library's in the order of lookup.
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

    /// Address of the function; null: there is none.
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

/// Declares functions that call the C library's function of the same name. If it is missing, they
/// return the value after `else`.
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
