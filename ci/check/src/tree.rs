//! The files of the source tree.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Paths (relative, with `/`) and texts of all tracked text files.
#[derive(Debug, Default)]
pub struct Tree {
    files: BTreeMap<String, String>,
    /// Paths of tracked files that are not text.
    binary: Vec<String>,
}

impl Tree {
    /// Reads the tree at `root`: files that git tracks or does not ignore; without git, everything
    /// except build output.
    pub fn read(root: &Path) -> Result<Self, String> {
        let paths = match tracked(root) {
            Some(paths) => paths,
            None => walk(root)?,
        };
        let mut tree = Self::default();
        for path in paths {
            // The file may be deleted but not committed.
            let Ok(bytes) = fs::read(root.join(&path)) else {
                continue;
            };
            match String::from_utf8(bytes) {
                Ok(text) => drop(tree.files.insert(path, text)),
                Err(_) => tree.binary.push(path),
            }
        }
        if tree.files.is_empty() {
            return Err(format!("no source files found at {}", root.display()));
        }
        Ok(tree)
    }

    /// All text files.
    pub fn files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// All Rust files.
    pub fn rust_files(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files().filter(|(path, _)| path.ends_with(".rs"))
    }

    /// All paths, of text files and others.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().chain(&self.binary).map(String::as_str)
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// The tree's own copy of a path, if there is such a text file.
    pub fn known_path(&self, path: &str) -> Option<&str> {
        self.files
            .get_key_value(path)
            .map(|(path, _)| path.as_str())
    }

    /// Whether a file or folder with that path exists.
    pub fn has(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty()
            || self
                .paths()
                .any(|known| known == path || known.starts_with(&inside))
    }

    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files
            .iter()
            .map(|&(path, text)| (path.to_owned(), text.to_owned()))
            .collect();
        Self {
            files,
            binary: Vec::new(),
        }
    }
}

fn tracked(root: &Path) -> Option<Vec<String>> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .ok()?;
    let listed = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<String> = listed
        .split('\0')
        .filter(|path| !path.is_empty())
        .map(str::to_owned)
        .collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walk(root: &Path) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(root.join(&folder))
            .map_err(|error| format!("cannot read folder {folder:?}: {error}"))?;
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = if folder.is_empty() {
                name.clone()
            } else {
                format!("{folder}/{name}")
            };
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && name != "target" && name != ".git" => {
                    folders.push(path)
                }
                Ok(kind) if kind.is_file() => found.push(path),
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_exist_through_their_files() {
        let tree = Tree::of(&[("docs/a.md", "")]);
        assert!(tree.has("docs/a.md") && tree.has("docs") && tree.has(""));
        assert!(!tree.has("doc") && !tree.has("docs/a"));
    }

    #[test]
    fn walking_finds_sources_and_leaves_build_output_out() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let found = walk(root).unwrap();
        assert!(found.contains(&"src/tree.rs".to_owned()));
        assert!(found.iter().all(|path| !path.starts_with("target")));
    }
}
