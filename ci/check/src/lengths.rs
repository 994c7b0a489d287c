//! Source files do not exceed a length, and `ARCHITECTURE.md` fits a screen.

use crate::report::Finding::{self, Note, Wrong};
use crate::tree::Tree;

const SOURCE_LINES_MAX: usize = 700;
const MAP: &str = "ARCHITECTURE.md";
const MAP_LINES_MAX: usize = 60;

/// Runs the check.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.rust_files() {
        let lines = text.lines().count();
        if lines > SOURCE_LINES_MAX {
            findings.push(Note(format!(
                "{path} has {lines} lines: more than one subject?"
            )));
        }
    }
    match tree.text(MAP).map(|text| text.lines().count()) {
        None => findings.push(Wrong(format!("{MAP} is missing"))),
        Some(lines) if lines > MAP_LINES_MAX => {
            findings.push(Wrong(format!(
                "{MAP} has {lines} lines, a screen is {MAP_LINES_MAX}"
            )));
        }
        Some(_) => {}
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_inclusive() {
        let run = |map_lines, source_lines| {
            let (map, source) = ("x\n".repeat(map_lines), "\n".repeat(source_lines));
            check(&Tree::of(&[(MAP, &map), ("a/src/m.rs", &source)]))
        };
        assert_eq!(run(60, 700), []);
        assert!(matches!(run(61, 700)[..], [Wrong(_)]));
        assert!(matches!(run(60, 701)[..], [Note(_)]));
        assert!(matches!(check(&Tree::of(&[("a.rs", "")]))[..], [Wrong(_)]));
    }
}
