//! A loaded library, whose symbols are looked up by name and version.

#![allow(
    unsafe_code,
    reason = "loading a library runs its initialisers, and the types of its symbols cannot be checked"
)]

use super::load_error::{LoadError, Native, Obstacle};
use core::ffi::{CStr, c_char, c_void};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::path::{Path, PathBuf};

/// A loaded library; it is never unloaded.
#[derive(Debug)]
pub struct Symbols {
    native: &'static Native,
    path: PathBuf,
    // The handle of `dlopen`, which stays valid forever.
    handle: *mut c_void,
}

impl Symbols {
    /// Loads the library from the file `path`, by default [`Native::file`] of the loader's search
    /// path. A path with a folder names that file alone; the loader searches for a bare name.
    ///
    /// # Errors
    /// See [`LoadError`].
    ///
    /// # Safety
    /// The initialisers of the library must do no harm. If `path` names another library by mistake,
    /// its initialisers run, too.
    pub unsafe fn load(native: &'static Native, path: Option<&Path>) -> Result<Self, LoadError> {
        let path = path.unwrap_or(Path::new(native.file));
        // SAFETY: the caller is responsible for the initialisers.
        let library =
            unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
                let obstacle = obstacle(path, &error);
                LoadError::new(native, path, obstacle)
            })?;
        // The library is never unloaded: other libraries, threads and exit handlers may refer to
        // it.
        let handle = library.into_raw();
        Ok(Self {
            native,
            path: path.to_owned(),
            handle,
        })
    }

    /// The path of the file, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks up a symbol of a version; structures differ between versions.
    ///
    /// # Errors
    /// [`Obstacle::Another`] when the library has no such symbol.
    ///
    /// # Safety
    /// `T` must be the type of a function pointer, and the type of the symbol.
    pub unsafe fn find<T>(&self, name: &CStr, version: &CStr) -> Result<T, LoadError> {
        const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle belongs to an open library, and the names end in NUL.
        let symbol = unsafe { libc::dlvsym(self.handle, name.as_ptr(), version.as_ptr()) };
        if symbol.is_null() {
            let (name, version) = (name.to_string_lossy(), version.to_string_lossy());
            let symbol = format!("{name}@{version}");
            return Err(self.refused(Obstacle::Another { symbol }));
        }
        // SAFETY: the caller gives the symbol's type; both sizes are equal.
        Ok(unsafe { core::mem::transmute_copy(&symbol) })
    }

    /// The error for a library that is too old.
    pub fn too_old(&self, version: String) -> LoadError {
        self.refused(Obstacle::TooOld { version })
    }

    fn refused(&self, obstacle: Obstacle) -> LoadError {
        LoadError::new(self.native, &self.path, obstacle)
    }
}

/// Derives the obstacle from the loader's error, which is only text.
fn obstacle(path: &Path, error: &libloading::Error) -> Obstacle {
    let words = std::error::Error::source(error)
        .map_or_else(|| error.to_string(), |source| source.to_string());
    let is_a_file_name = path.components().count() == 1;
    // If the file exists and needs another library that is missing, the loader reports
    // "cannot open shared object file" about that library.
    let is_missing = if is_a_file_name {
        words.starts_with(&*path.to_string_lossy()) && words.contains("cannot open shared object")
    } else {
        !path.exists()
    };
    if is_missing {
        Obstacle::Missing { words }
    } else {
        Obstacle::NotLoadable { words }
    }
}

/// The text of a C string; empty for null.
///
/// # Safety
/// `text` is null, or ends in NUL and does not change during the call.
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
