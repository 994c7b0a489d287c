//! Files that are not the library give one clear error each.

#![allow(unsafe_code, reason = "loads libraries")]

use refrain_libfabric::native::{LoadError, Native, Obstacle, Symbols};
use std::path::Path;

static NATIVE: Native = Native {
    name: "libpigeon",
    file: "libpigeon-of-carriers.so.1",
    wanted: "libpigeon 2 or newer",
    install: "libpigeon 2 (Debian: libpigeon2)",
};

fn load(path: Option<&Path>) -> Result<Symbols, LoadError> {
    // SAFETY: of the files below, only libm is a library.
    unsafe { Symbols::load(&NATIVE, path) }
}

fn refused(path: &str) -> LoadError {
    let error = load(Some(Path::new(path))).expect_err("no such library");
    println!("{error}");
    let text = error.to_string();
    assert_eq!(text.lines().count(), 1);
    for word in ["cannot load libpigeon: ", path, "libpigeon 2"] {
        assert!(text.contains(word), "{word:?} in {text}");
    }
    assert_eq!(
        text,
        format!("cannot {}: {}", error.attempted(), error.words())
    );
    error
}

#[test]
fn a_file_that_is_not_there_is_missing() {
    for path in ["/nowhere/libpigeon.so.2", "libpigeon-that-is-nowhere.so.2"] {
        let error = refused(path);
        assert!(
            matches!(error.obstacle(), Obstacle::Missing { .. }),
            "{error:?}"
        );
        assert!(error.words().contains("install libpigeon 2"), "{error}");
    }
}

#[test]
fn where_none_is_named_the_usual_file_is_looked_for() {
    let error = load(None).expect_err("nobody has it");
    assert!(error.words().starts_with(NATIVE.file), "{error}");
}

#[test]
fn files_that_are_no_library_are_not_loadable() {
    let empty = tempfile::NamedTempFile::new().unwrap();
    let of_this_crate = |name| Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    for path in [
        of_this_crate("Cargo.toml"),
        of_this_crate("src"),
        empty.path().to_owned(),
    ] {
        let error = refused(path.to_str().unwrap());
        assert!(
            matches!(error.obstacle(), Obstacle::NotLoadable { .. }),
            "{error:?}"
        );
        assert!(error.words().contains("name the file"), "{error}");
    }
}

#[test]
fn another_library_lacks_a_symbol() {
    let path = "libm.so.6";
    let symbols = load(Some(Path::new(path))).expect("the C library is everywhere");
    assert_eq!(symbols.path(), Path::new(path));
    // SAFETY: the functions are never called; the last one is not found.
    let found = unsafe {
        symbols
            .find::<unsafe extern "C" fn()>(c"cos", c"GLIBC_99")
            .map(drop)
    };
    let error = found.expect_err("no such version");
    let symbol = "cos@GLIBC_99".to_owned();
    assert_eq!(error.obstacle(), &Obstacle::Another { symbol });
    let words = "libm.so.6 is a library but not libpigeon (it has no cos@GLIBC_99)";
    assert!(error.words().contains(words), "{error}");
}

#[test]
fn an_old_library_is_told_with_its_version() {
    let symbols = load(Some(Path::new("libm.so.6"))).unwrap();
    let text = symbols.too_old("1.9".into()).to_string();
    for word in [
        "libm.so.6 has version 1.9",
        "install libpigeon 2",
        "its file",
    ] {
        assert!(text.contains(word), "{word:?} in {text}");
    }
}
