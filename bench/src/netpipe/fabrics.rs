//! Names of `--fabric` and `--libfabric`.

use crate::error::BenchError;
use refrain_job::choice::library::{LIBFABRIC, NamedLibrary};
use std::path::{Path, PathBuf};

/// Prefix of the names of fabrics that use libfabric.
const OFI: &str = "ofi:";

/// The provider in the name of a fabric; `None`: the fabric does not use libfabric.
pub fn provider(fabric: &str) -> Option<&str> {
    fabric
        .strip_prefix(OFI)
        .filter(|provider| !provider.is_empty())
}

/// Whether the ranks choose the fabric or provider themselves.
pub fn is_open(fabric: &str) -> bool {
    fabric == "auto" || fabric == OFI.trim_end_matches(':')
}

/// The file of a library that the command line or the environment names; `None`: the installed
/// one.
pub fn library(named: &NamedLibrary, given: Option<String>) -> Result<Option<String>, BenchError> {
    let environment = || named.of_environment()?.into_string().ok();
    let Some(library) = given.or_else(environment).filter(|name| !name.is_empty()) else {
        return Ok(None);
    };
    // The loader searches for a name without a folder.
    if library.contains('/') && !Path::new(&library).is_file() {
        return Err(BenchError::option(
            named.option,
            format!("there is no file {library}"),
            format!(
                "name the library itself, such as /opt/lib/{}, by this option or {}",
                named.file, named.variable
            ),
        ));
    }
    Ok(Some(library))
}

/// The name under which programs that are linked to libfabric look for it.
const SONAME: &str = LIBFABRIC.file;

/// The folder in which the loader finds `library` under its usual name; `None`: the loader
/// searches there anyway.
///
/// # Errors
/// The loader would find another file, or none.
pub fn search_folder(library: Option<&Path>) -> Result<Option<PathBuf>, String> {
    let Some(library) = library.filter(|library| library.as_os_str() != SONAME) else {
        return Ok(None);
    };
    let file = library
        .canonicalize()
        .map_err(|error| format!("{}: {error}", library.display()))?;
    let beside = |path: &Path| path.parent().map(Path::to_owned);
    [beside(library), beside(&file)]
        .into_iter()
        .flatten()
        .filter_map(|folder| folder.canonicalize().ok())
        .find(|folder| {
            folder
                .join(SONAME)
                .canonicalize()
                .is_ok_and(|found| found == file)
        })
        .map(Some)
        .ok_or_else(|| {
            format!(
                "{} is not called {SONAME} in its folder, so other programs cannot use it",
                library.display()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn providers_are_named_behind_a_colon() {
        assert_eq!(provider("ofi:tcp;ofi_rxm"), Some("tcp;ofi_rxm"));
        for fabric in ["shm", "auto", "ofi", "ofi:"] {
            assert_eq!(provider(fabric), None, "{fabric}");
        }
        assert!(is_open("auto") && is_open("ofi"));
        assert!(!is_open("shm") && !is_open("ofi:tcp"));
    }

    #[test]
    fn a_library_is_found_by_its_usual_name_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("libfabric.so.1.29.0"), "").unwrap();
        fs::write(path("libfabric-old.so"), "").unwrap();
        symlink("libfabric.so.1.29.0", path("libfabric.so.1")).unwrap();
        symlink("libfabric.so.1", path("libfabric.so")).unwrap();
        let own = folder.path().canonicalize().unwrap();
        for name in ["libfabric.so", "libfabric.so.1", "libfabric.so.1.29.0"] {
            let found = search_folder(Some(&path(name)));
            assert_eq!(found, Ok(Some(own.clone())), "{name}");
        }
        for name in ["libfabric-old.so", "libfabric.so.2"] {
            assert!(search_folder(Some(&path(name))).is_err(), "{name}");
        }
        assert_eq!(search_folder(None), Ok(None));
        assert_eq!(search_folder(Some(Path::new(SONAME))), Ok(None));
    }

    #[test]
    fn a_library_must_be_there_before_minutes_of_measuring() {
        let missing = library(&LIBFABRIC, Some("/no/such/libfabric.so.1".into())).unwrap_err();
        assert!(missing.to_string().contains("/no/such"), "{missing}");
        assert_eq!(
            library(&LIBFABRIC, Some("libfabric.so.1".into())).unwrap(),
            Some("libfabric.so.1".into())
        );
    }
}
