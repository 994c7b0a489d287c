//! How large the tree is: lines, files, functions and circles between files, by crate.
//!
//! Comments and empty lines are not counted. Code is what is neither a test nor a benchmark
//! nor an example. A circle is a set of files of one crate that all reach
//! each other by what they import.

use crate::rust_source::RustSource;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// What one crate, or all of them, have.
#[derive(Debug, Default)]
struct Size<'a> {
    code_lines: usize,
    test_lines: usize,
    /// With code.
    files: usize,
    /// Lines of each function that is no test.
    functions: Vec<usize>,
    /// Files in each circle.
    circles: Vec<Vec<&'a str>>,
}

/// The table, one row for each crate and one for all.
pub fn table(tree: &Tree) -> Result<String, String> {
    let mut crates: BTreeMap<&str, Size<'_>> = BTreeMap::new();
    let mut imports = Imports::default();
    for (path, text) in tree.rust_files() {
        let name = crate_of(tree, path);
        let size = crates.entry(name).or_default();
        let source = RustSource::parse(text).map_err(|error| format!("{path} {error}"))?;
        let lines = text.lines().map(str::trim_start).enumerate();
        let counted = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("//"));
        if is_of_tests(tree, path) {
            size.test_lines += counted.count();
            continue;
        }
        let (of_tests, of_code): (Vec<_>, Vec<_>) =
            counted.partition(|(index, _)| source.is_test_line(index + 1));
        size.test_lines += of_tests.len();
        size.code_lines += of_code.len();
        size.files += 1;
        let functions = source.functions.iter();
        let of_code = functions.filter(|function| !source.is_test_line(*function.start()));
        size.functions
            .extend(of_code.map(|function| function.clone().count()));
        imports.note(tree, name, path, text, &source);
    }
    for circle in imports.circles() {
        let size = crates.entry(crate_of(tree, circle[0])).or_default();
        size.circles.push(circle);
    }
    Ok(printed(crates))
}

fn printed(crates: BTreeMap<&str, Size<'_>>) -> String {
    let mut out = format!(
        "{:22} {:>7} {:>7} {:>6} {:>9} {:>8} {:>7} {:>9}\n",
        "crate", "code", "tests", "files", "functions", "median", "largest", "circles"
    );
    let mut all = Size::default();
    for (name, size) in crates {
        row(&mut out, name, &size);
        all.code_lines += size.code_lines;
        all.test_lines += size.test_lines;
        all.files += size.files;
        all.functions.extend(size.functions);
        all.circles.extend(size.circles);
    }
    row(&mut out, "all", &all);
    for circle in all.circles {
        let _ = writeln!(out, "circle: {}", circle.join(" "));
    }
    out
}

fn row(out: &mut String, name: &str, size: &Size<'_>) {
    let mut functions = size.functions.clone();
    functions.sort_unstable();
    let median = functions.get(functions.len() / 2).unwrap_or(&0);
    let largest = functions.last().unwrap_or(&0);
    let in_circles: usize = size.circles.iter().map(Vec::len).sum();
    let _ = writeln!(
        out,
        "{name:22} {:>7} {:>7} {:>6} {:>9} {median:>8} {largest:>7} {:>9}",
        size.code_lines,
        size.test_lines,
        size.files,
        functions.len(),
        format!("{} ({in_circles})", size.circles.len()),
    );
}

/// The folder of the crate that a file belongs to.
fn crate_of<'a>(tree: &Tree, path: &'a str) -> &'a str {
    let mut folders = path.match_indices('/').map(|(end, _)| &path[..end]);
    folders
        .rfind(|folder| tree.text(&format!("{folder}/Cargo.toml")).is_some())
        .unwrap_or("")
}

fn is_of_tests(tree: &Tree, path: &str) -> bool {
    let inside = &path[crate_of(tree, path).len()..];
    let mut parts = inside.split('/').filter(|part| !part.is_empty());
    parts.any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "examples"))
}

/// Which file imports from which.
#[derive(Debug, Default)]
struct Imports<'a> {
    of: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Imports<'a> {
    fn note(&mut self, tree: &'a Tree, root: &str, path: &'a str, text: &str, source: &RustSource) {
        let mut found = BTreeSet::new();
        let here = module_of(root, path);
        let lines = text.lines().enumerate();
        let code = lines.filter(|(index, line)| {
            !source.is_test_line(index + 1) && !line.trim_start().starts_with("//")
        });
        for (_, line) in code {
            for imported in modules_in(line, &here) {
                let mut longest_first = (0..=imported.len()).rev();
                let file = longest_first.find_map(|parts| file_of(tree, root, &imported[..parts]));
                found.extend(file.filter(|file| *file != path));
            }
        }
        self.of.insert(path, found);
    }

    /// Sets of files that reach each other.
    fn circles(&self) -> Vec<Vec<&'a str>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> = self
            .of
            .keys()
            .map(|path| (*path, self.reached(path)))
            .collect();
        let mut done = BTreeSet::new();
        let mut circles = Vec::new();
        for path in self.of.keys() {
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

    fn reached(&self, from: &str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut next: Vec<&str> = self.of[from].iter().copied().collect();
        while let Some(path) = next.pop() {
            if reached.insert(path) {
                next.extend(self.of.get(path).into_iter().flatten());
            }
        }
        reached
    }
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

/// Paths of modules that a line of code names, with the names behind them.
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
    fn lines_functions_and_circles_are_counted() {
        let tree = Tree::of(&[
            ("a/Cargo.toml", ""),
            ("a/src/lib.rs", "mod x;\nmod y;\n"),
            ("a/src/x.rs", "use crate::y::Y;\nfn f() {\n}\n"),
            ("a/src/y/mod.rs", "use super::x::X;\n#[test]\nfn g() {}\n"),
            ("a/tests/t.rs", "\n// x\nfn t() {}\n"),
        ]);
        let table = table(&tree).unwrap();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[1], ["a", "6", "3", "3", "1", "2", "2", "1", "(2)"]);
        assert_eq!(rows[3], ["circle:", "a/src/x.rs", "a/src/y/mod.rs"]);
    }

    #[test]
    fn modules_are_found_by_each_kind_of_path() {
        let here = ["b".to_owned(), "c".to_owned()];
        let found = |line| modules_in(line, &here);
        assert_eq!(found("use crate::x::Y;"), [["x", "Y"]]);
        assert_eq!(found("super::super::z()"), [["z"]]);
        assert_eq!(found("use child::{A, B};"), [["b", "c", "child"]]);
        assert_eq!(found("let x = 1;").len(), 0);
    }
}
