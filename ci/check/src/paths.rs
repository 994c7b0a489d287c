//! Code that documents name must exist: each path in backticks, each Rust file, and each function
//! in backticks (`Type::name` or `name()`) in one of the Rust files on its line. Each page of
//! `docs/` names its audience below its title.

use crate::report::Finding::{self, Wrong};
use crate::tree::Tree;

/// Runs the check.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (document, text) in tree.files().filter(|(path, _)| path.ends_with(".md")) {
        let audience = text.lines().nth(2).unwrap_or_default();
        if document.starts_with("docs/") && !audience.starts_with("Audience: ") {
            findings.push(Wrong(format!("{document}:3 is not `Audience: …`")));
        }
        for (index, line) in text.lines().enumerate() {
            for problem in problems_of(tree, line) {
                findings.push(Wrong(format!("{document}:{} {problem}", index + 1)));
            }
        }
    }
    findings
}

fn problems_of(tree: &Tree, line: &str) -> Vec<String> {
    let spans: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
    let files = line
        .split(['`', '[', ']', '(', ')', ' ', ',', ';'])
        .filter(|word| word.ends_with(".rs"));
    let mut paths: Vec<&str> = spans
        .iter()
        .copied()
        .chain(files)
        .filter(|name| is_path(tree, name))
        .map(|name| name.trim_end_matches('/'))
        .collect();
    paths.sort_unstable();
    paths.dedup();
    let sources: Vec<&str> = paths.iter().filter_map(|path| tree.text(path)).collect();
    let mut problems: Vec<String> = paths
        .iter()
        .filter(|path| !tree.has(path))
        .map(|path| format!("there is no {path}"))
        .collect();
    if !sources.is_empty() {
        let missing = spans
            .iter()
            .filter_map(|span| function(span))
            .filter(|name| !sources.iter().any(|source| defines(source, name)));
        problems.extend(missing.map(|name| format!("no fn {name} in {}", paths.join(", "))));
    }
    problems
}

/// Whether the text names a path below one of the tree's folders, without blanks or placeholders.
fn is_path(tree: &Tree, span: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    span.chars().all(is_plain)
        && span
            .split_once('/')
            .is_some_and(|(folder, _)| !folder.is_empty() && tree.has(folder))
}

fn function(span: &str) -> Option<&str> {
    let is_call = span.contains("::") || span.ends_with("()");
    let name = span.trim_end_matches("()").rsplit("::").next()?;
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    (is_call && is_name).then_some(name)
}

fn defines(source: &str, name: &str) -> bool {
    source.match_indices(&format!("fn {name}")).any(|(at, it)| {
        let after = source[at + it.len()..].chars().next();
        after.is_some_and(|c| c == '(' || c == '<')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> usize {
        check(&Tree::of(&[
            ("docs/a.md", &format!("# A\n\nAudience: all.\n{text}")),
            ("engine/src/send.rs", "fn send<T>() {}\nfn pack_all() {}"),
        ]))
        .len()
    }

    #[test]
    fn paths_exist() {
        assert_eq!(wrong("`engine/src/send.rs`, `engine/src/`, `engine/…`"), 0);
        assert_eq!(wrong("`engine/src/gone.rs` and `engine/gone`"), 2);
        assert_eq!(wrong("`target/gone`, `read/write`, engine/gone"), 0);
        assert_eq!(wrong("(X in engine/gone.rs), [engine/gone.rs](x.rs)"), 1);
    }

    #[test]
    fn pages_name_their_audience() {
        let check = |path| check(&Tree::of(&[(path, "# A\n\nText.")])).len();
        assert_eq!((check("docs/a.md"), check("README.md")), (1, 0));
    }

    #[test]
    fn functions_are_in_a_file_of_their_line() {
        assert_eq!(wrong("| `Engine::send` | `engine/src/send.rs` |"), 0);
        let linked = "`Engine::gone` in [engine/src/send.rs](../engine/src/send.rs)";
        assert_eq!(wrong(linked), 1);
        assert_eq!(wrong("`pack()` and `send()` in `engine/src/send.rs`"), 1);
        assert_eq!(wrong("`Engine::gone`, `gone()`"), 0, "no file, no check");
        assert_eq!(wrong("`Kind::Gone`, `gone` in `engine/src/send.rs`"), 0);
    }
}
