//! The memory of a ring: a mapped file, accessed as atomic words only.

#![allow(
    unsafe_code,
    reason = "maps a file and turns its bytes into atomic words"
)]

use super::layout::{CONTROL_BYTES, DATA_BYTES, RING_BYTES, RING_MAGIC, RingIdentity, word};
use crate::LoggerId;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering, fence};
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Incarnation, Rank, placement};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::fs::File;
use std::io::{Error, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A mapped ring. Every process that shares it may write anything there at any time:
/// data that is read from it is copied and checked before use.
#[derive(Clone, Debug)]
pub struct RingMemory {
    map: Arc<Mapping>,
}

/// [`RING_BYTES`] from the start of a page on.
#[derive(Debug)]
struct Mapping(NonNull<u8>);

// SAFETY: plain memory, touched as atomic words, unmapped by its last owner only.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file, or anonymous memory for `None`.
    fn new(file: Option<&File>) -> std::io::Result<Self> {
        let hint = core::ptr::without_provenance_mut(placement::next_address(RING_BYTES));
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping; the address is a hint.
        let base = unsafe {
            match file {
                Some(file) => mmap(hint, RING_BYTES, access, MapFlags::SHARED, file, 0),
                None => mmap_anonymous(hint, RING_BYTES, access, MapFlags::PRIVATE),
            }
        }?;
        Ok(Self(
            NonNull::new(base.cast()).expect("the kernel maps nothing at 0"),
        ))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `new` mapped it, and the last owner goes.
        let _ = unsafe { munmap(self.0.as_ptr().cast(), RING_BYTES) };
    }
}

/// Allocates the file's room by writing zeros.
fn fill(file: &File) -> std::io::Result<()> {
    const PIECE_BYTES: usize = 64 << 10;
    let zeros = [0; PIECE_BYTES];
    (0..RING_BYTES).step_by(PIECE_BYTES).try_for_each(|from| {
        let bytes = PIECE_BYTES.min(RING_BYTES - from);
        file.write_all_at(&zeros[..bytes], from as u64)
    })
}

impl RingMemory {
    /// Makes a ring of an empty file, which other processes may map afterwards.
    ///
    /// # Errors
    /// When the file system has no room for it, or it cannot be mapped.
    pub fn create(file: &File, identity: &RingIdentity) -> std::io::Result<Self> {
        // Allocates all room now: a page that finds no room later causes a SIGBUS.
        let taken = rustix::io::retry_on_intr(|| {
            let flags = rustix::fs::FallocateFlags::empty();
            rustix::fs::fallocate(file, flags, 0, RING_BYTES as u64)
        });
        match taken {
            // The file system does not support it, or the process may not call it.
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM) => fill(file)?,
            other => other?,
        }
        let ring = Self::map(file)?;
        ring.begin(identity);
        Ok(ring)
    }

    /// Makes a ring in memory of this process alone.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn anonymous(identity: &RingIdentity) -> std::io::Result<Self> {
        let ring = Self {
            map: Arc::new(Mapping::new(None)?),
        };
        ring.begin(identity);
        Ok(ring)
    }

    fn begin(&self, identity: &RingIdentity) {
        let ring = self;
        let rank = u64::from(identity.rank.0) | u64::from(identity.incarnation.0) << 32;
        ring.store(word::JOB, identity.job);
        ring.store(word::RANK, rank);
        ring.store(word::LOGGER, identity.logger.0.into());
        ring.store(word::START, identity.start.0);
        ring.store(word::DURABLE_END, identity.start.0);
        ring.store(word::MAGIC, RING_MAGIC);
    }

    /// Maps a ring that another process made, or an earlier life of this one.
    ///
    /// # Errors
    /// When it is not a ring of this version.
    pub fn open(file: impl AsFd) -> std::io::Result<Self> {
        let file = File::from(file.as_fd().try_clone_to_owned()?);
        let bytes = file.metadata()?.len();
        if bytes < RING_BYTES as u64 {
            return Err(invalid(format!("{bytes} bytes, a ring has {RING_BYTES}")));
        }
        let ring = Self::map(&file)?;
        match ring.load(word::MAGIC) {
            RING_MAGIC => Ok(ring),
            other => Err(invalid(format!(
                "begins with {other:#018x}, not {RING_MAGIC:#018x}: made by another version"
            ))),
        }
    }

    fn map(file: &File) -> std::io::Result<Self> {
        Ok(Self {
            map: Arc::new(Mapping::new(Some(file))?),
        })
    }

    /// The owner that its control page names.
    pub fn identity(&self) -> RingIdentity {
        let rank = self.load(word::RANK);
        RingIdentity {
            job: self.load(word::JOB),
            rank: Rank(rank as u32),
            incarnation: Incarnation((rank >> 32) as u32),
            logger: LoggerId(self.load(word::LOGGER) as u32),
            start: EventIndex(self.load(word::START)),
        }
    }

    /// Marks the ring closed. Of a client that checks after its write and a server that reads
    /// after this mark, at least one sees the other's store.
    pub(super) fn close(&self) {
        self.store(word::CLOSED, 1);
        fence(Ordering::SeqCst);
    }

    /// Address of the first byte of the data, to be registered with a NIC.
    pub fn data(&self) -> *mut u8 {
        self.map.0.as_ptr().wrapping_add(CONTROL_BYTES)
    }

    #[inline]
    fn word(&self, offset: usize) -> &AtomicU64 {
        &self.words(offset, 1)[0]
    }

    #[inline]
    fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        assert!(
            offset.is_multiple_of(8) && offset <= RING_BYTES && count <= (RING_BYTES - offset) / 8,
            "words outside their ring"
        );
        // SAFETY: in bounds and aligned (a mapping begins on a page), mapped as long as
        // `self.map` lives; all accesses are of atomic words only, but for NICs, whose
        // writes are the other side's like those of another process.
        unsafe {
            let first = self.map.0.as_ptr().wrapping_add(offset).cast();
            core::slice::from_raw_parts(first, count)
        }
    }

    #[inline]
    pub(super) fn load(&self, offset: usize) -> u64 {
        u64::from_le(self.word(offset).load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value.to_le(), Ordering::Release);
    }

    /// Copies a batch, or some lines of it, to `offset` of the data; its first
    /// word comes last.
    ///
    /// # Panics
    /// When it does not lie within the data, or not on words.
    #[inline(always)]
    pub fn write(&self, offset: usize, batch: &[u8]) {
        self.write_behind_first(offset, batch);
        self.publish(offset, batch);
    }

    /// Writes all of a batch except its first word: neither this batch nor an earlier one at
    /// this place is valid afterwards.
    ///
    /// # Panics
    /// As with [`RingMemory::write`].
    pub(super) fn prepare(&self, offset: usize, batch: &[u8]) {
        self.word(CONTROL_BYTES + offset)
            .store(0, Ordering::Relaxed);
        // Invalidates the old batch first: only a reader at this moment may see words of both
        // batches, which the checksum detects. EL-2
        fence(Ordering::Release);
        self.write_behind_first(offset, batch);
    }

    /// Writes the first word of a batch whose other words are written.
    #[inline(always)]
    pub(super) fn publish(&self, offset: usize, batch: &[u8]) {
        if let Some(first) = batch.first_chunk() {
            let place = self.word(CONTROL_BYTES + offset);
            place.store(u64::from_ne_bytes(*first), Ordering::Release);
        }
    }

    #[inline(always)]
    fn write_behind_first(&self, offset: usize, batch: &[u8]) {
        assert!(offset + batch.len() <= DATA_BYTES, "batch outside its ring");
        let places = self.words(CONTROL_BYTES + offset, batch.len().div_ceil(8));
        let (words, rest) = batch.as_chunks::<8>();
        for (place, bytes) in places.iter().zip(words).skip(1) {
            place.store(u64::from_ne_bytes(*bytes), Ordering::Relaxed);
        }
        if let Some(place) = places.get(words.len()) {
            let mut last = 0;
            for byte in rest.iter().rev() {
                last = last << 8 | u64::from(*byte);
            }
            place.store(last.to_le(), Ordering::Relaxed);
        }
    }

    /// Copies out of the data from `offset` on.
    ///
    /// # Panics
    /// When it does not lie within the data, or does not begin on a word.
    #[inline]
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        assert!(offset + to.len() <= DATA_BYTES, "read outside the ring");
        let mut words = self
            .words(CONTROL_BYTES + offset, to.len().div_ceil(8))
            .iter();
        let (whole, rest) = to.as_chunks_mut::<8>();
        let mut order = Ordering::Acquire;
        for (bytes, word) in whole.iter_mut().zip(&mut words) {
            *bytes = word.load(order).to_ne_bytes();
            order = Ordering::Relaxed;
        }
        if let Some(word) = words.next() {
            let word = word.load(order).to_ne_bytes();
            rest.copy_from_slice(&word[..rest.len()]);
        }
    }
}

fn invalid(reason: String) -> Error {
    Error::new(ErrorKind::InvalidData, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// For file systems that do not support allocation.
    #[test]
    fn zeros_take_all_the_room_of_a_ring() {
        let file = tempfile::tempfile().expect("a file");
        fill(&file).expect("there is room");
        let found = file.metadata().expect("it is open");
        assert_eq!(found.len(), RING_BYTES as u64);
        assert!(found.blocks() * 512 >= RING_BYTES as u64, "{found:?}");
    }
}
