//! `unsafe` is used only in modules that `ci/unsafe-modules.txt` lists, and each use states why it
//! is sound.

use crate::list_file::entries;
use crate::report::Finding::{self, Wrong};
use crate::rust_source::{RustSource, UnsafeKind};
use crate::tree::Tree;
use std::collections::BTreeSet;

const LIST: &str = "ci/unsafe-modules.txt";

/// Runs the check.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let listed: Vec<_> = entries(tree.text(LIST).unwrap_or_default()).collect();
    let mut with_unsafe = BTreeSet::new();
    let mut findings = Vec::new();
    for (path, text) in tree.rust_files() {
        let source = match RustSource::parse(text) {
            Ok(source) => source,
            Err(error) => {
                findings.push(Wrong(format!("{path} {error}")));
                continue;
            }
        };
        if !source.unsafe_uses.is_empty() {
            with_unsafe.insert(path);
        }
        findings.extend(within(path, text, &source));
    }
    for path in &with_unsafe {
        if !listed.iter().any(|entry| entry.name == *path) {
            findings.push(Wrong(format!(
                "{path} has unsafe code but is not in {LIST}"
            )));
        }
    }
    for entry in listed {
        if entry.reason.is_empty() {
            findings.push(Wrong(format!("{LIST}: {} has no reason", entry.name)));
        }
        if !with_unsafe.contains(entry.name) {
            findings.push(Wrong(format!(
                "{LIST}: {} has no unsafe code (any more): drop the entry",
                entry.name
            )));
        }
    }
    findings
}

fn within(path: &str, text: &str, source: &RustSource) -> Vec<Finding> {
    let lines: Vec<&str> = text.lines().collect();
    let mut findings = Vec::new();
    for allowance in source
        .unsafe_allowances
        .iter()
        .filter(|allowance| !allowance.has_reason)
    {
        findings.push(Wrong(format!(
            "{path}:{} allows unsafe_code without a reason",
            allowance.line
        )));
    }
    for found in &source.unsafe_uses {
        if found.kind != UnsafeKind::PointerType && !has_reason(&lines, found.line - 1, found.kind)
        {
            findings.push(Wrong(format!(
                "{path}:{} unsafe without a reason: put `// SAFETY: …` above it",
                found.line
            )));
        }
    }
    findings
}

/// Searches the reason on the line itself, then upwards through comments, attributes and the
/// earlier lines of the same statement.
fn has_reason(lines: &[&str], index: usize, kind: UnsafeKind) -> bool {
    if says_why(lines[index], kind) {
        return true;
    }
    for line in lines[..index].iter().rev().map(|line| line.trim()) {
        let is_comment = ["//", "/*", "*"]
            .iter()
            .any(|start| line.starts_with(start));
        if is_comment && says_why(line, kind) {
            return true;
        }
        let code = line.split("//").next().unwrap_or_default().trim_end();
        let ends_another = [';', '{', '}'].iter().any(|&end| code.ends_with(end))
            || (code.ends_with(',') && code.contains("=>"));
        if !is_comment && !line.starts_with("#[") && (line.is_empty() || ends_another) {
            return false;
        }
    }
    false
}

fn says_why(line: &str, kind: UnsafeKind) -> bool {
    let reason = line.split_once("SAFETY:").map(|(_, reason)| reason.trim());
    reason.is_some_and(|reason| !reason.is_empty())
        || (kind == UnsafeKind::Contract && line.contains("# Safety"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(source: &str, list: &str) -> usize {
        check(&Tree::of(&[("a/src/m.rs", source), (LIST, list)])).len()
    }

    const LISTED: &str = "a/src/m.rs  shared memory";

    #[test]
    fn a_reason_above_or_beside_is_enough() {
        assert_eq!(
            findings(
                "fn f() {\n    // SAFETY: it is ours\n    unsafe { g() }\n}",
                LISTED
            ),
            0
        );
        assert_eq!(
            findings(
                "fn f() {\n    // SAFETY: it is ours\n    // and stays\n    let a =\n        unsafe { g() };\n}",
                LISTED
            ),
            0
        );
        assert_eq!(
            findings(
                "// SAFETY: no thread\n#[cfg(unix)]\nunsafe impl Send for A {}",
                LISTED
            ),
            0
        );
        assert_eq!(
            findings(
                "/// Does.\n///\n/// # Safety\n/// `p` is valid.\n#[inline]\npub unsafe fn f(p: *const u8) {}",
                LISTED
            ),
            0
        );
        assert_eq!(findings("struct S { f: unsafe fn() }", LISTED), 0);
    }

    #[test]
    fn a_missing_empty_or_borrowed_reason_is_found() {
        assert_eq!(findings("fn f() { unsafe { g() } }", LISTED), 1);
        assert_eq!(
            findings("fn f() {\n    // SAFETY:\n    unsafe { g() }\n}", LISTED),
            1
        );
        assert_eq!(
            findings(
                "// SAFETY: x is y\nunsafe impl Send for A {}\nunsafe impl Sync for A {}",
                LISTED
            ),
            1
        );
        assert_eq!(
            findings(
                "fn f() {\n// SAFETY: x is y\nlet a = unsafe { g() };\nlet b = unsafe { g() };\n}",
                LISTED
            ),
            1
        );
        assert_eq!(findings("pub unsafe fn f() {}", LISTED), 1);
    }

    #[test]
    fn the_list_is_neither_too_short_nor_stale() {
        let sound = "// SAFETY: no thread\nunsafe impl Send for A {}";
        assert_eq!(findings(sound, ""), 1);
        assert_eq!(findings(sound, "a/src/m.rs"), 1);
        assert_eq!(findings("fn f() {}", LISTED), 1);
        assert_eq!(findings("#![allow(unsafe_code)]\nfn f() {}", ""), 1);
    }
}
