//! The memory that the launcher keeps for a rank over all its lives: one piece of a
//! file in memory, which each life inherits and maps. The first life that joins fills
//! it, later ones read it.
//!
//! Only this library reads and writes it; to the launcher it is room. All zero: no
//! life has joined yet.

#![allow(unsafe_code, reason = "maps memory that lives of a rank share")]

use core::ffi::{CStr, c_char};
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use core::{mem, ptr, slice};

/// "FD": the file's descriptor, the same in each life.
const FD_VARIABLE: &CStr = c"REFRAIN_CLOCKS_FD";
/// "INODE:BYTES": which file that is, and how long a rank's piece of it.
const FILE_VARIABLE: &CStr = c"REFRAIN_CLOCKS";
/// Whose piece it is.
const RANK_VARIABLE: &CStr = c"REFRAIN_RANK";

/// The last byte is the version of this layout.
const FILLED: u64 = 0x5246_434c_4f43_4b01;

/// Amounts of processor time that go on from life to life.
#[derive(Clone, Copy)]
pub enum Spent {
    Process,
    Thread,
    UserOfProcess,
    SystemOfProcess,
    UserOfThread,
    SystemOfThread,
}
pub const SPENT: usize = 6;

/// The beginning of a piece; answers follow.
#[repr(C)]
struct Header {
    /// [`FILLED`] when all else is written.
    filled: AtomicU64,
    /// Which program it is of.
    image: AtomicU64,
    process: AtomicU32,
    answers_bytes: AtomicU32,
    /// In nanoseconds: the most that the program has been told.
    spent_ns: [AtomicI64; SPENT],
}
const _: () = assert!(mem::size_of::<Header>() == 24 + 8 * SPENT);

/// A piece, mapped for the rest of the process.
#[derive(Clone, Copy)]
pub struct Section {
    header: &'static Header,
    room: *mut u8,
    room_bytes: usize,
    /// What earlier lives have been told, in nanoseconds.
    before_ns: [i64; SPENT],
    descriptor: i32,
    inode: u64,
}

/// What the first life that joined has left.
pub struct Filled {
    pub process: i32,
    pub answers: &'static [u8],
}

impl Section {
    /// That of this process, if a launcher has given it one.
    pub fn of_this_process() -> Option<Self> {
        let (inode, bytes) = file()?;
        let descriptor = i32::try_from(number(variable(FD_VARIABLE)?)?).ok()?;
        let rank = number(variable(RANK_VARIABLE)?)?;
        let offset = i64::try_from(rank.checked_mul(bytes)?).ok()?;
        let bytes = usize::try_from(bytes).ok()?;
        if !is_file(descriptor, inode) {
            return None;
        }
        // A piece behind the end of the file would be a trap.
        // SAFETY: asks for a number.
        let end = unsafe { libc::lseek(descriptor, 0, libc::SEEK_END) };
        if bytes <= mem::size_of::<Header>() || end < offset.checked_add(bytes as i64)? {
            return None;
        }
        // SAFETY: a new mapping, at no place that is in use; the file cannot shrink.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                descriptor,
                offset,
            )
        };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: it is mapped for ever, aligned to a page, and all atomic.
        let header = unsafe { &*mapped.cast::<Header>() };
        Some(Self {
            header,
            before_ns: header
                .spent_ns
                .each_ref()
                .map(|told| told.load(Ordering::Relaxed)),
            // SAFETY: within the mapping.
            room: unsafe { mapped.cast::<u8>().add(mem::size_of::<Header>()) },
            room_bytes: bytes.saturating_sub(mem::size_of::<Header>()),
            descriptor,
            inode,
        })
    }

    /// Whether no life has joined yet.
    pub fn is_empty(&self) -> bool {
        self.header.filled.load(Ordering::Acquire) == 0
    }

    /// What a life of this program has left.
    pub fn filled_by(&self, image: u64) -> Option<Filled> {
        let header = self.header;
        let bytes = header.answers_bytes.load(Ordering::Relaxed) as usize;
        if header.filled.load(Ordering::Acquire) != FILLED
            || header.image.load(Ordering::Relaxed) != image
            || bytes > self.room_bytes
        {
            return None;
        }
        Some(Filled {
            process: header.process.load(Ordering::Relaxed) as i32,
            // SAFETY: it is never written again once it is filled.
            answers: unsafe { slice::from_raw_parts(self.room, bytes) },
        })
    }

    /// Fills it for the lives to come. Answers that do not fit are left out.
    pub fn fill(&self, image: u64, process: i32, answers: &[u8]) {
        let bytes = answers.len().min(self.room_bytes);
        // SAFETY: as long as it is empty nothing else looks there.
        unsafe { ptr::copy_nonoverlapping(answers.as_ptr(), self.room, bytes) };
        let header = self.header;
        header.answers_bytes.store(bytes as u32, Ordering::Relaxed);
        header.image.store(image, Ordering::Relaxed);
        header.process.store(process as u32, Ordering::Relaxed);
        header.filled.store(FILLED, Ordering::Release);
    }

    /// What the program has been told in earlier lives at most, in nanoseconds.
    pub fn before_ns(&self, spent: Spent) -> i64 {
        let before = self.before_ns.get(spent as usize);
        before.copied().unwrap_or_default()
    }

    /// The program is told this amount.
    pub fn tell_spent_ns(&self, spent: Spent, ns: i64) {
        if let Some(place) = self.header.spent_ns.get(spent as usize) {
            place.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// What this process starts from now on does not inherit the file: it is no part
    /// of the job.
    pub fn close_to_children(&self) {
        // The program may have closed it, and opened another.
        if is_file(self.descriptor, self.inode) {
            // SAFETY: sets a flag of a descriptor.
            unsafe { libc::fcntl(self.descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// Whether it is the launcher's file, which is sealed against shrinking.
fn is_file(descriptor: i32, inode: u64) -> bool {
    // SAFETY: zero is a value of it.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: asks; a number that is no descriptor is an error.
    let (status, seals) = unsafe {
        (
            libc::fstat(descriptor, &mut stat),
            libc::fcntl(descriptor, libc::F_GET_SEALS),
        )
    };
    status == 0 && stat.st_ino == inode && seals >= 0 && seals & libc::F_SEAL_SHRINK != 0
}

fn file() -> Option<(u64, u64)> {
    let text = variable(FILE_VARIABLE)?;
    let colon = text.iter().position(|byte| *byte == b':')?;
    let (inode, rest) = text.split_at_checked(colon)?;
    Some((number(inode)?, number(rest.get(1..)?)?))
}

fn variable(name: &CStr) -> Option<&'static [u8]> {
    // SAFETY: at this time no other thread changes the environment.
    let value: *const c_char = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: it ends with a zero.
    Some(unsafe { CStr::from_ptr(value) }.to_bytes())
}

fn number(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |number, byte| {
        let digit = byte.checked_sub(b'0').filter(|digit| *digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    })
}
