//! Files that are no usable libfabric give one clear error each.

use refrain_libfabric::native::{LoadError, Obstacle};
use refrain_libfabric::{Error, Hints, Library};
use std::path::Path;

fn error_of(path: &Path) -> LoadError {
    let error = Library::load(Some(path)).expect_err("no libfabric");
    println!("{error}");
    let text = error.to_string();
    assert!(text.contains(&*path.to_string_lossy()), "{text}");
    assert!(text.contains("1.17"), "says what to install: {text}");
    assert_eq!(text.lines().count(), 1);
    error
}

#[test]
fn a_file_that_is_not_there() {
    for path in [
        "/nowhere/libfabric.so.1",
        "libfabric-that-is-not-there.so.1",
    ] {
        let error = error_of(Path::new(path));
        assert!(
            matches!(error.obstacle(), Obstacle::Missing { .. }),
            "{error:?}"
        );
    }
}

#[test]
fn a_library_that_is_no_libfabric() {
    let error = error_of(Path::new("libm.so.6"));
    assert!(
        matches!(error.obstacle(), Obstacle::Another { .. }),
        "{error:?}"
    );
}

#[test]
fn a_library_is_cheap_to_clone_and_says_where_it_is_from() {
    let Some(library) = installed() else { return };
    assert_eq!(library.path(), Path::new("libfabric.so.1"));
    assert_eq!(library.clone().version(), library.version());
    assert!(library.version().to_string().as_str() >= "1.17");
    assert!(std::env::var_os("IPATH_NO_BACKTRACE").is_some());
}

#[test]
fn a_provider_that_nobody_has() {
    let Some(library) = installed() else { return };
    let hints = Hints {
        provider: Some("carrier-pigeon".to_owned()),
        ..Hints::default()
    };
    let error: Error = library.infos(&hints).expect_err("no such provider");
    println!("{error}");
    assert!(error.is_no_data());
    assert!(error.attempted().contains("carrier-pigeon"));
    assert!(!error.words().is_empty());
}

#[test]
fn a_zero_byte_in_a_name() {
    let Some(library) = installed() else { return };
    let hints = Hints {
        provider: Some("tcp\0".to_owned()),
        ..Hints::default()
    };
    assert!(library.infos(&hints).is_err());
}

fn installed() -> Option<Library> {
    Library::load(None)
        .inspect_err(|error| println!("skipped libfabric: {error}"))
        .ok()
}
