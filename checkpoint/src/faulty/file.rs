//! A file: as processes see it, and as it is on the disk.

use std::collections::BTreeSet;

/// What disks write wholly or not at all.
pub(super) const SECTOR_BYTES: usize = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct File {
    /// As any process sees it.
    pub cache: Vec<u8>,
    /// As it is on the disk.
    pub platter: Vec<u8>,
    /// Sectors that a sync would write.
    pub dirty: BTreeSet<usize>,
}

impl File {
    /// Writes those sectors of which it is said.
    pub fn write(&mut self, place: usize, bytes: &[u8], mut is_written: impl FnMut() -> bool) {
        let end = place + bytes.len();
        for start in (place..end).step_by(SECTOR_BYTES) {
            if !is_written() {
                continue;
            }
            let next = (start + SECTOR_BYTES).min(end);
            if self.cache.len() < next {
                self.cache.resize(next, 0);
            }
            self.cache[start..next].copy_from_slice(&bytes[start - place..next - place]);
            self.dirty.insert(start / SECTOR_BYTES);
        }
    }

    /// Brings dirty sectors to the disk, those of which it is said; then none is
    /// dirty.
    pub fn flush(&mut self, mut is_flushed: impl FnMut() -> bool) {
        self.platter.resize(self.cache.len(), 0);
        for sector in core::mem::take(&mut self.dirty) {
            let start = sector * SECTOR_BYTES;
            let end = (start + SECTOR_BYTES).min(self.cache.len());
            if start < end && is_flushed() {
                self.platter[start..end].copy_from_slice(&self.cache[start..end]);
            }
        }
    }
}
