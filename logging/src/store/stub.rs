//! Temporary.
use super::*;
use std::collections::{HashMap, VecDeque};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// x
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io { /// a
 Auto, /// b
 Uring, /// c
 Plain }
impl core::str::FromStr for Io {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s { "auto" => Ok(Io::Auto), "uring" => Ok(Io::Uring), "plain" => Ok(Io::Plain), _ => Err(format!("there is no way `{s}`: choose one of auto, uring, plain")) }
    }
}
/// x
pub struct DiskOptions { /// d
 pub directory: PathBuf, /// p
 pub prefix: String, /// j
 pub job: u64, /// i
 pub io: Io, /// c
 pub cores: Option<()> }
/// x
pub struct DiskStore { o: DiskOptions, files: HashMap<FileNumber, (std::fs::File, PathBuf)>, done: VecDeque<Completion> }
impl DiskStore {
    /// x
    pub fn open(o: DiskOptions) -> Result<Self, io::Error> { Ok(Self { o, files: HashMap::new(), done: VecDeque::new() }) }
}
fn wrap(r: io::Result<()>, what: &str) -> Result<(), StoreError> { r.map_err(|error| StoreError { attempted: what.into(), error }) }
impl Store for DiskStore {
    fn submit(&mut self, operation: Operation) {
        match operation {
            Operation::Open { file, header, reuse } => {
                let path = self.o.directory.join(format!("{}{}", self.o.prefix, header.name()));
                let mut go = || -> io::Result<std::fs::File> {
                    let f = match reuse.and_then(|r| self.files.remove(&r)) {
                        Some((f, old)) => { std::fs::rename(old, &path)?; f }
                        None => std::fs::OpenOptions::new().create(true).read(true).write(true).truncate(true).open(&path)?,
                    };
                    f.set_len(header.file_bytes())?;
                    f.write_all_at(&header.encode(), 0)?;
                    Ok(f)
                };
                let result = go();
                let result = wrap(result.map(|f| { self.files.insert(file, (f, path)); }), "open");
                self.done.push_back(Completion::Opened { file, result });
            }
            Operation::Write { file, slot, mut chunk } => {
                chunk.seal(self.o.job);
                let result = wrap(self.files[&file].0.write_all_at(chunk.bytes(), crate::segment::slot_offset(slot)), "write");
                self.done.push_back(Completion::Written { file, chunk, result });
            }
            Operation::Read { file, slot, token } => {
                let mut b = vec![0; refrain_ring::CHUNK_BYTES];
                let r = self.files[&file].0.read_exact_at(&mut b, crate::segment::slot_offset(slot));
                self.done.push_back(Completion::Read { token, file, result: wrap(r, "read").map(|()| ChunkBuffer::new(b)) });
            }
            Operation::Delete { file } => { if let Some((_, p)) = self.files.remove(&file) { let _ = std::fs::remove_file(p); } self.done.push_back(Completion::Deleted { file, result: Ok(()) }); }
        }
    }
    fn poll(&mut self) -> Option<Completion> { self.done.pop_front() }
    fn describe(&self) -> String { "stub".into() }
}
