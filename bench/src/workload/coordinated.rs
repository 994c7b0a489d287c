//! Coordinated checkpoints of all ranks: the alternative with which recovery by message logging is
//! compared.
//!
//! Every rank writes its part at the same point of the program, where no message is in flight;
//! then all ranks wait for each other and remove the earlier parts. A restarted job begins at the
//! newest point of which every part exists.

use super::error::WorkloadError;
use refrain::World;
use std::fs::{self, File};
use std::io::{Error, Read, Write};
use std::path::{Path, PathBuf};

/// Number of rounds, and the checksum so far.
pub type State = (u64, u64);

/// Length of an encoded [`State`].
const HEAD_BYTES: usize = 16;

/// Options of workloads with coordinated checkpoints.
#[derive(Clone, Debug, clap::Args)]
pub struct Coordinated {
    /// Folder for coordinated checkpoints; a run begins with the newest one there.
    #[arg(long, value_name = "DIR", requires = "coordinated_every")]
    coordinated_dir: Option<PathBuf>,
    /// Rounds between two coordinated checkpoints.
    #[arg(long, value_name = "ROUNDS", default_value_t = 0)]
    coordinated_every: u64,
}

impl Coordinated {
    #[cfg(test)]
    pub fn never() -> Self {
        Self {
            coordinated_dir: None,
            coordinated_every: 0,
        }
    }

    /// Must be called after each round.
    ///
    /// # Errors
    /// Those of the library and of the disk.
    pub fn after(
        &self,
        world: &mut World,
        state: State,
        memory: &[u8],
    ) -> Result<(), WorkloadError> {
        let Some(folder) = &self.coordinated_dir else {
            return Ok(());
        };
        let every = self.coordinated_every;
        if every == 0 || !state.0.is_multiple_of(every) {
            return Ok(());
        }
        let rank = world.rank().0;
        let part = part(folder, state.0, rank);
        save(&part, state, memory).map_err(refused(&part))?;
        world.barrier()?;
        // Every part of the newer checkpoint exists.
        let before = super::coordinated::part(folder, state.0 - every, rank);
        match fs::remove_file(&before) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(refused(&before)(error))
            }
            _ => Ok(()),
        }
    }

    /// Reads this rank's part of the newest checkpoint; `None` without a checkpoint.
    ///
    /// # Errors
    /// Those of the disk, and a part of another program.
    pub fn newest(&self, world: &World, memory: &mut [u8]) -> Result<Option<State>, WorkloadError> {
        let Some(folder) = &self.coordinated_dir else {
            return Ok(None);
        };
        let Some(round) = newest_whole(folder, world.size()).map_err(refused(folder))? else {
            return Ok(None);
        };
        let part = part(folder, round, world.rank().0);
        load(&part, memory).map(Some).map_err(refused(&part))
    }
}

fn refused(path: &Path) -> impl FnOnce(Error) -> WorkloadError {
    let attempted = format!("the checkpoint {}", path.display());
    move |error| WorkloadError::System { attempted, error }
}

fn part(folder: &Path, round: u64, rank: u32) -> PathBuf {
    folder.join(format!("{round}.{rank}"))
}

/// Writes a part durably; it appears either whole or not at all.
fn save(path: &Path, (round, checksum): State, memory: &[u8]) -> Result<(), Error> {
    let unfinished = path.with_added_extension("unfinished");
    let mut file = File::create(&unfinished)?;
    file.write_all(&round.to_le_bytes())?;
    file.write_all(&checksum.to_le_bytes())?;
    file.write_all(memory)?;
    file.sync_all()?;
    fs::rename(&unfinished, path)
}

fn load(path: &Path, memory: &mut [u8]) -> Result<State, Error> {
    let mut file = File::open(path)?;
    if file.metadata()?.len() != (HEAD_BYTES + memory.len()) as u64 {
        return Err(Error::other("has a wrong length"));
    }
    let mut head = [0; HEAD_BYTES];
    file.read_exact(&mut head)?;
    file.read_exact(memory)?;
    let word = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("8 bytes"));
    Ok((word(0), word(8)))
}

/// The last round with a part of every rank.
fn newest_whole(folder: &Path, ranks: u32) -> Result<Option<u64>, Error> {
    let mut newest = None;
    for entry in fs::read_dir(folder)? {
        let name = entry?.file_name();
        let round = name.to_str().and_then(|name| name.strip_suffix(".0"));
        let Some(round) = round.and_then(|round| round.parse().ok()) else {
            continue;
        };
        if (0..ranks).all(|rank| part(folder, round, rank).exists()) {
            newest = newest.max(Some(round));
        }
    }
    Ok(newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_the_last_that_has_every_part() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        assert_eq!(newest_whole(folder, 2).unwrap(), None);
        for (round, rank) in [(9, 0), (9, 1), (10, 0), (10, 1), (12, 0), (11, 1)] {
            save(&part(folder, round, rank), (round, 7), b"cells").unwrap();
        }
        fs::write(folder.join("12.1.unfinished"), "").unwrap();
        assert_eq!(newest_whole(folder, 2).unwrap(), Some(10));
    }

    #[test]
    fn a_part_comes_back_as_it_was_and_only_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("3.0");
        save(&path, (3, u64::MAX), b"cells").unwrap();
        let mut memory = [0; 5];
        assert_eq!(load(&path, &mut memory).unwrap(), (3, u64::MAX));
        assert_eq!(&memory, b"cells");
        assert!(load(&path, &mut [0; 4]).is_err());
        assert!(load(&path, &mut [0; 6]).is_err());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
