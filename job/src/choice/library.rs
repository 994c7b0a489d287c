//! The file from which a native library is loaded: the one on the command line, else the one in
//! the environment, else the one that the loader finds.

use crate::JobError;
use crate::config::JobConfig;
use std::ffi::OsString;
use std::path::PathBuf;

/// A native library whose file can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamedLibrary {
    /// The option for the file.
    pub option: &'static str,
    /// The environment variable for the file, used if the option is not given.
    pub variable: &'static str,
    /// The name that the loader searches if neither is given.
    pub file: &'static str,
}

/// The library of the fabric `ofi`.
pub const LIBFABRIC: NamedLibrary = NamedLibrary {
    option: "--libfabric",
    variable: "REFRAIN_LIBFABRIC",
    file: "libfabric.so.1",
};

/// The library of the fabric `verbs`.
pub const LIBIBVERBS: NamedLibrary = NamedLibrary {
    option: "--libibverbs",
    variable: "REFRAIN_LIBIBVERBS",
    file: "libibverbs.so.1",
};

/// Fills in files from the environment, and makes paths absolute, since a rank may change its
/// folder.
///
/// # Errors
/// [`JobError::Config`]: a name that cannot be passed on.
pub fn resolve(config: &mut JobConfig) -> Result<(), JobError> {
    LIBFABRIC.resolve(&mut config.libfabric)?;
    LIBIBVERBS.resolve(&mut config.verbs.library)
}

impl NamedLibrary {
    /// The file in the environment variable.
    pub fn of_environment(&self) -> Option<OsString> {
        std::env::var_os(self.variable).filter(|file| !file.is_empty())
    }

    /// The given file, else the one in the environment variable.
    pub fn or_of_environment(&self, given: Option<PathBuf>) -> Option<PathBuf> {
        given.or_else(|| Some(self.of_environment()?.into()))
    }

    /// Fills in the file from the environment of this process, if none is given.
    pub fn fill_in(&self, given: &mut Option<String>) {
        let of_environment = || self.of_environment()?.into_string().ok();
        *given = given.take().or_else(of_environment);
    }

    fn resolve(&self, given: &mut Option<String>) -> Result<(), JobError> {
        let given_file = given.take().map(Into::into);
        let Some(mut file) = self.or_of_environment(given_file) else {
            return Ok(());
        };
        // The loader searches for a name without a folder in its own folders.
        if file.as_os_str().as_encoded_bytes().contains(&b'/') {
            file = std::path::absolute(&file).unwrap_or(file);
        }
        let file = file.into_os_string().into_string().map_err(|file| {
            JobError::Config(format!(
                "the library file {} cannot be passed to ranks: its name is not UTF-8",
                file.display()
            ))
        })?;
        *given = Some(file);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_in_a_folder_gets_a_whole_path_and_a_bare_name_stays() {
        let named = |file: &str| {
            let mut config = JobConfig {
                libfabric: Some(file.into()),
                ..JobConfig::default()
            };
            config.verbs.library = Some(format!("{file}.verbs"));
            resolve(&mut config).unwrap();
            let verbs = config.verbs.library.unwrap();
            let (libfabric, _) = verbs.rsplit_once(".verbs").unwrap();
            assert_eq!(config.libfabric.as_deref(), Some(libfabric));
            libfabric.to_owned()
        };
        assert_eq!(named("libfabric.so.2"), "libfabric.so.2");
        assert_eq!(named("/a/b.so"), "/a/b.so");
        assert!(named("./b.so").starts_with('/'));
    }
}
