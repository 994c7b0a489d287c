//! How far the output of a rank was passed on, for later runs: one file a rank, in the folder
//! `output`. JOB-5

use super::{JobDir, OUTPUT};
use crate::printed::SavedPosition;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::{fs, io};

/// The content of a file.
#[derive(Debug, Serialize, Deserialize)]
struct SavedOutput {
    /// By output stream of the rank.
    streams: Vec<SavedPosition>,
}

impl JobDir {
    fn output_file(&self, rank: usize) -> PathBuf {
        self.path.join(OUTPUT).join(format!("rank-{rank}.json"))
    }

    /// Replaces what is known of the output of a rank. A loss of power may undo it: then output of the
    /// rank comes again.
    ///
    /// # Errors
    /// Of the system.
    pub fn save_output(&self, rank: usize, streams: Vec<SavedPosition>) -> io::Result<()> {
        let text = serde_json::to_vec(&SavedOutput { streams }).map_err(io::Error::other)?;
        let path = self.output_file(rank);
        let new = path.with_extension("json.new");
        fs::write(&new, text)?;
        fs::rename(new, path)
    }

    /// What earlier runs have stored of the output of a rank; empty: nothing that can be used.
    pub fn saved_output(&self, rank: usize) -> Vec<SavedPosition> {
        let text = fs::read(self.output_file(rank)).unwrap_or_default();
        let saved = serde_json::from_slice(&text);
        saved.map_or_else(|_| Vec::new(), |saved: SavedOutput| saved.streams)
    }
}
