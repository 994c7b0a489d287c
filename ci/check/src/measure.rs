//! The size of the tree: lines, files, functions and circles between files, by crate.
//!
//! Comments and empty lines are not counted. Code is everything except tests, benchmarks and
//! examples.

use crate::circles::{self, Circle};
use crate::sources;
use crate::tree::Tree;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// The size of one crate, or of all.
#[derive(Debug, Default)]
struct Size<'a> {
    code_lines: usize,
    test_lines: usize,
    /// Number of files with code.
    files: usize,
    /// Number of lines of each function that is no test.
    functions: Vec<usize>,
    circles: Vec<Circle<'a>>,
}

/// The table, with one row for each crate and one for all.
pub fn table(tree: &Tree) -> Result<String, String> {
    let mut crates: BTreeMap<&str, Size<'_>> = BTreeMap::new();
    let sources = sources::read(tree)?;
    let mut crate_folders = BTreeMap::new();
    for source in &sources {
        crate_folders.insert(source.path, source.crate_folder);
        let size = crates.entry(source.crate_folder).or_default();
        let is_test_line = |line| source.is_test || source.rust.is_test_line(line);
        let lines = source.text.lines().map(str::trim_start).enumerate();
        let counted = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with("//"));
        let (of_tests, of_code): (Vec<_>, Vec<_>) =
            counted.partition(|(index, _)| is_test_line(index + 1));
        size.test_lines += of_tests.len();
        size.code_lines += of_code.len();
        size.files += usize::from(!source.is_test);
        let functions = source.rust.functions.iter();
        let of_code = functions.filter(|function| !is_test_line(*function.start()));
        size.functions
            .extend(of_code.map(|function| function.clone().count()));
    }
    for circle in circles::find(tree, &sources) {
        let size = crates.entry(crate_folders[circle[0]]).or_default();
        size.circles.push(circle);
    }
    Ok(printed(tree, crates))
}

fn printed(tree: &Tree, crates: BTreeMap<&str, Size<'_>>) -> String {
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
        let reason = circles::reason(tree, &circle).unwrap_or("NO REASON in ci/circles.txt");
        let _ = writeln!(out, "circle: {}: {reason}", circle.join(" "));
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
            ("ci/circles.txt", "a/src one state\n"),
        ]);
        let table = table(&tree).unwrap();
        let rows: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(rows[1], ["a", "6", "3", "3", "1", "2", "2", "1", "(2)"]);
        let circle = ["circle:", "a/src/x.rs", "a/src/y/mod.rs:", "one", "state"];
        assert_eq!(rows[3], circle);
    }
}
