//! A file of the store in memory.

use super::dice::Dice;
use crate::segment::{FileHeader, slot_offset};
use refrain_ring::{CHUNK_BYTES, LentChunk};
use std::collections::BTreeMap;

/// What disks write wholly or not at all.
const SECTOR_BYTES: usize = 512;
const BLOCK_BYTES: usize = 4096;

/// A file as it is found on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftFile {
    /// Its name.
    pub name: String,
    /// All its bytes.
    pub bytes: Vec<u8>,
}

#[derive(Clone, Debug)]
pub(super) struct File {
    pub name: String,
    pub slots: u32,
    /// Nothing, as long as no header was written.
    header: Vec<u8>,
    /// The beginning of each slot that was ever written; the rest is 0.
    contents: BTreeMap<u32, Vec<u8>>,
}

impl File {
    pub fn new(name: String, slots: u32) -> Self {
        Self {
            name,
            slots,
            header: Vec::new(),
            contents: BTreeMap::new(),
        }
    }

    /// Its meaning lies in one sector: it is there or not.
    pub fn write_header(&mut self, header: &FileHeader) {
        self.header = header.encode().to_vec();
    }

    /// What is written of a chunk.
    pub fn image(chunk: &LentChunk) -> Vec<u8> {
        chunk.chunk_bytes()[..chunk.used_bytes().next_multiple_of(BLOCK_BYTES)].to_vec()
    }

    pub fn write(&mut self, slot: u32, image: &[u8]) {
        let content = self.contents.entry(slot).or_default();
        let bytes = content.len().max(image.len());
        content.resize(bytes, 0);
        content[..image.len()].copy_from_slice(image);
    }

    /// Writes some sectors.
    pub fn tear(&mut self, slot: u32, image: &[u8], dice: &mut Dice) {
        let content = self.contents.entry(slot).or_default();
        let bytes = content.len().max(image.len());
        content.resize(bytes, 0);
        let percent = dice.below(101) as u32;
        let sectors = content.chunks_mut(SECTOR_BYTES);
        for (old, new) in sectors.zip(image.chunks(SECTOR_BYTES)) {
            if dice.percent(percent) {
                old.copy_from_slice(new);
            }
        }
    }

    pub fn read(&self, slot: u32) -> Vec<u8> {
        let mut bytes = self.contents.get(&slot).cloned().unwrap_or_default();
        bytes.resize(CHUNK_BYTES, 0);
        bytes
    }

    pub fn bytes(&self) -> u64 {
        slot_offset(self.slots)
    }

    pub fn left(&self) -> LeftFile {
        let mut bytes = vec![0; self.bytes() as usize];
        bytes[..self.header.len()].copy_from_slice(&self.header);
        for (slot, content) in &self.contents {
            let place = slot_offset(*slot) as usize;
            bytes[place..][..content.len()].copy_from_slice(content);
        }
        LeftFile {
            name: self.name.clone(),
            bytes,
        }
    }
}
