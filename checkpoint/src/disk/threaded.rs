//! A thread that writes: where there is no io_uring.

use super::engine::{Engine, UNDER_WAY_MAX};
use crate::buffer::Strip;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

struct Write {
    place: u64,
    strip: Strip,
    bytes: usize,
}

type Written = (Strip, io::Result<()>);

/// The engine.
#[derive(Debug)]
pub(super) struct Threaded {
    /// There until it is dropped.
    writes: Option<SyncSender<Write>>,
    written: Receiver<Written>,
    under_way: usize,
    thread: Option<JoinHandle<()>>,
}

fn write_all(file: &File, writes: &Receiver<Write>, written: &Sender<Written>) {
    for write in writes {
        let result = file.write_all_at(&write.strip.bytes()[..write.bytes], write.place);
        if written.send((write.strip, result)).is_err() {
            return;
        }
    }
}

fn gone<E>(_: E) -> io::Error {
    io::Error::other("the thread that writes checkpoints is gone")
}

impl Threaded {
    /// Starts the thread.
    pub fn start(file: File) -> io::Result<Self> {
        let (writes, to_write) = sync_channel(UNDER_WAY_MAX);
        let (tell, written) = channel();
        let thread = std::thread::Builder::new()
            .name("refrain-ckpt".into())
            .spawn(move || write_all(&file, &to_write, &tell))?;
        Ok(Self {
            writes: Some(writes),
            written,
            under_way: 0,
            thread: Some(thread),
        })
    }

    fn take_written(&mut self) -> io::Result<Strip> {
        let (strip, result) = self.written.recv().map_err(gone)?;
        self.under_way -= 1;
        result.map(|()| strip)
    }
}

impl Engine for Threaded {
    fn exchange(&mut self, place: u64, strip: &mut Strip, bytes: usize) -> io::Result<()> {
        let next = match self.under_way < UNDER_WAY_MAX {
            true => Strip::new(),
            false => self.take_written()?,
        };
        let strip = core::mem::replace(strip, next);
        let write = Write {
            place,
            strip,
            bytes,
        };
        let writes = self.writes.as_ref().ok_or_else(|| gone(()))?;
        writes.send(write).map_err(gone)?;
        self.under_way += 1;
        Ok(())
    }

    fn wait_for_all(&mut self) -> io::Result<()> {
        while self.under_way > 0 {
            self.take_written()?;
        }
        Ok(())
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.writes = None;
        if let Some(thread) = self.thread.take() {
            // Nobody is left to be told of a panic.
            let _ = thread.join();
        }
    }
}
