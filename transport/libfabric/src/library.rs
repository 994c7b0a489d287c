//! The loaded library and its six functions.

#![allow(
    unsafe_code,
    reason = "loading a library runs its initialisers, and the types of its symbols cannot be checked"
)]

use crate::error::Error;
use crate::native::{LoadError, Native, Symbols, text};
use crate::sys::attributes::{fi_fabric_attr, fi_info};
use crate::sys::objects::fid_fabric;
use core::ffi::{c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A version of libfabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The number before the point.
    pub major: u32,
    /// The number after the point.
    pub minor: u32,
}

impl Version {
    pub(crate) const fn from_packed(packed: u32) -> Self {
        Self {
            major: packed >> 16,
            minor: packed & 0xffff,
        }
    }

    pub(crate) const fn packed(self) -> u32 {
        self.major << 16 | self.minor
    }
}

impl core::fmt::Display for Version {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The requested version of the API, which newer libraries provide, too.
pub(crate) const API: Version = Version {
    major: 1,
    minor: 17,
};

static LIBFABRIC: Native = Native {
    name: "libfabric",
    file: "libfabric.so.1",
    wanted: "libfabric 1.17 or newer",
    install: "libfabric 1.17 or newer (Debian: libfabric1)",
};

/// A loaded libfabric. Cheap to clone; never unloaded.
#[derive(Clone)]
pub struct Library(Arc<Loaded>);

struct Loaded {
    path: PathBuf,
    version: Version,
    functions: Functions,
}

/// The functions that are looked up by name; all others are called through tables of functions.
pub(crate) struct Functions {
    pub(crate) getinfo: unsafe extern "C" fn(
        version: u32,
        node: *const c_char,
        service: *const c_char,
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int,
    pub(crate) freeinfo: unsafe extern "C" fn(info: *mut fi_info),
    pub(crate) dupinfo: unsafe extern "C" fn(info: *const fi_info) -> *mut fi_info,
    pub(crate) fabric: unsafe extern "C" fn(
        attributes: *mut fi_fabric_attr,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int,
    strerror: unsafe extern "C" fn(code: c_int) -> *const c_char,
}

impl core::fmt::Debug for Library {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "libfabric {} from {}",
            self.version(),
            self.path().display()
        )
    }
}

impl Library {
    /// Loads libfabric from the file `path`, by default `libfabric.so.1` of the
    /// loader's search path.
    ///
    /// Call it before other threads run: it sets the environment variable `IPATH_NO_BACKTRACE`.
    /// Without that variable, a library on which some builds of libfabric depend installs handlers
    /// for SIGSEGV and other signals.
    ///
    /// If a libfabric was loaded before under the same name, that one is used again. To use two
    /// files, load the default one first.
    ///
    /// # Errors
    /// See [`LoadError`].
    pub fn load(path: Option<&Path>) -> Result<Self, LoadError> {
        if std::env::var_os("IPATH_NO_BACKTRACE").is_none() {
            // SAFETY: the documentation requires a call before other threads run; threads of Rust's
            // library take the same lock.
            unsafe { std::env::set_var("IPATH_NO_BACKTRACE", "1") };
        }
        // SAFETY: libfabric's initialisers only prepare its own state.
        let symbols = unsafe { Symbols::load(&LIBFABRIC, path)? };
        // SAFETY: the types are those of libfabric's ABI for these versions.
        let (version, functions) = unsafe {
            let version: unsafe extern "C" fn() -> u32 =
                symbols.find(c"fi_version", c"FABRIC_1.0")?;
            let version = Version::from_packed(version());
            if version < API {
                return Err(symbols.too_old(version.to_string()));
            }
            let functions = Functions {
                getinfo: symbols.find(c"fi_getinfo", c"FABRIC_1.3")?,
                freeinfo: symbols.find(c"fi_freeinfo", c"FABRIC_1.3")?,
                dupinfo: symbols.find(c"fi_dupinfo", c"FABRIC_1.3")?,
                fabric: symbols.find(c"fi_fabric", c"FABRIC_1.1")?,
                strerror: symbols.find(c"fi_strerror", c"FABRIC_1.0")?,
            };
            (version, functions)
        };
        Ok(Self(Arc::new(Loaded {
            path: symbols.path().to_owned(),
            version,
            functions,
        })))
    }

    /// The version of the library.
    pub fn version(&self) -> Version {
        self.0.version
    }

    /// The path of the file, as it was given.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Whether both are the same loaded file: objects of two files cannot be mixed.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        core::ptr::fn_addr_eq(self.0.functions.getinfo, other.0.functions.getinfo)
    }

    pub(crate) fn functions(&self) -> &Functions {
        &self.0.functions
    }

    /// libfabric's text for an error code, positive or negative.
    pub(crate) fn words(&self, code: i32) -> String {
        // SAFETY: it returns a text for every code, which is never freed.
        unsafe { text((self.functions().strerror)(code.abs())) }
    }

    /// The error of a call that returned `status` (negative).
    #[cold]
    pub(crate) fn error(
        &self,
        attempted: impl Into<std::borrow::Cow<'static, str>>,
        status: i64,
    ) -> Error {
        let code = i32::try_from(status.abs()).unwrap_or(crate::sys::constants::FI_EOTHER);
        Error::new(attempted, code, self.words(code))
    }

    /// Turns the status of a call into a result.
    pub(crate) fn check(&self, attempted: &'static str, status: c_int) -> Result<(), Error> {
        if status < 0 {
            return Err(self.error(attempted, status.into()));
        }
        Ok(())
    }
}
