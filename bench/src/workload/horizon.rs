//! Horizons and checkpoints of a workload.

use super::error::WorkloadError;
use refrain::{Image, World};
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;

/// Times at which a workload publishes a horizon (LOG-4) and takes checkpoints.
#[derive(Clone, Debug, clap::Args)]
pub struct Horizon {
    /// Rounds between two horizons; 0: never. Default 64, but never in a job with restarts,
    /// whose ranks need the messages that a horizon would free.
    #[arg(long, value_name = "ROUNDS")]
    horizon_every: Option<u64>,
    /// Rounds between two checkpoints; 0: only if the job asks for one.
    #[arg(long, value_name = "ROUNDS", default_value_t = 0)]
    checkpoint_every: u64,
    /// Folder to which each rank writes how long its checkpoints stopped it, in microseconds.
    #[arg(long, value_name = "DIR")]
    note_checkpoints: Option<PathBuf>,
}

/// The file of a rank in the folder of `--note-checkpoints`: a number in each line.
pub fn checkpoints_file(rank: u32) -> String {
    format!("checkpoints-{rank}")
}

impl Horizon {
    #[cfg(test)]
    pub fn never() -> Self {
        Self {
            horizon_every: Some(0),
            checkpoint_every: 0,
            note_checkpoints: None,
        }
    }

    /// Must be called after each round; rounds count from 0. `save` writes the state from which
    /// the next round can continue.
    ///
    /// # Errors
    /// Those of the library.
    pub fn after(
        &self,
        world: &mut World,
        round: u64,
        save: impl FnOnce(&mut Image<'_>) -> Result<(), refrain::Error>,
    ) -> Result<(), WorkloadError> {
        let is_due = |every: u64| every > 0 && (round + 1).is_multiple_of(every);
        let recovers = world.recovers();
        if recovers && (is_due(self.checkpoint_every) || world.checkpoint_requested()?) {
            let taken = world.checkpoint(save)?;
            if let (Some(taken), Some(folder)) = (taken, &self.note_checkpoints) {
                let path = folder.join(checkpoints_file(world.rank().0));
                let file = File::options().create(true).append(true).open(&path);
                let noted = file.and_then(|mut file| writeln!(file, "{}", taken.took.as_micros()));
                noted.map_err(|error| WorkloadError::System {
                    attempted: format!("writing {}", path.display()),
                    error,
                })?;
            }
        }
        let horizon_every = self.horizon_every.unwrap_or(if recovers { 0 } else { 64 });
        if is_due(horizon_every) && world.protocol() != "none" {
            world.publish_horizon()?;
        }
        Ok(())
    }
}
