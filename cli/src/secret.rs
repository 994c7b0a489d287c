//! Secrets from files.

use miette::miette;
use refrain_secure::Secret;
use std::io::{self, BufRead as _, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Longer files are not secrets.
const FILE_BYTES_MAX: u64 = 4096;

/// Reads a secret from a file with mode 600, or the first line of stdin for `-`.
/// `option` names it.
pub fn read(option: &str, path: &Path) -> miette::Result<Secret> {
    let shown = path.display();
    let failed = |error: io::Error| miette!("{option} {shown}: {error}");
    let mut text = String::new();
    if path == Path::new("-") {
        let stdin = io::stdin().lock();
        stdin
            .take(FILE_BYTES_MAX)
            .read_line(&mut text)
            .map_err(failed)?;
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & 0o077 != 0 {
            return Err(miette!(
                "{option} {shown}: other users can read the file: run chmod 600 {shown}, and replace the secret"
            ));
        }
        file.take(FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(failed)?;
    }
    let parsed = text.parse();
    parsed.map_err(|error: refrain_secure::NotASecret| miette!("{option} {shown}: {error}"))
}
