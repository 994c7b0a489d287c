//! Keeps the low descriptor numbers free for the program.
//!
//! The system gives each new descriptor the lowest free number. A program that has closed its
//! standard output would print into the next file that the library opens, and its own files would
//! have other numbers in a life that opens more or fewer.

use refrain_wire::unix::first_number;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::fcntl_dupfd_cloexec;
use std::os::fd::{AsRawFd as _, OwnedFd};

/// While this value lives, every number below [`first_number`] is in use.
pub(super) struct LowNumbers {
    _placeholders: Vec<OwnedFd>,
}

impl LowNumbers {
    /// Occupies as many low numbers as the system gives.
    pub(super) fn hold() -> Self {
        let mut placeholders = Vec::new();
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let mut next = open("/", flags, Mode::empty());
        while let Ok(placeholder) = next {
            if placeholder.as_raw_fd() >= first_number() {
                break;
            }
            next = fcntl_dupfd_cloexec(&placeholder, 0);
            placeholders.push(placeholder);
        }
        Self {
            _placeholders: placeholders,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_opened_meanwhile_gets_a_higher_number() {
        let held = LowNumbers::hold();
        let file = std::fs::File::open("/").unwrap();
        assert!(file.as_raw_fd() >= first_number());
        drop(held);
        let file = std::fs::File::open("/").unwrap();
        assert!(file.as_raw_fd() < first_number());
    }
}
