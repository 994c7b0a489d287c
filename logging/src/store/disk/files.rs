//! The store's files, with their names and open descriptors.

use crate::segment::{FILE_HEADER_BYTES, FileHeader};
use crate::store::{FileNumber, StoreError};
use refrain_storage::{AlignedBuffer, Directory, File};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

/// Maximum number of names tried for one channel and first chunk.
const SAME_NAME_MAX: u32 = 10_000;

#[derive(Debug)]
struct Known {
    name: String,
    slots: u32,
    open: Option<File>,
    last_use: u64,
}

/// All files of a store.
#[derive(Debug)]
pub(in crate::store) struct Files {
    directory: Directory,
    prefix: String,
    files: BTreeMap<FileNumber, Known>,
    /// Open files, by their last use.
    open: BTreeSet<(u64, FileNumber)>,
    open_max: usize,
    uses: u64,
    header: AlignedBuffer,
}

impl Files {
    pub fn new(directory: Directory, prefix: String, open_max: usize) -> Self {
        Self {
            directory,
            prefix,
            files: BTreeMap::new(),
            open: BTreeSet::new(),
            open_max: open_max.max(1),
            uses: 0,
            header: AlignedBuffer::new(FILE_HEADER_BYTES),
        }
    }

    /// The same files in a copy of the directory.
    #[cfg(any(test, feature = "test-doubles"))]
    pub fn in_copy(&self, directory: Directory) -> Self {
        let mut copy = Self::new(directory, self.prefix.clone(), self.open_max);
        let known = self.files.iter().map(|(file, known)| {
            let closed = Known {
                name: known.name.clone(),
                slots: known.slots,
                open: None,
                last_use: 0,
            };
            (*file, closed)
        });
        copy.files = known.collect();
        copy
    }

    /// Number of slots of an existing file.
    #[cfg(any(test, feature = "test-doubles"))]
    pub fn slots(&self, file: FileNumber) -> Option<u32> {
        self.files.get(&file).map(|known| known.slots)
    }

    /// The attempted action with the file's path, for errors.
    pub fn attempt(&self, doing: &str, file: FileNumber) -> String {
        match self.files.get(&file) {
            Some(known) => format!("{doing} {}", self.directory.path(&known.name).display()),
            None => format!("{doing} file {}, which does not exist", file.0),
        }
    }

    /// Makes a file with room for all its slots. Leaves no file behind if that
    /// fails.
    pub fn make(&mut self, file: FileNumber, header: &FileHeader) -> Result<(), StoreError> {
        let (name, made_file) = self.make_named(header)?;
        if let Err(error) = self.fill(&made_file, header) {
            let path = self.directory.path(&name);
            let bytes = header.file_bytes();
            let attempted = format!("making {} with {bytes} bytes", path.display());
            let removed = self.directory.remove(&name);
            return Err(and_left(StoreError { attempted, error }, removed));
        }
        self.add(file, header, name, made_file);
        Ok(())
    }

    fn make_named(&mut self, header: &FileHeader) -> Result<(String, File), StoreError> {
        for attempt in 1..=SAME_NAME_MAX {
            let name = self.name(header, attempt);
            match self.with_descriptors(|directory| directory.create(&name)) {
                Err(error) if is_taken(&error) => {}
                Err(error) => return Err(self.failed("making", &name, error)),
                Ok(file) => return Ok((name, file)),
            }
        }
        let error = io::ErrorKind::AlreadyExists.into();
        Err(self.failed("making", &self.name(header, 1), error))
    }

    /// The name of a file. Another file of the channel may begin with the same chunk, if
    /// that chunk could not be written there: then the attempt number makes names differ.
    fn name(&self, header: &FileHeader, attempt: u32) -> String {
        let name = header.name();
        let prefix = &self.prefix;
        match (attempt, name.strip_suffix(".log")) {
            (2.., Some(stem)) => format!("{prefix}{stem}-{attempt}.log"),
            _ => format!("{prefix}{name}"),
        }
    }

    /// Makes a new file of an old one; the old one is gone, even if this fails.
    pub fn reuse(
        &mut self,
        file: FileNumber,
        header: &FileHeader,
        old: FileNumber,
    ) -> Result<(), StoreError> {
        self.try_reuse(file, header, old).map_err(|failed| {
            // Its header may have been overwritten in part.
            let removed = self.delete(old);
            and_left(failed, removed.map_err(|left| left.error))
        })
    }

    fn try_reuse(
        &mut self,
        file: FileNumber,
        header: &FileHeader,
        old: FileNumber,
    ) -> Result<(), StoreError> {
        let opened = self.open(old)?;
        let fail = |files: &Self, error| StoreError {
            attempted: files.attempt("using again", old),
            error,
        };
        if self.files[&old].slots != header.slots {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it has another length");
            return Err(fail(self, error));
        }
        // Allocates nothing unless the file was truncated. The header is written before the
        // file is renamed: readers go by the header.
        let filled = self.fill(&opened, header);
        let name = filled
            .and_then(|()| self.rename(old, header))
            .map_err(|error| fail(self, error))?;
        self.forget(old);
        self.add(file, header, name, opened);
        Ok(())
    }

    fn rename(&self, old: FileNumber, header: &FileHeader) -> io::Result<String> {
        let old = &self.files[&old].name;
        for attempt in 1..=SAME_NAME_MAX {
            let name = self.name(header, attempt);
            if name == *old {
                return Ok(name);
            }
            match self.directory.rename_to_new(old, &name) {
                Err(error) if is_taken(&error) => {}
                other => return other.map(|()| name),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Allocates a file's room and writes its header.
    fn fill(&mut self, file: &File, header: &FileHeader) -> io::Result<()> {
        file.take_room(header.file_bytes())?;
        self.header.bytes_mut().copy_from_slice(&header.encode());
        file.write_at(0, self.header.bytes())
    }

    /// Removes a file.
    pub fn delete(&mut self, file: FileNumber) -> Result<(), StoreError> {
        let attempted = self.attempt("removing", file);
        let removed = match self.forget(file) {
            Some(name) => self.directory.remove(&name),
            None => Err(io::ErrorKind::NotFound.into()),
        };
        removed.map_err(|error| StoreError { attempted, error })
    }

    /// Opens an existing file, unless it is open.
    pub fn open(&mut self, file: FileNumber) -> Result<File, StoreError> {
        let Some(known) = self.files.get(&file) else {
            return Err(StoreError {
                attempted: self.attempt("opening", file),
                error: io::ErrorKind::NotFound.into(),
            });
        };
        let opened = match &known.open {
            Some(open) => open.clone(),
            None => {
                let name = known.name.clone();
                self.with_descriptors(|directory| directory.open_file(&name))
                    .map_err(|error| self.failed("opening", &name, error))?
            }
        };
        self.used(file, opened.clone());
        Ok(opened)
    }

    /// Opens something; if no descriptors are left, closes idle files and tries once
    /// more.
    fn with_descriptors(
        &mut self,
        open: impl Fn(&Directory) -> io::Result<File>,
    ) -> io::Result<File> {
        match open(&self.directory) {
            Err(error) if is_lack_of_descriptors(&error) => {
                self.close_down_to(0);
                open(&self.directory)
            }
            other => other,
        }
    }

    fn add(&mut self, file: FileNumber, header: &FileHeader, name: String, opened: File) {
        let new = Known {
            name,
            slots: header.slots,
            open: None,
            last_use: 0,
        };
        self.files.insert(file, new);
        self.used(file, opened);
    }

    fn used(&mut self, file: FileNumber, opened: File) {
        self.uses += 1;
        let uses = self.uses;
        if let Some(known) = self.files.get_mut(&file) {
            self.open.remove(&(known.last_use, file));
            known.last_use = uses;
            known.open = Some(opened);
            self.open.insert((uses, file));
        }
        self.close_down_to(self.open_max);
    }

    /// Closes files until at most `open_max` are open: those unused for longest first, and
    /// none with an operation under way.
    fn close_down_to(&mut self, open_max: usize) {
        let mut excess = self.open.len().saturating_sub(open_max);
        let files = &mut self.files;
        self.open.retain(|(_, number)| {
            let known = files.get_mut(number).filter(|_| excess > 0);
            let is_idle = |known: &Known| !known.open.as_ref().is_some_and(File::is_shared);
            let Some(idle) = known.filter(|known| is_idle(known)) else {
                return true;
            };
            idle.open = None;
            excess -= 1;
            false
        });
    }

    fn forget(&mut self, file: FileNumber) -> Option<String> {
        let known = self.files.remove(&file)?;
        self.open.remove(&(known.last_use, file));
        Some(known.name)
    }

    fn failed(&self, doing: &str, name: &str, error: io::Error) -> StoreError {
        let path = self.directory.path(name);
        let advice = match is_lack_of_descriptors(&error) {
            true => " (raise the limit of open files, `ulimit -n`)",
            false => "",
        };
        StoreError {
            attempted: format!("{doing} {}{advice}", path.display()),
            error,
        }
    }
}

/// Adds to an error after which a file had to be removed that the removal failed, if it did.
fn and_left(mut failed: StoreError, removed: io::Result<()>) -> StoreError {
    if let Err(error) = removed
        && error.kind() != io::ErrorKind::NotFound
    {
        let left = format!(" (it cannot be removed either, {error}, and still takes disk space)");
        failed.attempted += &left;
    }
    failed
}

fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

fn is_lack_of_descriptors(error: &io::Error) -> bool {
    let number = error.raw_os_error();
    number == Some(Errno::MFILE.raw_os_error()) || number == Some(Errno::NFILE.raw_os_error())
}
