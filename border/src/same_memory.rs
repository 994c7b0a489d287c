//! Settings that keep memory which the program has never written the same in each life.
//! `REFRAIN_SAME_MEMORY` is a list of `heap`, `stack` and `addresses`, separated by commas, or
//! `none`; unset means all of them.
//!
//! The variable is read once, before the library's first allocation, so the code must not allocate.

#![allow(unsafe_code, reason = "reads the environment as C does")]

use core::ffi::CStr;
use core::sync::atomic::{AtomicU8, Ordering};

pub(crate) const VARIABLE: &CStr = c"REFRAIN_SAME_MEMORY";

/// The parts of the program's memory that the library does not use: its heap, its stack, its part
/// of the address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Means {
    Heap = 1,
    Stack = 2,
    Addresses = 4,
}

const ALL: u8 = Means::Heap as u8 | Means::Stack as u8 | Means::Addresses as u8;
/// Flag beside the means: the variable was read.
const READ: u8 = 8;
const UNKNOWN_WORD: u8 = 16;

static CHOSEN: AtomicU8 = AtomicU8::new(0);

pub(crate) fn uses(means: Means) -> bool {
    chosen() & means as u8 != 0
}

/// Refuses a variable that contains unknown words.
///
/// # Errors
/// What to write instead.
pub fn check() -> Result<(), String> {
    if chosen() & UNKNOWN_WORD == 0 {
        return Ok(());
    }
    Err(format!(
        "{} is not valid: use heap, stack, addresses (several, separated by commas), or none",
        VARIABLE.to_string_lossy()
    ))
}

#[inline]
fn chosen() -> u8 {
    match CHOSEN.load(Ordering::Relaxed) {
        0 => read(),
        chosen => chosen,
    }
}

/// Reads the variable. Two threads that read it at the same time get the same value.
#[cold]
fn read() -> u8 {
    // SAFETY: the name ends with a zero. A program that changes its environment during its first
    // call races with every other reader, too.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    let chosen = match value.is_null() {
        true => ALL,
        // SAFETY: a value of the environment ends with a zero, and stays valid.
        false => parsed(unsafe { CStr::from_ptr(value) }.to_bytes()),
    };
    // The first value that was stored stays.
    match CHOSEN.compare_exchange(0, chosen | READ, Ordering::Relaxed, Ordering::Relaxed) {
        Ok(_) => chosen | READ,
        Err(first) => first,
    }
}

fn parsed(list: &[u8]) -> u8 {
    if list == b"none" {
        return 0;
    }
    let means = list.split(|byte| *byte == b',').map(|word| match word {
        b"heap" => Means::Heap as u8,
        b"stack" => Means::Stack as u8,
        b"addresses" => Means::Addresses as u8,
        _ => UNKNOWN_WORD,
    });
    means.fold(0, |all, one| all | one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_its_means() {
        assert_eq!(parsed(b"none"), 0);
        assert_eq!(parsed(b"heap,stack,addresses"), ALL);
        assert_eq!(parsed(b"stack"), Means::Stack as u8);
        for wrong in ["", "all", "heap,", "heap, stack", "none,heap"] {
            assert_ne!(parsed(wrong.as_bytes()) & UNKNOWN_WORD, 0, "{wrong}");
        }
    }
}
