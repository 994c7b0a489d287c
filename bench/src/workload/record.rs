//! Files with the measurements of the ranks of an experiment.

use super::error::WorkloadError;
use serde::Serialize;
use std::fs;
use std::path::Path;

/// Writes a value to a file in this folder; the file appears either whole or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn write(folder: &Path, name: &str, value: &impl Serialize) -> Result<(), WorkloadError> {
    let path = folder.join(name);
    let cannot = |error: std::io::Error| WorkloadError::System {
        attempted: format!("cannot write {}", path.display()),
        error,
    };
    let bytes = serde_json::to_vec(value).map_err(|error| cannot(error.into()))?;
    let unfinished = folder.join(format!("{name}.unfinished"));
    fs::write(&unfinished, bytes).map_err(cannot)?;
    fs::rename(&unfinished, &path).map_err(cannot)
}
