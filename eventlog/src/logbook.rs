//! The acceptor and the store together.
//!
//! [`Logbook`] is the writer's side: it checks batches with the acceptor, gathers accepted
//! ones into groups, and writes a group while the next one gathers. A taken batch
//! may be acknowledged only once it is [written](Logbook::written) (it survives the
//! death of any process) or [durable](Logbook::durable) (it survives the loss of power)
//! (EL-1). [`Archive`] reads the same files and changes nothing.

mod archive;
mod files;
mod terms;

pub use crate::acceptor::{Refusal, Verdict};
pub use crate::store::{ReadError, StoreError};
pub use archive::Archive;
pub use terms::{LogbookOptions, Standing, Ticket};

use crate::LoggerId;
use crate::acceptor::{self, Beginning, Origin, RankLog, Step};
use crate::message::Holding;
use crate::store::appender::Appender;
use crate::store::contents::{Contents, Tracked};
use crate::store::folder::OwnFolder;
use crate::store::format::{BATCH_ENTRY_BYTES_MAX, append_batch, append_rank_log, log_entry_bytes};
use crate::store::read::{Question, Reader, within};
use crate::store::replay::replay;
use crate::store::walk::GroupPosition;
use archive::holdings;
use core::ops::ControlFlow;
use files::prepare;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_storage::Directory;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// The clock of the last determinant before a number, if a batch ends there.
type ClockAt<'a> = &'a mut dyn FnMut(EventIndex) -> Result<Option<Clock>, Refusal>;

/// The determinants of many ranks, on disk. See the [module](self).
#[derive(Debug)]
pub struct Logbook {
    contents: Contents,
    appender: Appender,
    /// Pairs of a group and a file: the file is removed once the group is stored.
    removals: Vec<(u64, u64)>,
}

impl Logbook {
    /// Limit of the bytes that wait to be written; above it nothing more is accepted.
    pub const UNWRITTEN_BYTES_MAX: u64 = 16 << 20;

    /// Begins a logbook's folder, unless it was begun before. From then on a logger that
    /// [continues](LogbookOptions::continues) notices when all files in it are gone.
    /// EL-3
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn begin(folder: &Path) -> Result<(), StoreError> {
        crate::store::folder::begin(folder)
    }

    /// Opens the logbook in a folder, and creates the folder if it is missing. Locks it
    /// against every other server. Reads the files, and cuts off the
    /// end of the last one if its write did not complete. EL-3
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open(folder: &Path, options: LogbookOptions) -> Result<Self, StoreError> {
        let disk = OwnFolder::open(folder, options.sync, options.io, options.continues)?;
        Self::of(disk, &options)
    }

    /// As [`Logbook::open`], in any directory, which is not locked.
    ///
    /// # Errors
    /// See [`StoreError`].
    pub fn open_on(directory: Directory, options: &LogbookOptions) -> Result<Self, StoreError> {
        let disk = OwnFolder::open_in(directory, options.sync, options.io)?;
        Self::of(disk, options)
    }

    fn of(mut disk: OwnFolder, options: &LogbookOptions) -> Result<Self, StoreError> {
        let found = replay(&disk.folder)?;
        if let Some(logger) = found.logger
            && logger != options.logger
        {
            return Err(StoreError::OtherLogger {
                file: disk.folder.folder(),
                found: logger.0,
                wanted: options.logger.0,
            });
        }
        let mut contents = found.contents;
        prepare(&mut disk, &contents, &found.leftovers, options.sync)?;
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

    /// The I/O engine's name, for people.
    pub fn io_name(&self) -> String {
        self.appender.disk().name()
    }

    /// Registers a life of a rank that begins or reconnects; fences all earlier lives.
    /// FENCE-1
    ///
    /// # Errors
    /// When this life is fenced itself, or the store does not work.
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
            self.append_rank_log(number);
        }
        let row = &self.contents.rows[number].row;
        Ok(Standing {
            incarnation: row.incarnation,
            first: row.first,
            end: row.end,
            last_clock: row.last_clock,
            ticket: self.ticket(),
        })
    }

    /// Takes a batch of a rank's latest life. `batch` begins with the batch and may be
    /// longer.
    ///
    /// # Errors
    /// When the batch is refused; the logbook is then unchanged.
    /// When it is not accepted; then nothing has changed.
    pub fn accept(&mut self, job: u64, batch: &[u8]) -> Result<Verdict, Refusal> {
        let (header, _) = BatchHeader::read(batch)?;
        self.take(job, &header, batch, Origin::Writer)
    }

    /// As [`Logbook::accept`], for a batch whose `header` [`BatchHeader::read`] returned: its
    /// checks are not repeated.
    ///
    /// # Errors
    /// As for [`Logbook::accept`].
    pub fn accept_checked(
        &mut self,
        job: u64,
        header: &BatchHeader,
        batch: &[u8],
    ) -> Result<Verdict, Refusal> {
        self.take(job, header, batch, Origin::Writer)
    }

    /// Takes a copy from another replica, of a batch of any life up to the latest. A batch of a
    /// later life than the log's end may cut the log. EL-3
    ///
    /// # Errors
    /// As for [`Logbook::accept`].
    pub fn adopt(&mut self, job: u64, batch: &[u8]) -> Result<Verdict, Refusal> {
        let (header, _) = BatchHeader::read(batch)?;
        self.take(job, &header, batch, Origin::Replica)
    }

    fn take(
        &mut self,
        job: u64,
        header: &BatchHeader,
        batch: &[u8],
        origin: Origin,
    ) -> Result<Verdict, Refusal> {
        acceptor::check_job(job, header)?;
        self.check_store()?;
        let rank = header.rank;
        let number = self.contents.find_cached(job, rank);
        let number = number.ok_or(Refusal::UnknownRank { job, rank: rank.0 })?;
        let step = self.contents.rows[number].row.judge(header, origin)?;
        if step == Step::Known {
            return Ok(Verdict::Known);
        }
        let unwritten_bytes = self.appender.unwritten_bytes();
        if unwritten_bytes > Self::UNWRITTEN_BYTES_MAX {
            return Err(Refusal::Busy { unwritten_bytes });
        }
        if step == Step::CutAndTake {
            self.cut(number, header)?;
        }
        let batch = &batch[..header.batch_bytes()];
        self.make_room(BATCH_ENTRY_BYTES_MAX);
        let place = self
            .appender
            .append(|group| append_batch(group, job, batch));
        let file = self.current_file();
        self.contents.put(number, header, file, place);
        self.extend(number);
        Ok(Verdict::Taken)
    }

    /// Cuts a log where a later life begins. Happens at most once in a life, and only when an
    /// earlier one left determinants that were not recovered: so it may wait for the disk.
    fn cut(&mut self, number: usize, batch: &BatchHeader) -> Result<(), Refusal> {
        // No group under way may move the log's end again, and the boundary must be in a file.
        self.finish_or_refuse()?;
        let clock = self.reader().clock_before(number, batch.first);
        let clock = clock.map_err(refused)?;
        self.contents.rows[number].row.cut(batch, clock)?;
        self.went_back(number);
        Ok(())
    }

    /// The log of a rank.
    pub fn row(&self, job: u64, rank: Rank) -> Option<&RankLog> {
        self.tracked(job, rank).map(|tracked| &tracked.row)
    }

    fn tracked(&self, job: u64, rank: Rank) -> Option<&Tracked> {
        let number = self.contents.find(job, rank)?;
        Some(&self.contents.rows[number])
    }

    /// Admits a life of a rank; see [`RankLog::admit`]. The welcome may be sent once the
    /// store [has](Logbook::has_stored) everything. EL-3, FENCE-1
    ///
    /// # Errors
    /// As for [`RankLog::admit`], or the store does not work.
    pub fn admit(&mut self, job: u64, rank: Rank, life: &Beginning) -> Result<(), Refusal> {
        self.change(job, rank, |row, clock_at| row.admit(rank, life, clock_at))
    }

    /// Prepares a rank's log to continue as that of another replica does, which can
    /// supply this life; see [`RankLog::follow`]. The caller then [adopts](Logbook::adopt) the
    /// other replica's batches, from the end of the log on. EL-3, GC-1
    ///
    /// # Errors
    /// As for [`RankLog::follow`], or the store does not work.
    pub fn follow(
        &mut self,
        job: u64,
        rank: Rank,
        source: &RankLog,
        life: &Beginning,
    ) -> Result<(), Refusal> {
        self.change(job, rank, |row, clock_at| {
            row.follow(rank, source, life, clock_at)
        })
    }

    /// Changes a log, and stores it if `change` returns true. Changes are rare, so this may wait
    /// for the disk.
    fn change(
        &mut self,
        job: u64,
        rank: Rank,
        change: impl FnOnce(&mut RankLog, ClockAt<'_>) -> Result<bool, Refusal>,
    ) -> Result<(), Refusal> {
        self.check_store()?;
        let number = self.contents.find(job, rank);
        let number = number.ok_or(Refusal::UnknownRank { job, rank: rank.0 })?;
        let mut row = self.contents.rows[number].row.clone();
        let is_changed = change(&mut row, &mut |at| {
            // The boundary must be in a file.
            self.finish_or_refuse()?;
            self.reader().clock_before(number, at).map_err(refused)
        })?;
        if !is_changed {
            return Ok(());
        }
        if row.end != self.contents.rows[number].row.end {
            // No group under way may move the log's end again.
            self.finish_or_refuse()?;
        }
        self.contents.rows[number].row = row;
        self.went_back(number);
        self.drop_files();
        Ok(())
    }

    fn finish_or_refuse(&mut self) -> Result<(), Refusal> {
        let unwritten_bytes = self.unwritten_bytes();
        self.finish().map_err(|error| match error.is_temporary() {
            true => Refusal::Busy { unwritten_bytes },
            false => refused(error),
        })
    }

    /// The end of a log may be before what was counted.
    fn went_back(&mut self, number: usize) {
        let tracked = &mut self.contents.rows[number];
        tracked.written = within(tracked.written, tracked.end());
        tracked.durable = within(tracked.durable, tracked.end());
        self.contents.clip(number);
        self.append_rank_log(number);
    }

    /// Determinants with at most this clock are no longer needed: files that hold only
    /// such determinants are removed. GC-1
    pub fn trim(&mut self, job: u64, rank: Rank, clock: Clock) {
        let Some(number) = self.contents.find(job, rank) else {
            return;
        };
        if self.appender.failure().is_some() || !self.contents.rows[number].row.trim(clock) {
            return;
        }
        self.contents.release(number);
        self.append_rank_log(number);
        self.drop_files();
    }

    /// Begins to write the gathered group unless a write is under way, and handles completed
    /// writes and syncs. Returns whether anything became written or durable. Does not wait for
    /// the disk.
    ///
    /// # Errors
    /// When something could not be written. After a
    /// [temporary](StoreError::is_temporary) error the next call tries
    /// again; after any other error, nothing is accepted any more.
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

    /// Becomes readable when a write or sync has completed: then
    /// [`Logbook::progress`] has work to do. `None`: no write or sync is ever left
    /// under way. Constant during the life of the logbook.
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

    /// A ticket for everything that was given to the store so far.
    pub fn ticket(&self) -> Ticket {
        Ticket(self.appender.last_group())
    }

    /// Whether everything up to that ticket is written (and, with sync, durable).
    pub fn has_stored(&self, ticket: Ticket) -> bool {
        self.appender.stored() >= ticket.0
    }

    /// End of a rank's written determinants, and the clock there. With sync, a failed
    /// sync takes back determinants that are written and not durable: with sync, only
    /// durable ones may be acknowledged.
    pub fn written(&self, job: u64, rank: Rank) -> (EventIndex, Clock) {
        self.tracked(job, rank)
            .map(|it| it.written)
            .unwrap_or_default()
    }

    /// End of a rank's durable determinants, and the clock there. Without sync: those
    /// that [`Logbook::settle`] has made durable.
    pub fn durable(&self, job: u64, rank: Rank) -> (EventIndex, Clock) {
        self.tracked(job, rank)
            .map(|it| it.durable)
            .unwrap_or_default()
    }

    /// Writes and syncs everything, also without `sync`, and waits for it.
    ///
    /// # Errors
    /// When a write or sync fails.
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
    /// [written](Logbook::written). Gives all of them, or fails. EL-5
    ///
    /// Batches are given whole: the first may begin before `from`.
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
        self.read_on(&question, &mut GroupPosition::default(), each)
    }

    /// As [`Logbook::read`], in pieces: each begins where the previous one has ended.
    pub(crate) fn read_on(
        &self,
        question: &Question,
        position: &mut GroupPosition,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        self.reader().read(question, position, each)
    }

    /// The stored determinants, by job and rank.
    pub fn holdings(&self) -> Vec<Holding> {
        holdings(&self.contents)
    }

    fn reader(&self) -> Reader<'_> {
        Reader {
            files: &self.appender.disk().folder,
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

    /// Notes the new end of this log in the group that gathers.
    fn extend(&mut self, number: usize) {
        let tracked = &mut self.contents.rows[number];
        let end = tracked.end();
        self.appender.extend(number, &mut tracked.mark, end);
    }

    /// Appends the description of a log.
    fn append_rank_log(&mut self, number: usize) {
        self.make_room(log_entry_bytes(&self.contents.rows[number].row));
        let Tracked { job, rank, row, .. } = &self.contents.rows[number];
        self.appender
            .append(|group| append_rank_log(group, *job, *rank, row));
        self.extend(number);
    }
}

fn refused(error: StoreError) -> Refusal {
    let reason = error.to_string();
    Refusal::Store { reason }
}
