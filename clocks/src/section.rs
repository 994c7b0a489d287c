//! A file in memory that the launcher keeps for a rank over all its lives. Each life
//! inherits and maps it. The first life that joins fills it, later ones read it.
//!
//! Only this library reads and writes it. If it is all zero, no life has joined yet.

#![allow(unsafe_code, reason = "maps memory that lives of a rank share")]

use core::ffi::{CStr, c_char, c_int};
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use core::{mem, ptr, slice};

/// The environment variable with the number of the file's descriptor, which is the same in each
/// life.
const VARIABLE: &CStr = c"REFRAIN_CLOCKS_FD";
/// Target of the descriptor's link in `/proc`, to check the descriptor: children inherit the
/// variable, and may have another file with this number.
const LINK: &[u8] = b"/memfd:refrain-clocks (deleted)";
/// Maximum length of a launcher's file.
const BYTES_MAX: usize = 1 << 20;

/// Value of a filled file; its last byte is the version of this layout.
const FILLED: u64 = 0x5246_434c_4f43_4b01;

/// Kinds of processor times that continue from life to life.
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

/// The header of the file; answers follow.
#[repr(C)]
struct Header {
    /// [`FILLED`] once all other fields are written.
    filled: AtomicU64,
    /// Hash of the program that filled the file.
    image: AtomicU64,
    process: AtomicU32,
    answers_bytes: AtomicU32,
    /// The highest processor times that the program got, in nanoseconds.
    spent_ns: [AtomicI64; SPENT],
}
const _: () = assert!(mem::size_of::<Header>() == 24 + 8 * SPENT);

/// The file, mapped for the rest of the process.
#[derive(Clone, Copy)]
pub struct Section {
    header: &'static Header,
    room: *mut u8,
    room_bytes: usize,
    descriptor: c_int,
}

/// The content that the first life that joined has written.
pub struct Filled {
    pub process: c_int,
    pub answers: &'static [u8],
    /// The highest processor times that the program got in its lives so far, in nanoseconds; by
    /// [`Spent`].
    pub spent_ns: [i64; SPENT],
}

impl Section {
    /// The file of this process, if a launcher has given it one.
    pub fn of_this_process() -> Option<Self> {
        let descriptor = c_int::try_from(number(variable()?)?).ok()?;
        let bytes = bytes_of(descriptor)?;
        // SAFETY: a new mapping, at no place that is in use; the file cannot shrink.
        let mapped = unsafe {
            libc::mmap(
                ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                descriptor,
                0,
            )
        };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        Some(Self {
            // SAFETY: it is mapped for ever, aligned to a page, and all atomic.
            header: unsafe { &*mapped.cast::<Header>() },
            // SAFETY: within the mapping.
            room: unsafe { mapped.cast::<u8>().add(mem::size_of::<Header>()) },
            room_bytes: bytes.saturating_sub(mem::size_of::<Header>()),
            descriptor,
        })
    }

    /// Whether no life has joined yet.
    pub fn is_empty(&self) -> bool {
        self.header.filled.load(Ordering::Acquire) == 0
    }

    /// The content, if a life of this program has written it.
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
            process: header.process.load(Ordering::Relaxed) as c_int,
            spent_ns: header
                .spent_ns
                .each_ref()
                .map(|spent| spent.load(Ordering::Relaxed)),
            // SAFETY: it is never written again once it is filled.
            answers: unsafe { slice::from_raw_parts(self.room, bytes) },
        })
    }

    /// Fills the file for later lives. Answers that do not fit are left out.
    pub fn fill(&self, image: u64, process: c_int, answers: &[u8]) {
        let bytes = answers.len().min(self.room_bytes);
        // SAFETY: as long as it is empty nothing else looks there.
        unsafe { ptr::copy_nonoverlapping(answers.as_ptr(), self.room, bytes) };
        let header = self.header;
        header.answers_bytes.store(bytes as u32, Ordering::Relaxed);
        header.image.store(image, Ordering::Relaxed);
        header.process.store(process as u32, Ordering::Relaxed);
        header.filled.store(FILLED, Ordering::Release);
    }

    /// Notes that the program gets this processor time.
    pub fn note_spent_ns(&self, spent: Spent, ns: i64) {
        if let Some(place) = self.header.spent_ns.get(spent as usize) {
            place.fetch_max(ns, Ordering::Relaxed);
        }
    }

    /// Closes the file to programs that this process starts from now on: they are not part of the
    /// job.
    pub fn close_to_children(&self) {
        // The program may have closed the descriptor and opened another file with its number.
        if bytes_of(self.descriptor).is_some() {
            // SAFETY: sets a flag of a descriptor.
            unsafe { libc::fcntl(self.descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
}

/// The length of the launcher's file, if the descriptor is of that file, which is sealed
/// against shrinking.
fn bytes_of(descriptor: c_int) -> Option<usize> {
    let mut path = *b"/proc/self/fd/0000000000\0";
    let (mut rest, digits) = (descriptor, path.get_mut(14..24)?);
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(rest % 10).ok()?;
        rest /= 10;
    }
    // The kernel writes the number without leading zeros.
    let zeros = digits.iter().position(|digit| *digit != b'0')?;
    digits.rotate_left(zeros);
    *path.get_mut(24_usize.checked_sub(zeros)?)? = 0;
    let mut link = [0u8; LINK.len() + 1];
    // SAFETY: into `link`; the path ends with a zero.
    let length =
        unsafe { libc::readlink(path.as_ptr().cast(), link.as_mut_ptr().cast(), link.len()) };
    if link.get(..usize::try_from(length).ok()?)? != LINK {
        return None;
    }
    // SAFETY: zero is a value of it.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: asks; a number that is no descriptor is an error.
    let (status, seals) = unsafe {
        (
            libc::fstat(descriptor, &mut stat),
            libc::fcntl(descriptor, libc::F_GET_SEALS),
        )
    };
    let bytes = usize::try_from(stat.st_size).ok()?;
    let is_ours = status == 0 && seals >= 0 && seals & libc::F_SEAL_SHRINK != 0;
    (is_ours && (mem::size_of::<Header>()..=BYTES_MAX).contains(&bytes)).then_some(bytes)
}

fn variable() -> Option<&'static [u8]> {
    // SAFETY: at this time no other thread changes the environment.
    let value: *const c_char = unsafe { libc::getenv(VARIABLE.as_ptr()) };
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
