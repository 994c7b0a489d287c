//! Files that are no libibverbs give one clear error each.

use refrain_libfabric::native::Obstacle;
use refrain_verbs::Library;
use std::path::Path;

#[test]
fn a_file_that_is_no_libibverbs_is_named_with_what_to_do() {
    for (path, remedy) in [
        ("/nowhere/libibverbs.so.1", "install rdma-core"),
        ("libm.so.6", "name the file of libibverbs"),
    ] {
        let error = Library::load(Some(Path::new(path))).expect_err("no libibverbs");
        let is_another = matches!(error.obstacle(), Obstacle::Another { .. });
        assert_eq!(is_another, path == "libm.so.6", "{error:?}");
        let text = error.to_string();
        for word in ["cannot load libibverbs: ", path, remedy] {
            assert!(text.contains(word), "{word:?} in {text}");
        }
    }
}
