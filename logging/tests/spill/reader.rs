//! Reading back while all other work continues: each record from a message on
//! comes once, in order, as it was sent. LOG-2

use crate::channel::Channel;
use crate::disk::Disk;
use refrain_logging::spill::SpillLog;
use refrain_logging::store::{ReadToken, StoreError};
use refrain_ring::read_back::{ChunkBytes, DiskChunks, Progress, ReadBack, ReadBackError, Writer};
use refrain_ring::{Arena, Frontier, Rank, Ssn};

pub struct Reader {
    pub channel: usize,
    reader: ReadBack,
    from: Ssn,
    /// Index in the channel's records of the next record to be given, or of an earlier one.
    next: usize,
    /// Failed reads that were not reported yet.
    failures: usize,
}

/// The disk as a reader sees it.
pub struct OneChannel<'a> {
    pub spill: &'a mut SpillLog<Disk>,
    pub destination: Rank,
}

impl DiskChunks for OneChannel<'_> {
    fn find(&self, from: &Frontier) -> Option<u64> {
        self.spill.find(self.destination, from)
    }

    fn begin_read(&mut self, sequence: u64) -> Option<u64> {
        let token = self.spill.read(self.destination, sequence)?;
        Some(token.0)
    }

    fn place(&self, sequence: u64) -> Option<String> {
        let (first, slot) = self.spill.place(self.destination, sequence)?;
        Some(format!("slot {slot} of file {first}"))
    }
}

/// A chunk is read ahead, however far the log goes.
const AHEAD_MAX: usize = 8;

impl Reader {
    pub fn new(channel: usize, of: &Channel, from: Ssn) -> Self {
        Self {
            channel,
            reader: ReadBack::new(&of.log, from),
            from,
            next: 0,
            failures: 0,
        }
    }

    pub fn waits_for(&self, token: ReadToken) -> bool {
        self.reader.waits_for(token.0)
    }

    pub fn arrived(&mut self, token: ReadToken, result: Result<ChunkBytes, StoreError>) {
        self.failures += usize::from(result.is_err());
        let bytes = result.map_err(|error| error.to_string());
        assert!(self.reader.arrived(token.0, bytes));
    }

    /// One step; returns whether more records follow.
    pub fn step(
        &mut self,
        of: &Channel,
        arena: &Arena,
        horizon: Ssn,
        spill: &mut SpillLog<Disk>,
    ) -> Option<Progress> {
        let writer = Writer {
            log: &of.log,
            arena,
            posted: of.posted(),
            horizon: &horizon.into(),
        };
        let mut disk = OneChannel {
            spill,
            destination: of.destination,
        };
        let (from, next) = (self.from, &mut self.next);
        let mut given = 0;
        let progress = self.reader.step(writer, &mut disk, &mut |header, payload| {
            let index = of.next_record(*next, from).expect("no more was sent");
            of.check_record(index, header, payload);
            *next = index + 1;
            given += 1;
        });
        assert!(self.reader.chunks_ahead() <= AHEAD_MAX);
        match progress {
            Ok(progress) => {
                self.check_progress(progress, given, of, horizon);
                Some(progress)
            }
            Err(ReadBackError::Disk { .. }) if self.failures > 0 => {
                assert_eq!(given, 0);
                self.failures -= 1;
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn check_progress(&mut self, progress: Progress, given: usize, of: &Channel, horizon: Ssn) {
        match progress {
            Progress::Records(records) => assert_eq!(records, given),
            Progress::Waiting => assert_eq!(given, 0),
            Progress::End => {
                assert_eq!(given, 0);
                assert_eq!(
                    of.next_record(self.next, self.from),
                    None,
                    "LOG-2: more was sent"
                );
            }
            Progress::Passed(ssn) => {
                assert_eq!(ssn, horizon);
                assert!(given == 0 && ssn > self.from);
                self.from = ssn;
            }
        }
    }
}
