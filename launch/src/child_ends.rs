//! The ends of children that have no descriptor of their own: with many ranks, a descriptor for each
//! would be more than systems allow. SIGCHLD announces that a child has ended, not which one.

use refrain_job::JobError;
use signal_hook::SigId;
use signal_hook::consts::SIGCHLD;
use std::io::Read as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Readable when a child may have ended.
#[derive(Debug)]
pub struct ChildEnds {
    read: UnixStream,
    handler: SigId,
}

impl ChildEnds {
    /// Installs the handler. It does not replace handlers of the program.
    ///
    /// # Errors
    /// Of the system.
    pub fn watch() -> Result<Self, JobError> {
        let failed = |error| JobError::control("catching the ends of ranks", error);
        let (read, write) = UnixStream::pair().map_err(failed)?;
        read.set_nonblocking(true).map_err(failed)?;
        let handler = signal_hook::low_level::pipe::register(SIGCHLD, write).map_err(failed)?;
        Ok(Self { read, handler })
    }

    /// Readable when a child may have ended since the last [`take`](Self::take).
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }

    /// Notes that all children are looked at next.
    pub fn take(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.read.read(&mut bytes), Ok(count) if count > 0) {}
    }
}

impl Drop for ChildEnds {
    fn drop(&mut self) {
        signal_hook::low_level::unregister(self.handler);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::PollFlags;
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn each_end_is_announced_even_several_times() {
        let mut ends = ChildEnds::watch().expect("a handler");
        for _ in 0..3 {
            let mut child = Command::new("true").spawn().expect("it starts");
            let longest = Duration::from_secs(60);
            let descriptor = ends.descriptor();
            assert!(crate::polling::is_ready_within(
                &descriptor,
                PollFlags::IN,
                longest
            ));
            ends.take();
            child.wait().expect("it has ended");
        }
    }
}
