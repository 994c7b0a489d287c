//! Secrets from files.

use miette::miette;
use refrain_wire::{Secret, ServerAddress};
use std::io::{self, BufRead as _, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Maximum length of a file with a secret, in bytes.
const FILE_BYTES_MAX: u64 = 4096;

/// Seals addresses with the secret in the file that `option` names, if any.
pub fn seal<'a>(
    option: &str,
    file: Option<&Path>,
    addresses: impl Iterator<Item = &'a mut ServerAddress>,
) -> miette::Result<()> {
    if let Some(file) = file {
        let secret = read(option, file)?;
        for address in addresses {
            *address = address.clone().sealed(&secret);
        }
    }
    Ok(())
}

/// Reads a secret from a file with mode 600, or the first line of stdin for `-`. `option` is the
/// option that names the file.
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
    parsed.map_err(|error: refrain_wire::NotASecret| miette!("{option} {shown}: {error}"))
}
