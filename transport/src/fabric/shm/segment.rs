//! The shared segment of one rank: its layout, and how it is mapped.
//!
//! A segment is an unnamed memory file (memfd): it lives as long as a process maps it or holds its
//! descriptor. So a killed job leaves nothing, and a dead rank's log stays readable for its peers
//! and the launcher. A rank writes most of its own segment; peers write the fields whose comments
//! say so. The layout is in docs/formats/wire-format.md.

#![allow(
    unsafe_code,
    reason = "maps memory files and turns their bytes into typed atomics"
)]

use crate::control::CONTROL_BYTES;
use crate::fabric::FabricError;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Acquire;
use core::sync::atomic::{AtomicU32, AtomicU64};
use refrain_ring::{Incarnation, Rank, Region, placement};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

/// First word of a segment: "rfrnshm" and the version of its layout.
pub(super) const SEGMENT_MAGIC: u64 = u64::from_le_bytes(*b"rfrnshm\x04");
/// The offset and length of log memory are multiples of this, the size of a huge page.
pub(super) const EXTENT_BYTES: usize = 2 << 20;
/// Maximum number of control frames in flight on one lane.
pub(super) const CONTROL_SLOTS: u64 = 64;
/// Maximum number of ranks that can share one host.
pub const RANKS_MAX: u32 = 4096;

/// Identity of a segment; written once before it is published.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Head {
    pub magic: AtomicU64,
    pub job: AtomicU64,
    pub rank: AtomicU32,
    pub incarnation: AtomicU32,
    pub size: AtomicU32,
    /// 1: the rank answers expedited memory barriers, so that its peers need no
    /// fence of their own (see `wake.rs`).
    pub answers_barriers: AtomicU32,
    pub arena_offset: AtomicU64,
    pub segment_bytes: AtomicU64,
    pub window_bytes: AtomicU64,
}

/// Where a rank sleeps, and which peers have rung.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Doorbell {
    /// Futex: 1 while the rank sleeps or is about to. Peers set it to 0.
    pub sleeping: AtomicU32,
    /// 1: the launcher has called since the rank last woke.
    pub called: AtomicU32,
    _line: [u32; 14],
    /// Bit r: rank r has rung. Peers set bits, the rank takes them.
    pub rung: [AtomicU64; RANKS_MAX as usize / 64],
}

/// One slot of a control lane: a sequence number (from 1) that publishes it,
/// and the frame.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct ControlSlot {
    pub sequence: AtomicU64,
    pub words: [AtomicU64; CONTROL_BYTES / 8],
}

/// The lane from the segment's rank to one destination. Each group of fields has its own cache
/// line, because it has its own writer and pace.
#[repr(C, align(64))]
#[derive(Debug)]
pub(super) struct Lane {
    /// Sender: chunk in which the lane begins, or goes on after it has rested, plus 1; 0 before
    /// the first frame, and while it rests.
    pub first_chunk: AtomicU64,
    /// Sender: incarnation of the receiver that the lane is for, plus 1; 0 while it is for none. It
    /// is the last word that is stored when the lane begins anew.
    pub for_life: AtomicU64,
    /// Sender: 1 while it sleeps until there is room.
    pub waits_for_room: AtomicU32,
    _sender: [u32; 11],
    /// Receiver: 1 while it polls the lane: the sender does not have to ring after a post.
    pub polled: AtomicU32,
    _polled: [u32; 15],
    /// Receiver: position up to which it has let go of the log.
    pub released: AtomicU64,
    /// Receiver: control frames taken.
    pub control_taken: AtomicU64,
    _receiver: [u64; 6],
    pub control: [ControlSlot; CONTROL_SLOTS as usize],
}

const _: () = assert!(
    size_of::<Head>() == 64 && size_of::<Doorbell>() == 64 + 512 && size_of::<ControlSlot>() == 64
);
const _: () = assert!(size_of::<Lane>() == 192 + 64 * 64);

const DOORBELL_OFFSET: usize = 4096;
const LANES_OFFSET: usize = 8192;

/// A mapped segment, own or of a peer.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    mapping: Arc<Mapping>,
    /// `None`: it is of a peer, and mapped. A descriptor of each would be too many.
    file: Option<Arc<OwnedFd>>,
}

#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    /// The mapping with the slack for its alignment.
    reserved: NonNull<u8>,
    reserved_bytes: usize,
}

// SAFETY: the mapping is plain memory, unmapped only by the last owner; all
// access goes through atomics or by the rules of `Region`.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range was reserved by `map` and nothing refers to it any more.
        let _ = unsafe { rustix::mm::munmap(self.reserved.as_ptr().cast(), self.reserved_bytes) };
    }
}

fn lane_offset(destination: Rank) -> usize {
    LANES_OFFSET + destination.index() * size_of::<Lane>()
}

/// Bytes before the log memory of a segment in a job of `size` ranks.
pub(super) fn arena_offset(size: u32) -> usize {
    (LANES_OFFSET + size as usize * size_of::<Lane>()).next_multiple_of(EXTENT_BYTES)
}

impl Segment {
    /// Creates a segment with room for `log_bytes` of log. Its memory is taken from the system when
    /// it is used.
    pub(super) fn create(rank: Rank, size: u32, log_bytes: usize) -> Result<Self, FabricError> {
        let bytes = arena_offset(size) + log_bytes;
        let make = || -> io::Result<OwnedFd> {
            check_file_size_limit(bytes)?;
            let name = format!("refrain-rank-{rank}");
            let file =
                rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
            rustix::fs::ftruncate(&file, bytes as u64)?;
            // A peer that shrank the file would kill its readers.
            rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
            // A lane takes memory when its peer is connected.
            reserve_pages(&file, 0, LANES_OFFSET)?;
            Ok(file)
        };
        let file = make().map_err(|error| {
            let attempted = format!(
                "making a shared segment of {} MiB for rank {rank} (lower --log-memory, or raise `ulimit -f` or the container's memory limit)",
                bytes >> 20
            );
            FabricError::refused(attempted, &error)
        })?;
        let file = Arc::new(file);
        let segment = Self::open(&file, bytes)?;
        Ok(Self {
            file: Some(file),
            ..segment
        })
    }

    /// Takes memory for the lane to a peer. Lanes that are not used have none.
    pub(super) fn reserve_lane(&self, peer: Rank) -> Result<(), FabricError> {
        let reserved = self.file.as_ref().map_or(Ok(()), |file| {
            reserve_pages(file, lane_offset(peer), size_of::<Lane>())
        });
        reserved.map_err(|error| {
            let attempted = format!(
                "taking memory for the lane to rank {peer} (raise the container's memory limit?)"
            );
            FabricError::refused(attempted, &error)
        })
    }

    /// Maps the head and the doorbell of a rank's segment, and nothing else.
    pub(super) fn attach_doorbell(file: Arc<OwnedFd>) -> Result<Self, FabricError> {
        Self::open(&file, LANES_OFFSET)
    }

    /// Maps a peer's segment.
    pub(super) fn attach(file: Arc<OwnedFd>) -> Result<Self, FabricError> {
        let stat = rustix::fs::fstat(&file)
            .map_err(|error| FabricError::refused("looking at a peer's segment", &error))?;
        Self::open(&file, stat.st_size as usize)
    }

    fn open(file: &OwnedFd, bytes: usize) -> Result<Self, FabricError> {
        let mapping = map(file, bytes).map_err(|error| {
            let mib = bytes >> 20;
            let attempted = format!("mapping a shared segment of {mib} MiB (raise `ulimit -v`?)");
            FabricError::refused(attempted, &error)
        })?;
        let mapping = Arc::new(mapping);
        let file = None;
        Ok(Self { mapping, file })
    }

    /// The file of an own segment.
    pub(super) fn file(&self) -> Option<&Arc<OwnedFd>> {
        self.file.as_ref()
    }

    pub(super) fn bytes(&self) -> usize {
        self.mapping.bytes
    }

    pub(super) fn head(&self) -> &Head {
        self.at(0)
    }

    pub(super) fn doorbell(&self) -> &Doorbell {
        self.at(DOORBELL_OFFSET)
    }

    #[inline]
    pub(super) fn lane(&self, destination: Rank) -> &Lane {
        self.at(lane_offset(destination))
    }

    /// The whole segment as a region for a log.
    pub(super) fn region(&self) -> Region {
        // SAFETY: the mapping is readable, writable, page-aligned and kept by
        // the owner; logs follow the rules of regions.
        unsafe {
            Region::from_raw(
                self.mapping.base,
                self.mapping.bytes,
                Arc::clone(&self.mapping) as _,
            )
        }
    }

    /// Takes memory for a part of the segment from the system, as huge pages if the system gives
    /// them: then a log that streams through memory does not miss the TLB at every 4 KiB.
    pub(super) fn commit(&self, offset: usize, bytes: usize) -> io::Result<()> {
        debug_assert!(offset + bytes <= self.mapping.bytes);
        let file = self.file.as_ref().ok_or(rustix::io::Errno::BADF)?;
        let base = self.mapping.base.as_ptr().wrapping_add(offset);
        for extent in (0..bytes).step_by(EXTENT_BYTES) {
            let extent_bytes = EXTENT_BYTES.min(bytes - extent);
            // One page makes the extent eligible for collapsing into a huge one.
            reserve_pages(file, offset + extent, 4096)?;
            // SAFETY: inside the mapping; advice does not change contents.
            let collapsed = extent_bytes == EXTENT_BYTES
                && unsafe {
                    libc::madvise(
                        base.wrapping_add(extent).cast(),
                        extent_bytes,
                        MADV_COLLAPSE,
                    )
                } == 0;
            if !collapsed {
                reserve_pages(file, offset + extent, extent_bytes)?;
            }
        }
        // SAFETY: as above. Failure only means page faults later.
        unsafe { libc::madvise(base.cast(), bytes, libc::MADV_POPULATE_WRITE) };
        Ok(())
    }

    /// Checks a peer's segment before it is used.
    pub(super) fn check(
        &self,
        (peer, incarnation): (Rank, Incarnation),
        job: u64,
        size: u32,
    ) -> Result<(), FabricError> {
        let refuse = |reason: String| Err(FabricError::Attach { peer, reason });
        let (bytes, head) = (self.bytes(), self.head());
        if bytes < arena_offset(size) {
            return refuse(format!(
                "its segment has {bytes} bytes, too few for a job of {size} ranks"
            ));
        }
        let magic = head.magic.load(Acquire);
        if magic != SEGMENT_MAGIC {
            return refuse(format!(
                "its segment begins with {magic:#018x}, not {SEGMENT_MAGIC:#018x}: run the same refrain on every rank"
            ));
        }
        let found = (
            head.job.load(Acquire),
            Rank(head.rank.load(Acquire)),
            Incarnation(head.incarnation.load(Acquire)),
            head.size.load(Acquire),
        );
        if found != (job, peer, incarnation, size) {
            return refuse(format!(
                "its segment is of job {:x}, rank {}, incarnation {}, {} ranks; expected job {job:x}, rank {peer}, incarnation {incarnation}, {size} ranks",
                found.0, found.1, found.2, found.3
            ));
        }
        let layout = (
            head.arena_offset.load(Acquire),
            head.segment_bytes.load(Acquire),
        );
        if layout != (arena_offset(size) as u64, bytes as u64) {
            return refuse(
                "its segment is laid out differently: run the same refrain on every rank".into(),
            );
        }
        Ok(())
    }

    #[inline]
    fn at<T>(&self, offset: usize) -> &T {
        assert!(
            offset + size_of::<T>() <= self.mapping.bytes,
            "outside the segment"
        );
        // SAFETY: in bounds and aligned (offsets are multiples of 64); T is one
        // of this file's structs of atomics, valid for any bytes.
        unsafe { &*self.mapping.base.as_ptr().wrapping_add(offset).cast::<T>() }
    }
}

/// Checks the limit of file lengths: a file beyond it would kill the process with SIGXFSZ.
fn check_file_size_limit(bytes: usize) -> io::Result<()> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    match limit {
        Some(limit) if limit < bytes as u64 => Err(rustix::io::Errno::FBIG.into()),
        _ => Ok(()),
    }
}

/// Since Linux 6.1; works with every setting for shared huge pages.
const MADV_COLLAPSE: libc::c_int = 25;

/// Calls `fallocate`: only it reports missing memory as an error instead of a signal at the
/// first access. The call takes long, and any signal, even an ignored one, ends it.
fn reserve_pages(file: impl AsFd, offset: usize, bytes: usize) -> io::Result<()> {
    Ok(rustix::io::retry_on_intr(|| {
        rustix::fs::fallocate(&file, FallocateFlags::empty(), offset as u64, bytes as u64)
    })?)
}

/// Maps the file at an address where huge pages of the file are aligned in the address space.
fn map(file: &OwnedFd, bytes: usize) -> io::Result<Mapping> {
    use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
    let reserved_bytes = bytes + EXTENT_BYTES;
    // SAFETY: a fresh reservation of address space, then the file over a part
    // of it that nothing else uses.
    unsafe {
        let reserved = mmap_anonymous(
            core::ptr::without_provenance_mut(placement::next_address(reserved_bytes)),
            reserved_bytes,
            ProtFlags::empty(),
            MapFlags::PRIVATE,
        )?;
        let base = reserved.map_addr(|address| address.next_multiple_of(EXTENT_BYTES));
        let mapping = Mapping {
            base: NonNull::new(base.cast()).expect("the kernel maps nothing at 0"),
            bytes,
            reserved: NonNull::new(reserved.cast()).expect("the kernel maps nothing at 0"),
            reserved_bytes,
        };
        mmap(
            base,
            bytes,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED | MapFlags::FIXED,
            file,
            0,
        )?;
        Ok(mapping)
    }
}
