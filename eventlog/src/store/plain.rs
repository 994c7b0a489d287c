//! A thread that writes and syncs, for where io_uring is not allowed.

use super::disk::{Ended, Stage, Write};
use super::engine::{Engine, carry_out};
use rustix::event::{EventfdFlags, eventfd};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// The engine; its thread ends with it.
#[derive(Debug)]
pub(super) struct Threaded {
    begun: Option<Sender<(Arc<File>, Write)>>,
    told: Sender<Ended>,
    ended: Receiver<Ended>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    reason: String,
}

impl Threaded {
    pub fn start(reason: &str) -> io::Result<Self> {
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (begun, to_do) = channel::<(Arc<File>, Write)>();
        let (told, ended) = channel();
        let (say, ring) = (told.clone(), bell.clone());
        let thread = std::thread::Builder::new()
            .name("event files".into())
            .spawn(move || {
                for (file, write) in to_do {
                    carry_out(&file, write, |ended| {
                        // Nobody listens any more only when the engine goes.
                        let _ = say.send(ended);
                        let _ = rustix::io::write(&ring, &1u64.to_ne_bytes());
                    });
                }
            })?;
        Ok(Self {
            begun: Some(begun),
            told,
            ended,
            bell,
            thread: Some(thread),
            reason: reason.into(),
        })
    }

    fn gone(_: impl Sized) -> io::Error {
        io::Error::other("the thread that writes event files is gone")
    }
}

impl Engine for Threaded {
    fn begin(&mut self, file: Arc<File>, write: Write) {
        if let Some(begun) = &self.begun
            && let Err(unsent) = begun.send((file, write))
        {
            let (_, write) = unsent.0;
            self.refuse(write, Self::gone(()));
        }
    }

    fn refuse(&mut self, write: Write, error: io::Error) {
        let bytes = write.bytes;
        let result = Err((Stage::Write, error));
        let _ = self.told.send(Ended::Done { bytes, result });
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    fn take_ended(&mut self, wait: bool) -> io::Result<Option<Ended>> {
        // Before looking, so that no ringing is lost.
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        if wait {
            return self.ended.recv().map(Some).map_err(Self::gone);
        }
        match self.ended.try_recv() {
            Ok(ended) => Ok(Some(ended)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(gone @ TryRecvError::Disconnected) => Err(Self::gone(gone)),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn name(&self) -> String {
        format!("plain writes in a thread ({})", self.reason)
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.begun = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
