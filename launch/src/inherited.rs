//! The numbers of the descriptors that ranks inherit: the same in each life, since
//! they stand in the environment, which lies on the program's stack.

use rustix::fs::{Mode, OFlags, open};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Lower numbers are left to programs, if the limit of open files allows it: scripts use
/// some by number.
const NUMBER_MIN: RawFd = 100;
/// Lower numbers are standard input, output and error.
const NUMBER_LEAST: RawFd = 3;

/// Numbers that this process keeps in use, so that in a child between fork and exec
/// nothing else has them.
#[derive(Debug)]
pub struct InheritedNumbers(Vec<OwnedFd>);

impl InheritedNumbers {
    /// Reserves `count` numbers.
    ///
    /// # Errors
    /// Of the system.
    pub fn reserve(count: usize) -> io::Result<Self> {
        let null = open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        let reserve = |_| match fcntl_dupfd_cloexec(&null, NUMBER_MIN) {
            Err(Errno::INVAL | Errno::MFILE) => fcntl_dupfd_cloexec(&null, NUMBER_LEAST),
            reserved => reserved,
        };
        let reserved = (0..count).map(reserve).collect::<Result<_, _>>()?;
        Ok(Self(reserved))
    }

    /// One for the control socket, then those for other descriptors.
    pub fn numbers(&self) -> impl Iterator<Item = RawFd> {
        self.0.iter().map(AsRawFd::as_raw_fd)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_differ_and_stay_in_use() {
        let reserved = InheritedNumbers::reserve(3).unwrap();
        let mut numbers: Vec<RawFd> = reserved.numbers().collect();
        let more = InheritedNumbers::reserve(2).unwrap();
        numbers.extend(more.numbers());
        assert!(numbers.iter().all(|number| *number >= NUMBER_MIN));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 5);
    }
}
