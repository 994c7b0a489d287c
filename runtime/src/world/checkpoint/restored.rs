//! The contents of a checkpoint, as its program reads them.

use crate::Error;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// The sections that the program wrote into the checkpoint that it continues from.
#[derive(Debug)]
pub struct Restored {
    number: u64,
    sections: BTreeMap<u64, Vec<u8>>,
}

impl Restored {
    pub(crate) fn new(number: u64, sections: BTreeMap<u64, Vec<u8>>) -> Self {
        Self { number, sections }
    }

    /// The number of the checkpoint.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The ids of the sections that were not taken yet, in ascending order.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        self.sections.keys().copied()
    }

    /// The length of a section in bytes, if it exists.
    pub fn length_of(&self, id: u64) -> Option<u64> {
        self.sections.get(&id).map(|bytes| bytes.len() as u64)
    }

    /// Copies back the memory that [`Image::protect`](super::Image::protect) saved.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no section with this id, or its length differs: another
    /// program took the checkpoint.
    pub fn memory(&mut self, id: u64, into: &mut [u8]) -> Result<(), Error> {
        let bytes = self.bytes(id)?;
        if bytes.len() != into.len() {
            return Err(Error::Config(format!(
                "checkpoint {}: section {id} has {} bytes, {} are to be filled: it was taken with other options, or by another program",
                self.number,
                bytes.len(),
                into.len()
            )));
        }
        into.copy_from_slice(&bytes);
        Ok(())
    }

    /// Removes a section and returns its bytes.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no section with this id, or it was taken already.
    pub fn bytes(&mut self, id: u64) -> Result<Vec<u8>, Error> {
        self.sections.remove(&id).ok_or_else(|| {
            Error::Config(format!(
                "checkpoint {}: there is no section {id}, or it was taken already",
                self.number
            ))
        })
    }

    /// Returns the value that [`Image::protect_value`](super::Image::protect_value) saved.
    ///
    /// # Errors
    /// [`Error::Config`] when there is no section with this id, or its value is of another type.
    pub fn value<T: DeserializeOwned>(&mut self, id: u64) -> Result<T, Error> {
        let bytes = self.bytes(id)?;
        postcard::from_bytes(&bytes).map_err(|error| {
            Error::Config(format!(
                "checkpoint {}: section {id} is not what the program expects: {error}",
                self.number
            ))
        })
    }
}
