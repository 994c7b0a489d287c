//! Installed libraries and providers.

#![allow(dead_code, reason = "each test file uses a part")]

use crate::launched::{refrain, run};
use std::path::PathBuf;

/// The libraries to test: the system's and the second one. Prints which one is skipped, and why.
pub fn libraries() -> Vec<Option<PathBuf>> {
    let mut libraries = Vec::new();
    if providers(None).is_empty() {
        println!("skipped the system's libfabric: it cannot be loaded (Debian: libfabric1)");
    } else {
        libraries.push(None);
    }
    match std::env::var_os("REFRAIN_LIBFABRIC_SECOND") {
        Some(second) => libraries.push(Some(second.into())),
        None => println!("skipped a second libfabric: REFRAIN_LIBFABRIC_SECOND names none"),
    }
    libraries
}

/// The names of a library's usable providers.
pub fn providers(library: Option<&PathBuf>) -> Vec<String> {
    let mut command = refrain();
    command.args(["info", "--providers"]);
    if let Some(library) = library {
        command.arg("--libfabric").arg(library);
    }
    let ended = run(&mut command).expect(0);
    let cells = ended.out.lines().map(|line| line.split_whitespace());
    cells
        .filter_map(|mut cells| {
            let name = cells.next()?;
            (cells.nth(1)? == "yes").then(|| name.to_owned())
        })
        .collect()
}

/// Whether a library has a provider, by itself or as part of a layered one; prints it if not.
pub fn has(library: Option<&PathBuf>, provider: &str) -> bool {
    let found = providers(library);
    let has = found
        .iter()
        .any(|name| name == provider || name.split(';').next() == Some(provider));
    if !has {
        println!("skipped ofi:{provider} with {library:?}: usable are {found:?}");
    }
    has
}
