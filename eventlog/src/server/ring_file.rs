//! The files of rings in the logger's folder.

use super::ring_name::RingName;
use crate::ring::{RingIdentity, RingMemory};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Prefix of the name of a ring that no client has received yet.
const UNFINISHED: &str = "new-";
/// Prefix of the name of a damaged ring.
const DAMAGED: &str = "damaged-";

/// The rings in a folder, earlier lives first. Removes those that no client has ever
/// received.
pub(super) fn find(folder: &Path) -> io::Result<Vec<RingName>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if name.starts_with(UNFINISHED) {
            fs::remove_file(entry.path())?;
        } else if let Some(name) = RingName::parse(name) {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

/// Makes a ring. Its name appears only once the ring is complete.
pub(super) fn create(folder: &Path, identity: &RingIdentity) -> io::Result<(File, RingMemory)> {
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
        Ok(memory) => Ok((file, memory)),
        Err(error) => {
            let _ = fs::remove_file(&unfinished);
            Err(error)
        }
    }
}

/// Maps a ring that was found, if its name and contents agree.
pub(super) fn open(folder: &Path, name: RingName) -> io::Result<(RingMemory, RingIdentity)> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(folder.join(name.to_string()))?;
    let memory = RingMemory::open(&file)?;
    let identity = memory.identity();
    let said = RingName::of(&identity);
    if said != name {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("its header says that it is {said}"),
        ));
    }
    Ok((memory, identity))
}

/// Moves a damaged ring aside; returns the new path.
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
