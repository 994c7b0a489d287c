//! Acceptor and store together: what a server has.
//!
//! [`Logbook`] is the writer's side: it judges batches, gathers what it takes
//! into groups, and writes a group while the next one gathers. A batch that was
//! taken counts only once it is [written](Logbook::written) (it survives the
//! death of any process) or [durable](Logbook::durable) (the loss of power):
//! that is what may be acknowledged (EL-1). [`Archive`] looks at the same files
//! without touching them.

use crate::LoggerId;
use crate::acceptor::{self, Origin, Step};
pub use crate::acceptor::{Refusal, Verdict};
use crate::message::Holding;
use crate::store::appender::Appender;
use crate::store::contents::{Contents, FileState, Tracked};
use crate::store::disk::{Disk, ReadFiles};
use crate::store::folder::{Folder, OwnFolder};
use crate::store::format::{
    BATCH_ENTRY_BYTES_MAX, FileEnd, append_batch, append_files, append_row, files_entry_bytes,
    row_entry_bytes,
};
use crate::store::read::{Question, Reader, within};
use crate::store::replay::replay;
pub use crate::store::{StoreError, StoreIo};
use core::ops::ControlFlow;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Incarnation, Rank};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// How a logbook is to be kept.
#[derive(Clone, Debug)]
pub struct LogbookOptions {
    /// Whose it is; a folder is of one logger for ever.
    pub logger: LoggerId,
    /// Whether what is written is synced too (`fdatasync`, in groups).
    pub sync: bool,
    /// How to write.
    pub io: StoreIo,
    /// Bytes of a file; [`LogbookOptions::SEGMENT_BYTES`] unless in tests.
    pub segment_bytes: u64,
}

impl LogbookOptions {
    /// Bytes of a file.
    pub const SEGMENT_BYTES: u64 = 64 << 20;

    /// For that logger, with `sync` or without; the rest as is best.
    pub fn new(logger: LoggerId, sync: bool) -> Self {
        Self {
            logger,
            sync,
            io: StoreIo::Auto,
            segment_bytes: Self::SEGMENT_BYTES,
        }
    }
}

/// What a logger has of a rank when one of its lives says hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The latest life: the one that said hello.
    pub incarnation: Incarnation,
    /// Number of the first determinant that is kept.
    pub first: EventIndex,
    /// One past the last.
    pub end: EventIndex,
    /// Clock of the last.
    pub last_clock: Clock,
    /// Where the last life that is in the row begins: what other replicas have
    /// from here on may differ (and theirs is right, if they have a later
    /// life there). To catch up, read there from here on, and
    /// [adopt](Logbook::adopt).
    pub last_life_start: EventIndex,
    /// When the store [has](Logbook::has_stored) this, no restart forgets that
    /// all earlier lives are fenced: the time to say welcome. FENCE-1
    pub ticket: Ticket,
}

/// Something that was given to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// Why determinants cannot be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The rank is not known here.
    #[error("nothing is known of rank {rank} of job {job:016x}")]
    Unknown {
        /// The job.
        job: u64,
        /// The rank.
        rank: u32,
    },
    /// What was asked for has been given up. GC-1
    #[error(
        "determinants of rank {rank} are kept from number {first} on, all with clocks above \
         {trimmed}: ask for those"
    )]
    Trimmed {
        /// The rank.
        rank: u32,
        /// The first that is kept.
        first: u64,
        /// All with a higher clock are kept.
        trimmed: u64,
    },
    /// A determinant that should be there is not.
    #[error("determinants {from} to {to} of rank {rank} are missing from the files in {}", .folder.display())]
    Gap {
        /// The rank.
        rank: u32,
        /// The first that is missing.
        from: u64,
        /// The next that is there, or the end.
        to: u64,
        /// Where.
        folder: PathBuf,
    },
    /// A file cannot be read, or is damaged.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The determinants of many ranks, on disk. See the [module](self).
#[derive(Debug)]
pub struct Logbook {
    contents: Contents,
    appender: Appender,
    /// Files that go once these groups are stored.
    removals: Vec<(u64, u64)>,
}

impl Logbook {
    /// Bytes that wait to be written, above which nothing more is accepted.
    pub const UNWRITTEN_BYTES_MAX: u64 = 16 << 20;

    /// Opens the logbook in a folder, which is made if it is not there. Locks it
    /// against every other server. Reads back what is there, and cuts off the
    /// end of the last file if its write never ended. EL-3
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(folder: &Path, options: LogbookOptions) -> Result<Self, StoreError> {
        let disk = OwnFolder::open(folder, options.sync, options.io)?;
        Self::open_on(Box::new(disk), &options)
    }

    /// The same on any disk.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open_on(mut disk: Box<dyn Disk>, options: &LogbookOptions) -> Result<Self, StoreError> {
        let found = replay(&*disk)?;
        if let Some(logger) = found.logger
            && logger != options.logger
        {
            return Err(StoreError::OtherLogger {
                file: disk.folder(),
                found: logger.0,
                wanted: options.logger.0,
            });
        }
        let mut contents = found.contents;
        prepare(&mut *disk, &contents, &found.leftovers, options.sync)?;
        for tracked in &mut contents.rows {
            tracked.written = tracked.end();
            if options.sync {
                tracked.durable = tracked.end();
            }
        }
        let LoggerId(logger) = options.logger;
        let after = (found.last_group, found.next_file);
        Ok(Self {
            contents,
            appender: Appender::new(disk, options.sync, logger, options.segment_bytes, after),
            removals: Vec::new(),
        })
    }

    /// How it writes, for people.
    pub fn io_name(&self) -> String {
        self.appender.disk().name()
    }

    /// A life of a rank begins, or comes back; all before it are fenced.
    /// FENCE-1
    ///
    /// # Errors
    /// When it is fenced itself, or the store does not work.
    pub fn hello(
        &mut self,
        job: u64,
        rank: Rank,
        incarnation: Incarnation,
    ) -> Result<Standing, Refusal> {
        self.check_store()?;
        let known = self.contents.find(job, rank);
        let number = self.contents.find_or_add(job, rank);
        let row = &mut self.contents.rows[number].row;
        if row.hello(rank, incarnation)? || known.is_none() {
            self.append_row(number);
        }
        let row = &self.contents.rows[number].row;
        Ok(Standing {
            incarnation: row.incarnation,
            first: row.first,
            end: row.end,
            last_clock: row.last_clock,
            last_life_start: row.last_life().map_or(row.end, |life| life.start),
            ticket: self.ticket(),
        })
    }

    /// Takes a batch of a rank's latest life. `batch` begins with it and may go
    /// on behind it.
    ///
    /// # Errors
    /// When it is not accepted; then nothing has changed.
    pub fn accept(&mut self, job: u64, batch: &[u8]) -> Result<Verdict, Refusal> {
        self.take(job, batch, Origin::Writer)
    }

    /// Takes a copy from another replica, of any life up to the latest. One of a
    /// later life than the end of the row cuts the row. EL-3
    ///
    /// # Errors
    /// As for [`Logbook::accept`].
    pub fn adopt(&mut self, job: u64, batch: &[u8]) -> Result<Verdict, Refusal> {
        self.take(job, batch, Origin::Replica)
    }

    fn take(&mut self, job: u64, batch: &[u8], origin: Origin) -> Result<Verdict, Refusal> {
        let (header, _) = BatchHeader::read(batch)?;
        acceptor::check_job(job, &header)?;
        self.check_store()?;
        let rank = header.rank;
        let number = self.contents.find_cached(job, rank);
        let number = number.ok_or(Refusal::UnknownRank { job, rank: rank.0 })?;
        let step = self.contents.rows[number].row.judge(&header, origin)?;
        if step == Step::Known {
            return Ok(Verdict::Known);
        }
        let unwritten_bytes = self.appender.unwritten_bytes();
        if unwritten_bytes > Self::UNWRITTEN_BYTES_MAX {
            return Err(Refusal::Busy { unwritten_bytes });
        }
        if step == Step::CutAndTake {
            self.cut(number, &header)?;
        }
        let batch = &batch[..header.batch_bytes()];
        self.make_room(BATCH_ENTRY_BYTES_MAX);
        let place = self
            .appender
            .append(|group| append_batch(group, job, batch));
        let file = self.current_file();
        self.contents.put(number, &header, file, place);
        self.extend(number);
        Ok(Verdict::Taken)
    }

    /// Cuts a row where a new life goes on. Once in a life at most, and only
    /// when a dead one left behind what nobody recovered: so it may wait for
    /// the disk.
    fn cut(&mut self, number: usize, batch: &BatchHeader) -> Result<(), Refusal> {
        // What is cut must not end later, and the boundary must be in a file.
        self.finish().map_err(refused)?;
        let clock = self.reader().clock_before(number, batch.first);
        let clock = clock.map_err(refused)?;
        let tracked = &mut self.contents.rows[number];
        tracked.row.cut(batch, clock)?;
        tracked.written = within(tracked.written, tracked.end());
        tracked.durable = within(tracked.durable, tracked.end());
        self.contents.clip(number);
        self.append_row(number);
        Ok(())
    }

    /// Another replica has given up all before `first`, the last of it with this
    /// clock: where this row ends before, it goes on from there. GC-1
    ///
    /// # Errors
    /// When the rank has said no hello, or the store does not work.
    pub fn skip(
        &mut self,
        job: u64,
        rank: Rank,
        first: EventIndex,
        clock: Clock,
    ) -> Result<(), Refusal> {
        self.check_store()?;
        let number = self.contents.find(job, rank);
        let number = number.ok_or(Refusal::UnknownRank { job, rank: rank.0 })?;
        let row = &mut self.contents.rows[number].row;
        if first <= row.end {
            return Ok(());
        }
        row.trim(clock);
        row.drop_before(first, clock);
        self.contents.clip(number);
        self.append_row(number);
        self.drop_files();
        Ok(())
    }

    /// Determinants with at most this clock will not be asked for any more: files
    /// that hold only such go. GC-1
    pub fn trim(&mut self, job: u64, rank: Rank, clock: Clock) {
        let Some(number) = self.contents.find(job, rank) else {
            return;
        };
        if self.appender.failure().is_some() || !self.contents.rows[number].row.trim(clock) {
            return;
        }
        self.contents.release(number);
        self.append_row(number);
        self.drop_files();
    }

    /// Begins to write what was gathered, if nothing is under way; takes in what
    /// has ended. Says whether anything became written or durable. Does not wait
    /// for the disk.
    ///
    /// # Errors
    /// When something could not be written. After a
    /// [temporary](StoreError::is_temporary) error it is tried again by the next
    /// call; after any other, nothing is accepted any more.
    pub fn progress(&mut self) -> Result<bool, StoreError> {
        self.advance(false)
    }

    fn advance(&mut self, wait: bool) -> Result<bool, StoreError> {
        let contents = &mut self.contents;
        let advanced = self.appender.progress(wait, &mut |progress| {
            for &(number, end) in progress.extends {
                let tracked = &mut contents.rows[number];
                tracked.written = end;
                if progress.is_durable {
                    tracked.durable = end;
                }
            }
            if let Some(file) = contents.files.get_mut(&progress.file) {
                file.written_end = progress.end;
            }
        });
        self.remove_files();
        advanced
    }

    /// Waits until everything that was taken is stored.
    fn finish(&mut self) -> Result<(), StoreError> {
        self.advance(true).map(|_| ())
    }

    /// Readable when a write or sync under way has ended: then
    /// [`Logbook::progress`] has something to do. `None`: nothing is ever left
    /// under way. The same as long as the logbook lives.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.appender.disk().descriptor()
    }

    /// Whether everything is written (and, with sync, durable).
    pub fn is_settled(&self) -> bool {
        self.appender.is_settled()
    }

    /// Bytes that wait to be written.
    pub fn unwritten_bytes(&self) -> u64 {
        self.appender.unwritten_bytes()
    }

    /// A mark behind everything that was given to the store so far.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.appender.last_group())
    }

    /// Whether everything before that mark is written (and, with sync, durable).
    pub fn has_stored(&self, ticket: Ticket) -> bool {
        self.appender.stored() >= ticket.0
    }

    /// End of what is written of a rank, and the clock there. With sync, a sync
    /// that fails takes back what was written and not durable: there, only what
    /// is durable may be acknowledged.
    pub fn written(&self, job: u64, rank: Rank) -> (EventIndex, Clock) {
        let number = self.contents.find(job, rank);
        number.map_or_else(Default::default, |number| {
            self.contents.rows[number].written
        })
    }

    /// End of what is durable of a rank, and the clock there. Without sync: as
    /// far as this logbook has [settled](Logbook::settle).
    pub fn durable(&self, job: u64, rank: Rank) -> (EventIndex, Clock) {
        let number = self.contents.find(job, rank);
        number.map_or_else(Default::default, |number| {
            self.contents.rows[number].durable
        })
    }

    /// Writes and syncs everything, also without `sync`, and waits for it.
    ///
    /// # Errors
    /// When it cannot be.
    pub fn settle(&mut self) -> Result<(), StoreError> {
        self.finish()?;
        self.appender.sync_all()?;
        for tracked in &mut self.contents.rows {
            tracked.durable = tracked.written;
        }
        Ok(())
    }

    /// Gives each batch of a rank that has determinants from number `from` on
    /// and above `after_clock`, in order and without gaps, up to what is
    /// [written](Logbook::written). Complete, or an error. EL-5
    ///
    /// A batch is given whole: the first may begin before what was asked for.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(
        &self,
        job: u64,
        rank: Rank,
        from: EventIndex,
        after_clock: Option<Clock>,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let question = Question {
            job,
            rank,
            from,
            after_clock,
        };
        self.reader().read(&question, each)
    }

    /// What there is, by job and rank.
    pub fn holdings(&self) -> Vec<Holding> {
        holdings(&self.contents)
    }

    fn reader(&self) -> Reader<'_> {
        Reader {
            files: self.appender.disk(),
            contents: &self.contents,
        }
    }

    fn check_store(&self) -> Result<(), Refusal> {
        match self.appender.failure() {
            Some(reason) => Err(Refusal::Store {
                reason: format!("the event files cannot be written any more: {reason}"),
            }),
            None => Ok(()),
        }
    }

    fn current_file(&self) -> u64 {
        self.appender.file().unwrap_or_default()
    }

    /// The group that gathers says how far this row goes now.
    fn extend(&mut self, number: usize) {
        let tracked = &mut self.contents.rows[number];
        let end = tracked.end();
        self.appender.extend(number, &mut tracked.mark, end);
    }

    /// Appends what the row is now.
    fn append_row(&mut self, number: usize) {
        self.make_room(row_entry_bytes(&self.contents.rows[number].row));
        let Tracked { job, rank, row, .. } = &self.contents.rows[number];
        self.appender
            .append(|group| append_row(group, *job, *rank, row));
        self.extend(number);
    }

    /// Makes room for an entry: in a new file where it must be, which then says
    /// first how all rows are.
    fn make_room(&mut self, entry_bytes: usize) {
        if !self.appender.needs_file(entry_bytes) {
            return;
        }
        if let Some(file) = self.appender.file()
            && let Some(state) = self.contents.files.get_mut(&file)
        {
            state.end = self.appender.file_end();
        }
        let dead = self.take_dead_files(None);
        let Contents { rows, files, .. } = &self.contents;
        self.appender.begin_file(|group| {
            let file_end = |(&file, state): (&u64, &FileState)| FileEnd {
                file,
                end: state.end,
            };
            append_files(group, files.iter().map(file_end));
            for Tracked { job, rank, row, .. } in rows {
                append_row(group, *job, *rank, row);
            }
        });
        let file = self.current_file();
        self.contents.files.insert(file, FileState::default());
        let ticket = self.appender.last_group();
        self.removals
            .extend(dead.into_iter().map(|file| (ticket, file)));
    }

    /// Files, but for `current`, that hold nothing any more: they count no
    /// longer.
    fn take_dead_files(&mut self, current: Option<u64>) -> Vec<u64> {
        let files = self.contents.files.iter();
        let dead = files.filter(|(file, state)| state.parts == 0 && Some(**file) != current);
        let dead: Vec<u64> = dead.map(|(file, _)| *file).collect();
        for file in &dead {
            self.contents.files.remove(file);
        }
        dead
    }

    /// Gives up files that hold nothing any more. GC-1
    fn drop_files(&mut self) {
        let Some(current) = self.appender.file() else {
            // The next file will not count them.
            return;
        };
        let others = self.contents.files.len();
        self.make_room(files_entry_bytes(others));
        // That may have begun another one.
        let current = self.appender.file().unwrap_or(current);
        let dead = self.take_dead_files(Some(current));
        if dead.is_empty() {
            return;
        }
        let files = self.contents.files.iter();
        let others = files.filter(|(file, _)| **file != current);
        let others = others.map(|(&file, state)| FileEnd {
            file,
            end: state.end,
        });
        self.appender.append(|group| append_files(group, others));
        let ticket = self.appender.last_group();
        self.removals
            .extend(dead.into_iter().map(|file| (ticket, file)));
    }

    /// Removes files that no restart will ask for.
    fn remove_files(&mut self) {
        let stored = self.appender.stored();
        let appender = &mut self.appender;
        self.removals.retain(|&(ticket, file)| {
            if ticket > stored {
                return true;
            }
            appender.forget(file);
            // Where that fails, the next start tries again.
            let _ = appender.disk_mut().remove(file);
            false
        });
    }
}

fn refused(error: StoreError) -> Refusal {
    let reason = error.to_string();
    Refusal::Store { reason }
}

fn holdings(contents: &Contents) -> Vec<Holding> {
    let rows = contents.rows.iter();
    let mut holdings: Vec<_> = rows
        .map(|tracked| tracked.row.holding(tracked.job, tracked.rank))
        .collect();
    holdings.sort_unstable_by_key(|holding| (holding.job, holding.rank));
    holdings
}

/// Makes what was found safe to build on.
fn prepare(
    disk: &mut dyn Disk,
    contents: &Contents,
    leftovers: &[u64],
    sync: bool,
) -> Result<(), StoreError> {
    if sync {
        // What was found may be in memory only, and counts as durable from now
        // on; also that the leftovers do not count.
        for &file in contents.files.keys() {
            disk.sync(file).map_err(|error| StoreError::Io {
                attempted: format!("syncing {}", disk.path(file).display()),
                error,
            })?;
        }
    }
    // Only room is lost where this fails.
    if let Some((&last, state)) = contents.files.last_key_value() {
        let _ = disk.shorten(last, state.end);
    }
    for &file in leftovers {
        let _ = disk.remove(file);
    }
    Ok(())
}

/// A view of a logbook's folder that changes nothing there, whether its server
/// lives or not. Shows what was written when it was opened.
#[derive(Debug)]
pub struct Archive {
    files: Box<dyn ReadFiles>,
    logger: Option<LoggerId>,
    contents: Contents,
}

impl Archive {
    /// Times that it is tried anew when a file vanishes meanwhile.
    const ATTEMPTS_MAX: u32 = 8;

    /// Looks at a folder.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        Self::open_on(Box::new(Folder::open(folder)?))
    }

    /// The same on any disk.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open_on(files: Box<dyn ReadFiles>) -> Result<Self, StoreError> {
        let mut attempt = 1;
        let found = loop {
            match replay(&*files) {
                Ok(found) => break found,
                // Its server may give up files meanwhile.
                Err(error) if attempt == Self::ATTEMPTS_MAX => return Err(error),
                Err(_) => attempt += 1,
            }
        };
        let mut contents = found.contents;
        for tracked in &mut contents.rows {
            tracked.written = tracked.end();
        }
        Ok(Self {
            files,
            logger: found.logger,
            contents,
        })
    }

    /// Whose folder it is; `None`: nothing was written yet.
    pub fn logger(&self) -> Option<LoggerId> {
        self.logger
    }

    /// What there is, by job and rank.
    pub fn holdings(&self) -> Vec<Holding> {
        holdings(&self.contents)
    }

    /// As [`Logbook::read`].
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(
        &self,
        job: u64,
        rank: Rank,
        from: EventIndex,
        after_clock: Option<Clock>,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let question = Question {
            job,
            rank,
            from,
            after_clock,
        };
        let reader = Reader {
            files: &*self.files,
            contents: &self.contents,
        };
        reader.read(&question, each)
    }
}
