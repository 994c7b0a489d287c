//! No file or folder has a name without a subject.

use crate::report::Finding::{self, Wrong};
use crate::tree::Tree;

const EMPTY_NAMES: [&str; 8] = [
    "util", "utils", "common", "helper", "helpers", "manager", "managers", "misc",
];

/// Runs the check.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.paths()
        .filter(|path| path.split('/').any(says_nothing))
        .map(|path| Wrong(format!("{path}: name it for its subject")))
        .collect()
}

fn says_nothing(component: &str) -> bool {
    let stem = component
        .split('.')
        .next()
        .unwrap_or(component)
        .to_ascii_lowercase();
    stem.split(['_', '-'])
        .any(|word| EMPTY_NAMES.contains(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_them_as_file_folder_and_part() {
        let tree = Tree::of(&[
            ("a/src/util.rs", ""),
            ("a/tests/common/mod.rs", ""),
            ("a/src/job_manager.rs", ""),
            ("a/src/commonality.rs", ""),
            ("a/src/matching.rs", ""),
        ]);
        assert_eq!(check(&tree).len(), 3);
    }
}
