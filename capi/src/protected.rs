//! Memory that belongs to checkpoints, and what comes back of it.

use super::failure::{Code, Failure};
use super::memory::Protected;
use refrain::{Image, Restored};
use std::collections::BTreeMap;

/// Named by `refrain_protect`.
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

/// A checkpoint that was read and is not loaded yet.
#[derive(Debug)]
pub struct Found {
    number: u64,
    sections: BTreeMap<u64, Vec<u8>>,
}

impl Found {
    pub fn new(mut restored: Restored) -> Result<Self, refrain::Error> {
        let ids: Vec<u64> = restored.ids().collect();
        let sections = ids.into_iter().map(|id| Ok((id, restored.bytes(id)?)));
        let sections = sections.collect::<Result<_, refrain::Error>>()?;
        let number = restored.number();
        Ok(Self { number, sections })
    }

    pub fn number(&self) -> u64 {
        self.number
    }

    /// The length of a section, if there is one.
    pub fn bytes_of(&self, id: u64) -> Option<u64> {
        self.sections.get(&id).map(|bytes| bytes.len() as u64)
    }

    /// Fills all memory, or none: each section has to have its memory, and each
    /// memory its section.
    pub fn load(&self, into: &Sections) -> Result<(), Failure> {
        let missing = into.0.keys().find(|id| !self.sections.contains_key(id));
        if let Some(id) = missing {
            return Err(self.unfit(format_args!(
                "it has no section {id}, but memory is protected under that id"
            )));
        }
        for (id, bytes) in &self.sections {
            match into.0.get(id) {
                None => {
                    return Err(self.unfit(format_args!(
                        "no memory is protected for its section {id} of {} bytes: protect it before refrain_restored",
                        bytes.len()
                    )));
                }
                Some(memory) if memory.len() != bytes.len() => {
                    return Err(self.unfit(format_args!(
                        "its section {id} has {} bytes, the memory has {}",
                        bytes.len(),
                        memory.len()
                    )));
                }
                Some(_) => {}
            }
        }
        for (bytes, memory) in self.sections.values().zip(into.0.values()) {
            memory.fill(bytes);
        }
        Ok(())
    }

    fn unfit(&self, why: impl core::fmt::Display) -> Failure {
        let number = self.number;
        Failure::new(Code::Checkpoint, format_args!("checkpoint {number}: {why}"))
    }
}
