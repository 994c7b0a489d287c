//! The test program `tests/programs/survivor.rs`.

use crate::launched::test_rank;

pub fn path() -> String {
    let path = test_rank().with_file_name("refrain-test-survivor");
    assert!(path.is_file(), "{} is built by cargo test", path.display());
    path.to_str().expect("text").to_owned()
}
