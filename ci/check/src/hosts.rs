//! No tracked file names the host of a package registry or mirror, or a path that exists only on
//! the development machine: registries are settings of each machine.

use crate::report::Finding::{self, Wrong};
use crate::tree::Tree;

/// Hosts as lists of labels, so that this file does not contain their names.
const HOSTS: &[&[&str]] = &[
    &["index", "crates", "io"],
    &["static", "crates", "io"],
    &["://crates", "io"],
    &["deb", "debian", "org"],
    &["security", "debian", "org"],
    &["snapshot", "debian", "org"],
    &["ftp", "debian", "org"],
    &["archive", "ubuntu", "com"],
    &["security", "ubuntu", "com"],
    &["pypi", "org"],
    &["pypi", "python", "org"],
    &["files", "pythonhosted", "org"],
    &["conda", "anaconda", "org"],
    &["registry", "npmjs", "org"],
    &["registry", "yarnpkg", "com"],
    &["proxy", "golang", "org"],
    &["sum", "golang", "org"],
    &["rubygems", "org"],
    &["repo", "maven", "apache", "org"],
    &["repo1", "maven", "org"],
    &["docker", "io"],
    &["ghcr", "io"],
    &["quay", "io"],
    &["dl-cdn", "alpinelinux", "org"],
    &["static", "rust-lang", "org"],
    &["sh", "rustup", "rs"],
];

/// Paths of the development machine, as lists of their parts.
const PRIVATE_PATHS: &[&[&str]] = &[&["", "work", "shared"], &["", "work", "main"]];

/// The one source that a lock file may name.
const LOCK_SOURCE: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Runs the check.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let hosts = HOSTS.iter().map(|labels| labels.join("."));
    let forbidden: Vec<String> = hosts
        .chain(PRIVATE_PATHS.iter().map(|parts| parts.join("/")))
        .collect();
    let mut findings = Vec::new();
    for (path, text) in tree.files() {
        for (index, line) in text.lines().enumerate() {
            let lower = line.to_lowercase();
            for name in forbidden
                .iter()
                .filter(|name| lower.contains(name.as_str()))
            {
                findings.push(Wrong(format!("{path}:{} names {name}", index + 1)));
            }
            let foreign = line.contains("registry+") && !line.contains(LOCK_SOURCE);
            if path.ends_with("Cargo.lock") && foreign {
                findings.push(Wrong(format!(
                    "{path}:{} takes a crate from another registry",
                    index + 1
                )));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_host_is_found() {
        for labels in HOSTS {
            let text = format!(
                "see https://{}/x",
                labels.join(".").trim_start_matches("://")
            );
            assert!(!check(&Tree::of(&[("a.txt", &text)])).is_empty(), "{text}");
        }
    }

    #[test]
    fn this_file_does_not_trip_itself() {
        assert_eq!(
            check(&Tree::of(&[("hosts.rs", include_str!("hosts.rs"))])),
            []
        );
    }

    #[test]
    fn lock_files_name_one_source() {
        let lock = |source: &str| {
            check(&Tree::of(&[(
                "Cargo.lock",
                &format!("source = \"{source}\""),
            )]))
            .len()
        };
        assert_eq!(lock(LOCK_SOURCE), 0);
        assert_eq!(lock("registry+https://mirror.example/index"), 1);
    }

    #[test]
    fn private_paths_are_found() {
        let text = format!("read {}/design.md", ["", "work", "shared"].join("/"));
        assert_eq!(check(&Tree::of(&[("README.md", &text)])).len(), 1);
    }
}
