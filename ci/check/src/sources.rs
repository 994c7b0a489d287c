//! The Rust files of the tree, parsed, each with its crate.

use crate::rust_source::RustSource;
use crate::tree::Tree;

/// One Rust file.
#[derive(Debug)]
pub struct Source<'a> {
    /// Path from the root of the tree.
    pub path: &'a str,
    /// Folder of the file's crate.
    pub crate_folder: &'a str,
    /// Its text.
    pub text: &'a str,
    /// Its tokens.
    pub rust: RustSource,
    /// Whether the whole file is a test, a benchmark or an example.
    pub is_test: bool,
}

/// All Rust files of the tree, by path.
pub fn read(tree: &Tree) -> Result<Vec<Source<'_>>, String> {
    let mut sources = Vec::new();
    let mut test_modules = Vec::new();
    for (path, text) in tree.rust_files() {
        let rust = RustSource::parse(text).map_err(|error| format!("{path} {error}"))?;
        let folder = module_folder(path);
        let names = rust.test_modules.iter();
        test_modules.extend(names.map(|name| format!("{folder}{name}")));
        let crate_folder = crate_of(tree, path);
        let is_test = is_in_test_folder(&path[crate_folder.len()..]);
        sources.push(Source {
            path,
            crate_folder,
            text,
            rust,
            is_test,
        });
    }
    for source in &mut sources {
        let inside = |module: &String| {
            let rest = source.path.strip_prefix(module.as_str());
            rest.is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        };
        source.is_test |= test_modules.iter().any(inside);
    }
    Ok(sources)
}

/// The folder of the modules that a file declares, with a trailing `/`.
fn module_folder(path: &str) -> String {
    let stem = path.trim_end_matches(".rs");
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    match name {
        "mod" | "lib" | "main" => format!("{folder}/"),
        _ => format!("{stem}/"),
    }
}

/// The folder of the crate that contains a file.
fn crate_of<'a>(tree: &Tree, path: &'a str) -> &'a str {
    let mut folders = path.match_indices('/').map(|(end, _)| &path[..end]);
    folders
        .rfind(|folder| tree.text(&format!("{folder}/Cargo.toml")).is_some())
        .unwrap_or("")
}

fn is_in_test_folder(inside: &str) -> bool {
    let mut parts = inside.split('/');
    parts.any(|part| matches!(part, "tests" | "tests.rs" | "benches" | "examples"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_declared_for_tests_are_tests_with_all_their_files() {
        let tree = Tree::of(&[
            ("a/Cargo.toml", ""),
            ("a/src/lib.rs", "#[cfg(test)]\nmod suite;\nmod x;\n"),
            ("a/src/suite/mod.rs", "mod part;\n"),
            ("a/src/suite/part.rs", ""),
            ("a/src/x.rs", "#[cfg(test)]\nmod y;\n"),
            ("a/src/x/y.rs", ""),
            ("a/src/x/z.rs", ""),
            ("a/tests/t.rs", ""),
        ]);
        let sources = read(&tree).unwrap();
        let tests = sources.iter().filter(|source| source.is_test);
        let tests: Vec<&str> = tests.map(|source| source.path).collect();
        let expected = ["suite/mod.rs", "suite/part.rs", "x/y.rs"].map(|it| format!("a/src/{it}"));
        assert_eq!(tests[..3], expected);
        assert_eq!(tests[3..], ["a/tests/t.rs"]);
    }
}
