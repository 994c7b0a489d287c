//! A loaded library: its symbols, each looked up in its version.

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
    // As `dlopen` gave it: valid for ever.
    handle: *mut c_void,
}

impl Symbols {
    /// Loads the library from the file `path`, by default [`Native::file`] of the
    /// loader's search path. A path with a folder is that file alone; a bare name is
    /// looked for by the loader.
    ///
    /// # Errors
    /// See [`LoadError`].
    ///
    /// # Safety
    /// The initialisers of the library do no harm. Those of another library, named by
    /// mistake, are trusted as the name is.
    pub unsafe fn load(native: &'static Native, path: Option<&Path>) -> Result<Self, LoadError> {
        let path = path.unwrap_or(Path::new(native.file));
        // SAFETY: the caller answers for the initialisers.
        let library =
            unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }.map_err(|error| {
                let obstacle = obstacle(path, &error);
                LoadError::new(native, path, obstacle)
            })?;
        // Not unloaded any more: what the library has loaded, started or registered
        // for the end of the process refers to it.
        let handle = library.into_raw();
        Ok(Self {
            native,
            path: path.to_owned(),
            handle,
        })
    }

    /// The file, as it was asked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Looks up a symbol of a version: structures differ between versions.
    ///
    /// # Errors
    /// The library has none: [`Obstacle::Another`].
    ///
    /// # Safety
    /// `T` is the type of a function pointer, and the one that the symbol has.
    pub unsafe fn find<T>(&self, name: &CStr, version: &CStr) -> Result<T, LoadError> {
        const { assert!(size_of::<T>() == size_of::<*mut c_void>()) };
        // SAFETY: the handle is that of an open library, the names end in NUL.
        let symbol = unsafe { libc::dlvsym(self.handle, name.as_ptr(), version.as_ptr()) };
        if symbol.is_null() {
            let (name, version) = (name.to_string_lossy(), version.to_string_lossy());
            let symbol = format!("{name}@{version}");
            return Err(self.refused(Obstacle::Another { symbol }));
        }
        // SAFETY: the caller names the symbol's type; sizes are equal.
        Ok(unsafe { core::mem::transmute_copy(&symbol) })
    }

    /// The library is too old to be used.
    pub fn too_old(&self, version: String) -> LoadError {
        self.refused(Obstacle::TooOld { version })
    }

    fn refused(&self, obstacle: Obstacle) -> LoadError {
        LoadError::new(self.native, &self.path, obstacle)
    }
}

/// The loader reports only text.
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

/// The text that a C string holds; empty for null.
///
/// # Safety
/// `text` is null or ends in NUL and stays as it is during the call.
pub unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned()
}
