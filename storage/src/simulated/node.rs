//! The bytes of a file of the simulated disk, by pages and sectors.

use super::dice::Dice;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A disk writes a sector completely or not at all.
const SECTOR_BYTES: usize = 512;
const PAGE_BYTES: usize = 4096;

/// The bytes of a file; parts that were never written take no memory.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pub length: u64,
    pages: BTreeMap<u64, Arc<[u8; PAGE_BYTES]>>,
}

impl Content {
    /// Puts bytes that lie in one page.
    fn put(&mut self, place: u64, bytes: &[u8]) {
        let page = self.pages.entry(place / PAGE_BYTES as u64);
        let page = page.or_insert_with(|| Arc::new([0; PAGE_BYTES]));
        let at = place as usize % PAGE_BYTES;
        Arc::make_mut(page)[at..at + bytes.len()].copy_from_slice(bytes);
        self.length = self.length.max(place + bytes.len() as u64);
    }

    pub fn get(&self, place: u64, into: &mut [u8]) -> usize {
        let rest = self.length.saturating_sub(place);
        let bytes = into.len().min(usize::try_from(rest).unwrap_or(usize::MAX));
        let mut done = 0;
        while done < bytes {
            let now = place + done as u64;
            let at = now as usize % PAGE_BYTES;
            let end = bytes.min(done + PAGE_BYTES - at);
            match self.pages.get(&(now / PAGE_BYTES as u64)) {
                Some(page) => into[done..end].copy_from_slice(&page[at..at + end - done]),
                None => into[done..end].fill(0),
            }
            done = end;
        }
        bytes
    }

    pub fn set_length(&mut self, length: u64) {
        self.pages
            .retain(|page, _| page * (PAGE_BYTES as u64) < length);
        let last = self.pages.get_mut(&(length / PAGE_BYTES as u64));
        if let Some(last) = last.filter(|_| length < self.length) {
            Arc::make_mut(last)[length as usize % PAGE_BYTES..].fill(0);
        }
        self.length = length;
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length as usize];
        self.get(0, &mut bytes);
        bytes
    }
}

/// A file, as processes see it and as it is on the disk.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// The content that any process sees.
    pub cache: Content,
    /// The content on the disk.
    platter: Content,
    /// Sectors that a sync would write: one bit each, by page.
    dirty: BTreeMap<u64, u8>,
}

impl Node {
    /// Writes the sectors for which `is_written` returns true.
    pub fn write(&mut self, place: u64, bytes: &[u8], mut is_written: impl FnMut() -> bool) {
        let mut done = 0;
        while done < bytes.len() {
            let now = place + done as u64;
            let end = bytes
                .len()
                .min(done + SECTOR_BYTES - now as usize % SECTOR_BYTES);
            if is_written() {
                self.cache.put(now, &bytes[done..end]);
                let sector = now as usize % PAGE_BYTES / SECTOR_BYTES;
                let page = now / PAGE_BYTES as u64;
                *self.dirty.entry(page).or_default() |= 1 << sector;
            }
            done = end;
        }
    }

    /// Writes the dirty sectors for which `is_flushed` returns true to the disk; then no sector is
    /// dirty.
    pub fn flush(&mut self, is_flushed: impl FnMut() -> bool) {
        self.platter.set_length(self.cache.length);
        self.flush_sectors(is_flushed);
    }

    fn flush_sectors(&mut self, mut is_flushed: impl FnMut() -> bool) {
        for (page, mask) in core::mem::take(&mut self.dirty) {
            for sector in (0..8).filter(|sector| mask & (1 << sector) != 0) {
                let place = page * PAGE_BYTES as u64 + sector * SECTOR_BYTES as u64;
                let mut bytes = [0; SECTOR_BYTES];
                let moved = self.cache.get(place, &mut bytes);
                if moved > 0 && is_flushed() {
                    self.platter.put(place, &bytes[..moved]);
                }
            }
        }
    }

    /// The file after a loss of power.
    pub fn lose_power(&mut self, dice: &mut Dice) {
        // The disk may not know the latest length.
        let lengths = [self.platter.length, self.cache.length];
        let length = lengths[dice.below(2)];
        let mut spoiled = Vec::new();
        for (page, mask) in &self.dirty {
            for sector in 0..8 {
                if mask & (1 << sector) != 0 && dice.percent(5) {
                    spoiled.push(page * PAGE_BYTES as u64 + sector * SECTOR_BYTES as u64);
                }
            }
        }
        let percent = dice.below(101) as u32;
        self.flush_sectors(|| dice.percent(percent));
        for place in spoiled {
            self.platter.put(place, &[0x5a; SECTOR_BYTES]);
        }
        self.platter.set_length(length);
        self.cache = self.platter.clone();
    }
}
