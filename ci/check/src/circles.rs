//! Circles between files: sets of files of one crate that all reach each other through imports.
//! `ci/circles.txt` gives the reason for each circle.
//!
//! An entry of the list names a file of the circle, or the deepest folder that contains all its
//! files.

use crate::list_file::{Entry, entries};
use crate::report::Finding::{self, Wrong};
use crate::sources::{self, Source};
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

const LIST: &str = "ci/circles.txt";

/// The paths of one circle, sorted.
pub type Circle<'a> = Vec<&'a str>;

/// Runs the check.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let sources = match sources::read(tree) {
        Ok(sources) => sources,
        Err(error) => return vec![Wrong(error)],
    };
    let circles = find(tree, &sources);
    let unexplained = circles
        .iter()
        .filter(|circle| reason(tree, circle).is_none());
    let unexplained = unexplained.map(|circle| {
        let files = circle.join(" ");
        Wrong(format!("{LIST} gives no reason for the circle {files}"))
    });
    let listed = entries(tree.text(LIST).unwrap_or_default());
    let obsolete = listed.filter(|entry| !circles.iter().any(|circle| names(entry, circle)));
    let obsolete = obsolete.map(|entry| {
        let name = entry.name;
        Wrong(format!("{LIST}: {name} is in no circle: drop the entry"))
    });
    unexplained.chain(obsolete).collect()
}

/// The reason for a circle, if the list has one.
pub fn reason<'a>(tree: &'a Tree, circle: &[&str]) -> Option<&'a str> {
    let mut listed = entries(tree.text(LIST).unwrap_or_default());
    let entry = listed.find(|entry| names(entry, circle))?;
    Some(entry.reason).filter(|reason| !reason.is_empty())
}

fn names(entry: &Entry<'_>, circle: &[&str]) -> bool {
    circle.contains(&entry.name) || folder_of(circle) == entry.name.trim_end_matches('/')
}

/// The deepest folder that contains all files of a circle.
fn folder_of<'a>(circle: &[&'a str]) -> &'a str {
    let mut folders = circle[0].match_indices('/').map(|(end, _)| end);
    let holds_all = |end: &usize| {
        let folder = &circle[0][..=*end];
        circle.iter().all(|path| path.starts_with(folder))
    };
    folders.rfind(holds_all).map_or("", |end| &circle[0][..end])
}

/// Sets of files that reach each other by imports of code that is no test.
pub fn find<'a>(tree: &'a Tree, sources: &[Source<'a>]) -> Vec<Circle<'a>> {
    let code = sources.iter().filter(|source| !source.is_test);
    let imports: BTreeMap<&str, BTreeSet<&str>> = code
        .map(|source| (source.path, imports(tree, source)))
        .collect();
    let reached: BTreeMap<&str, BTreeSet<&str>> = imports
        .keys()
        .map(|path| (*path, reached(&imports, path)))
        .collect();
    let mut done = BTreeSet::new();
    let mut circles = Vec::new();
    for path in imports.keys() {
        let both = |other: &&&str| {
            let comes_back = reached.get(**other).is_some_and(|from| from.contains(path));
            comes_back && **other != *path
        };
        if !done.insert(*path) || !reached[path].contains(path) {
            continue;
        }
        let others: Vec<&str> = reached[path].iter().filter(both).copied().collect();
        done.extend(&others);
        circles.push([vec![*path], others].concat());
    }
    circles
}

/// The files from which one file imports.
fn imports<'a>(tree: &'a Tree, source: &Source<'a>) -> BTreeSet<&'a str> {
    let root = source.crate_folder;
    let here = module_of(root, source.path);
    let lines = source.text.lines().enumerate();
    let code = lines.filter(|(index, line)| {
        !source.rust.is_test_line(index + 1) && !line.trim_start().starts_with("//")
    });
    let modules = code.flat_map(|(_, line)| modules_in(line, &here));
    let files = modules.filter_map(|module| {
        let mut longest_first = (0..=module.len()).rev();
        longest_first.find_map(|parts| file_of(tree, root, &module[..parts]))
    });
    files.filter(|file| *file != source.path).collect()
}

fn reached<'a>(imports: &BTreeMap<&'a str, BTreeSet<&'a str>>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = imports[from].iter().copied().collect();
    while let Some(path) = next.pop() {
        if reached.insert(path) {
            next.extend(imports.get(path).into_iter().flatten());
        }
    }
    reached
}

/// The path of a file's module within its crate.
fn module_of(root: &str, path: &str) -> Vec<String> {
    let inside = path[root.len()..].trim_start_matches('/');
    let inside = inside.trim_start_matches("src/").trim_end_matches(".rs");
    let parts = inside.split('/');
    let parts = parts.filter(|part| !matches!(*part, "mod" | "lib" | "main"));
    parts.map(str::to_owned).collect()
}

fn file_of<'a>(tree: &'a Tree, root: &str, module: &[String]) -> Option<&'a str> {
    let stem = format!("{root}/src/{}", module.join("/"));
    let names = match module.is_empty() {
        true => vec![format!("{stem}lib.rs"), format!("{stem}main.rs")],
        false => vec![format!("{stem}.rs"), format!("{stem}/mod.rs")],
    };
    names.iter().find_map(|name| tree.known_path(name))
}

/// The paths of modules that a line of code names, including the names after them.
fn modules_in(line: &str, here: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let mut rest = line;
    while let Some(at) = rest.find("::") {
        let begins = rest[..at].bytes().rposition(|byte| !is_name(byte));
        let first = &rest[begins.map_or(0, |before| before + 1)..at];
        let mut parts = vec![first];
        rest = &rest[at + 2..];
        loop {
            let end = rest.bytes().position(|byte| !is_name(byte));
            let end = end.unwrap_or(rest.len());
            parts.push(&rest[..end]);
            rest = &rest[end..];
            match rest.strip_prefix("::") {
                Some(more) => rest = more,
                None => break,
            }
        }
        let mut module = match first {
            "crate" => Vec::new(),
            _ => here.to_vec(),
        };
        for part in parts {
            match part {
                "crate" | "self" | "" => {}
                "super" => drop(module.pop()),
                name => module.push(name.to_owned()),
            }
        }
        found.push(module);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_by_each_kind_of_path() {
        let here = ["b".to_owned(), "c".to_owned()];
        let found = |line| modules_in(line, &here);
        assert_eq!(found("use crate::x::Y;"), [["x", "Y"]]);
        assert_eq!(found("super::super::z()"), [["z"]]);
        assert_eq!(found("use child::{A, B};"), [["b", "c", "child"]]);
        assert_eq!(found("let x = 1;").len(), 0);
    }

    #[test]
    fn a_circle_needs_a_reason_and_a_reason_its_circle() {
        let findings = |list| {
            check(&Tree::of(&[
                ("a/Cargo.toml", ""),
                ("a/src/lib.rs", ""),
                ("a/src/x.rs", "use crate::y::z::Z;"),
                ("a/src/y/z.rs", "use crate::x::X;"),
                (LIST, list),
            ]))
            .len()
        };
        assert_eq!(findings("a/src/x.rs one state"), 0);
        assert_eq!(findings("a/src one state"), 0);
        assert_eq!(findings(""), 1);
        assert_eq!(findings("a/src"), 1);
        assert_eq!(findings("a one state"), 2);
        assert_eq!(findings("a/src one state\na/src/lib.rs one state"), 1);
    }
}
