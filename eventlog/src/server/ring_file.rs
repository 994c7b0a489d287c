//! The files of rings in the logger's folder: `ring-JOB-rRANK-iINCARNATION`.

use crate::ring::{RingIdentity, RingMemory};
use refrain_ring::{Incarnation, Rank};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Begins the name of a ring that nobody was given yet.
const UNFINISHED: &str = "new-";
/// Begins the name of a ring that cannot be believed.
const DAMAGED: &str = "damaged-";

/// Who writes into a ring, by its file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct RingName {
    pub(super) job: u64,
    pub(super) rank: Rank,
    pub(super) incarnation: Incarnation,
}

impl RingName {
    pub(super) fn of(identity: &RingIdentity) -> Self {
        Self {
            job: identity.job,
            rank: identity.rank,
            incarnation: identity.incarnation,
        }
    }

    fn parse(name: &str) -> Option<Self> {
        let (job, rest) = name.strip_prefix("ring-")?.split_once("-r")?;
        let (rank, incarnation) = rest.split_once("-i")?;
        let parsed = Self {
            job: u64::from_str_radix(job, 16).ok()?,
            rank: Rank(rank.parse().ok()?),
            incarnation: Incarnation(incarnation.parse().ok()?),
        };
        // One name for one ring: no "+1", no "01".
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl core::fmt::Display for RingName {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (rank, incarnation) = (self.rank.0, self.incarnation.0);
        write!(f, "ring-{:016x}-r{rank}-i{incarnation}", self.job)
    }
}

/// A ring that a server has left.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: PathBuf,
    pub(super) name: RingName,
}

/// The rings in a folder, earlier lives first. Removes those that no client was
/// ever given.
pub(super) fn find(folder: &Path) -> io::Result<Vec<Found>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(UNFINISHED) {
            fs::remove_file(entry.path())?;
        } else if let Some(name) = RingName::parse(name) {
            let path = entry.path();
            found.push(Found { path, name });
        }
    }
    found.sort_by_key(|found| found.name);
    Ok(found)
}

/// Makes a ring. Its name is there only once the ring is whole.
pub(super) fn create(
    folder: &Path,
    identity: &RingIdentity,
) -> io::Result<(PathBuf, File, RingMemory)> {
    let name = RingName::of(identity).to_string();
    let path = folder.join(&name);
    let unfinished = folder.join(format!("{UNFINISHED}{name}"));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&unfinished)?;
    let made = RingMemory::create(&file, identity)
        .and_then(|memory| fs::rename(&unfinished, &path).map(|()| memory));
    match made {
        Ok(memory) => Ok((path, file, memory)),
        Err(error) => {
            let _ = fs::remove_file(&unfinished);
            Err(error)
        }
    }
}

/// Maps a ring that was found, if name and contents say the same.
pub(super) fn open(found: &Found) -> io::Result<(RingMemory, RingIdentity)> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&found.path)?;
    let memory = RingMemory::open(&file)?;
    let identity = memory.identity();
    let said = RingName::of(&identity);
    if said != found.name {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("it says that it is {said}"),
        ));
    }
    Ok((memory, identity))
}

/// Moves a ring aside that cannot be believed; returns where to.
pub(super) fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut aside = path.with_file_name(format!("{DAMAGED}{name}"));
    let mut copy = 1;
    while aside.exists() {
        copy += 1;
        aside = path.with_file_name(format!("{DAMAGED}{name}.{copy}"));
    }
    fs::rename(path, &aside)?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written_and_no_other() {
        let name = RingName {
            job: 0xfeed << 40,
            rank: Rank(u32::MAX),
            incarnation: Incarnation(7),
        };
        assert_eq!(RingName::parse(&name.to_string()), Some(name));
        for other in [
            "ring-",
            "ring-00000000000000ff-r1",
            "ring-00000000000000ff-r01-i0",
            "ring-00000000000000ff-r+1-i0",
            "ring-ff-r1-i0",
            "ring-00000000000000ff-r1-i0~",
            "ring-00000000000000ff-r4294967296-i0",
        ] {
            assert_eq!(RingName::parse(other), None, "{other}");
        }
    }
}
