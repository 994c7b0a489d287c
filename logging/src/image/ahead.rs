//! Reads ahead: a few threads read chunks of files, bypassing the page cache, before they are
//! needed. (Through the page cache a log of 4 GiB took
//! three times as long here, because the system allocates each of its pages first.)

use super::contents::{Contents, Opened};
use crossbeam_channel::{Receiver, Sender, unbounded};
use refrain_ring::CHUNK_BYTES;
use refrain_storage::{AlignedBuffer, BLOCK_BYTES};
use rustix::fs::OFlags;
use std::collections::HashMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::thread::JoinHandle;

/// Maximum number of concurrent reads.
const THREADS: usize = 4;

/// Identifies a chunk: the number of its file, and its offset there.
type Key = (usize, u64);

/// A read; the thread returns it with its result.
struct Read {
    key: Key,
    file: Arc<Opened>,
    bytes: usize,
    buffer: AlignedBuffer,
    result: io::Result<usize>,
}

/// Reads chunks before they are needed. The first read starts the threads, which end when
/// this is dropped.
#[derive(Default)]
pub(super) struct Ahead {
    threads: Option<Threads>,
    /// Reads that have completed and are not taken, or are under way (`None`).
    reads: HashMap<Key, Option<Read>>,
    spare: Vec<AlignedBuffer>,
    file: Option<(usize, Arc<Opened>)>,
}

struct Threads {
    to_do: Option<Sender<Read>>,
    done: Receiver<Read>,
    handles: Vec<JoinHandle<()>>,
}

impl fmt::Debug for Ahead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ahead({} reads)", self.reads.len())
    }
}

impl Ahead {
    /// Begins to read a chunk of a file on disk. A failed read is tried again, and
    /// reported, when the chunk is needed.
    pub fn ask(&mut self, number: usize, contents: &Contents, at: u64, bytes: usize) {
        let key = (number, at);
        let Some(file) = self.file(number, contents) else {
            return;
        };
        if self.reads.contains_key(&key) {
            return;
        }
        let buffer = self.spare.pop();
        let read = Read {
            key,
            file,
            bytes: bytes.next_multiple_of(BLOCK_BYTES).min(CHUNK_BYTES),
            buffer: buffer.unwrap_or_else(|| AlignedBuffer::new(CHUNK_BYTES)),
            result: Ok(0),
        };
        let threads = self.threads.get_or_insert_with(Threads::start);
        if let Some(to_do) = &threads.to_do
            && to_do.send(read).is_ok()
        {
            self.reads.insert(key, None);
        }
    }

    /// Copies the bytes read of a chunk into `to`; `None` when the chunk was not requested,
    /// or could not be read.
    pub fn take(&mut self, number: usize, at: u64, to: &mut [u8]) -> Option<usize> {
        let key = (number, at);
        let mut found = self.reads.remove(&key)?;
        while found.is_none() {
            let done = self.threads.as_ref()?.done.recv().ok()?;
            match done.key == key {
                true => found = Some(done),
                false => drop(self.reads.insert(done.key, Some(done))),
            }
        }
        let done = found?;
        let read = done.result.ok().map(|read| read.min(to.len()));
        if let Some(read) = read {
            to[..read].copy_from_slice(&done.buffer.bytes()[..read]);
        }
        self.spare.push(done.buffer);
        read
    }

    fn file(&mut self, number: usize, contents: &Contents) -> Option<Arc<Opened>> {
        if self.file.as_ref().is_none_or(|(open, _)| *open != number) {
            let opened = match contents.in_memory() {
                true => return None,
                false => Opened::File(open_direct(contents).ok()?),
            };
            self.file = Some((number, Arc::new(opened)));
        }
        self.file.as_ref().map(|(_, file)| Arc::clone(file))
    }
}

/// Opens a file to bypass the page cache, if the file system supports it.
fn open_direct(contents: &Contents) -> io::Result<File> {
    let direct = OpenOptions::new()
        .read(true)
        .custom_flags(OFlags::DIRECT.bits() as i32)
        .open(contents.path());
    direct.or_else(|_| File::open(contents.path()))
}

impl Threads {
    fn start() -> Self {
        let (send, to_do) = unbounded::<Read>();
        let (ended, done) = unbounded();
        let begin = |_| {
            let (to_do, ended) = (to_do.clone(), ended.clone());
            let work = move || {
                for mut read in to_do {
                    let buffer = &mut read.buffer.bytes_mut()[..read.bytes];
                    read.result = read.file.read(buffer, read.key.1);
                    if ended.send(read).is_err() {
                        return;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("refrain-read".into());
            thread.spawn(work).ok()
        };
        let handles: Vec<_> = (0..THREADS).filter_map(begin).collect();
        Self {
            // Without a thread nothing is read ahead.
            to_do: (!handles.is_empty()).then_some(send),
            done,
            handles,
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.to_do = None;
        for handle in self.handles.drain(..) {
            let _ = handle.join();
        }
    }
}

/// Files that stay open after chunks were read from them: few enough for every limit of
/// open files, enough to avoid opening a file for each chunk.
#[derive(Debug, Default)]
pub(super) struct OpenFiles {
    open: Vec<(usize, Opened)>,
    /// Chunks that are being read before they are needed.
    pub ahead: Ahead,
}

impl OpenFiles {
    const MAX: usize = 4;

    pub fn get(&mut self, number: usize, contents: &Contents) -> io::Result<&Opened> {
        let at = match self.open.iter().position(|(open, _)| *open == number) {
            Some(at) => at,
            None => {
                let opened = contents.open()?;
                if self.open.len() == Self::MAX {
                    self.open.remove(0);
                }
                self.open.push((number, opened));
                self.open.len() - 1
            }
        };
        Ok(&self.open[at].1)
    }
}
