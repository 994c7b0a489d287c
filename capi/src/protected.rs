//! Memory that is part of checkpoints, and restoring it.

use super::failure::{Code, Failure};
use super::memory::Protected;
use refrain::{Image, Restored};
use std::collections::BTreeMap;

/// The memory that `refrain_protect` has named, by section id.
#[derive(Debug, Default)]
pub struct Sections(BTreeMap<u64, Protected>);

impl Sections {
    pub fn protect(&mut self, id: u64, memory: Protected) {
        self.0.insert(id, memory);
    }

    pub fn unprotect(&mut self, id: u64) -> Result<(), Failure> {
        match self.0.remove(&id) {
            Some(_) => Ok(()),
            None => Err(Failure::argument(format_args!(
                "no memory is protected under id {id}"
            ))),
        }
    }

    pub fn save(&self, image: &mut Image<'_>) -> Result<(), refrain::Error> {
        let mut sections = self.0.iter();
        sections.try_for_each(|(id, memory)| image.protect(*id, memory.bytes()))
    }
}

/// Fills all memory from a checkpoint, or none: each section needs its memory, and each memory its
/// section.
pub fn load(restored: &mut Restored, into: &Sections) -> Result<(), Failure> {
    let number = restored.number();
    let unfit = |why: core::fmt::Arguments<'_>| {
        Failure::new(Code::Checkpoint, format_args!("checkpoint {number}: {why}"))
    };
    let missing = (into.0.keys()).find(|id| restored.length_of(**id).is_none());
    if let Some(id) = missing {
        return Err(unfit(format_args!(
            "it has no section {id}, but memory is protected under that id"
        )));
    }
    for id in restored.ids() {
        let bytes = restored.length_of(id).unwrap_or(0);
        match into.0.get(&id) {
            None => {
                return Err(unfit(format_args!(
                    "no memory is protected for its section {id} of {bytes} bytes: protect it before refrain_restored"
                )));
            }
            Some(memory) if memory.len() as u64 != bytes => {
                return Err(unfit(format_args!(
                    "its section {id} has {bytes} bytes, the memory has {}",
                    memory.len()
                )));
            }
            Some(_) => {}
        }
    }
    for (id, memory) in &into.0 {
        memory.fill(&restored.bytes(*id)?);
    }
    Ok(())
}
