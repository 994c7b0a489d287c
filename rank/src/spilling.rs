//! `logging`'s spilling log behind the engine's interface [`Spill`].

use core::time::Duration;
use refrain_logging::spill::{Event, Refused, Report, SpillLog};
use refrain_logging::store::{ReadToken, Store};
use refrain_ring::{Frontier, LentChunk, Rank};
use refrain_transport::spill::{Spill, SpillEvent};

/// The environment of spilling: a clock and reports.
pub trait Environment {
    /// Time since a fixed instant. It never goes back.
    fn now(&self) -> Duration;

    /// Reports to the user; the job continues.
    fn report(&mut self, text: &str);
}

/// The spilling of one rank.
pub struct Spilling<S, P> {
    log: SpillLog<S>,
    directory: String,
    after_bytes: u64,
    environment: P,
    reads: usize,
    /// The reason why the last chunk was refused.
    refused: Option<Refused>,
    /// The last error of the disk, and whether it is permanent.
    trouble: Option<(String, bool)>,
    /// A file that cannot be removed has been reported.
    has_reported_undeleted: bool,
}

impl<S: Store, P: Environment> Spilling<S, P> {
    /// Spills to `log`, whose store reports call `directory`. Writing begins when complete chunks
    /// in memory exceed `after_bytes`.
    pub fn new(log: SpillLog<S>, directory: String, after_bytes: u64, environment: P) -> Self {
        Self {
            log,
            directory,
            after_bytes,
            environment,
            reads: 0,
            refused: None,
            trouble: None,
            has_reported_undeleted: false,
        }
    }

    /// The spilling log.
    pub fn log(&self) -> &SpillLog<S> {
        &self.log
    }

    /// The text of a report; `None` if it repeats an earlier one.
    fn text_of(&mut self, report: &Report) -> Option<String> {
        let directory = &self.directory;
        Some(match report {
            Report::Paused { error } => {
                self.trouble = Some((error.to_string(), false));
                format!(
                    "the payload log cannot be written to {directory} ({error}): it continues in memory, and the disk is tried again"
                )
            }
            Report::Resumed => {
                self.trouble = None;
                format!("the payload log is written to {directory} again")
            }
            Report::Stopped { error } => {
                self.trouble = Some((error.to_string(), true));
                format!(
                    "the payload log is not written to {directory} any more ({error}): it continues in memory until that is full"
                )
            }
            // Later removals fail for the same reason.
            Report::Undeleted { .. } if self.has_reported_undeleted => return None,
            Report::Undeleted { error } => {
                self.has_reported_undeleted = true;
                format!(
                    "an unused file of the payload log cannot be removed from {directory} ({error}): it still counts for --log-disk"
                )
            }
        })
    }
}

impl<S: Store, P: Environment> Spill for Spilling<S, P> {
    fn takes(&mut self, destination: Rank, sequence: u64) -> bool {
        let now = self.environment.now();
        self.refused = self.log.takes(destination, sequence, now).err();
        self.refused.is_none()
    }

    fn put(&mut self, chunk: LentChunk) {
        self.log.put(chunk);
    }

    fn poll(&mut self) -> Option<SpillEvent> {
        loop {
            let environment = &self.environment;
            match self.log.poll(|| environment.now())? {
                Event::Returned(chunk, end) => return Some(SpillEvent::Returned(chunk, end)),
                Event::Report(report) => {
                    if let Some(text) = self.text_of(&report) {
                        self.environment.report(&text);
                    }
                }
                Event::Read { token, result } => {
                    self.reads -= 1;
                    let ReadToken(token) = token;
                    let bytes = result.map_err(|error| error.to_string());
                    return Some(SpillEvent::Read { token, bytes });
                }
            }
        }
    }

    fn under_way(&self) -> usize {
        self.log.writes_under_way() + self.reads
    }

    fn trim(&mut self, destination: Rank, horizon: &Frontier) {
        self.log.trim(destination, horizon);
    }

    fn find(&self, destination: Rank, from: &Frontier) -> Option<u64> {
        self.log.find(destination, from)
    }

    fn read(&mut self, destination: Rank, sequence: u64) -> Option<u64> {
        let ReadToken(token) = self.log.read(destination, sequence)?;
        self.reads += 1;
        Some(token)
    }

    fn place(&self, destination: Rank, sequence: u64) -> Option<String> {
        let (first, slot) = self.log.place(destination, sequence)?;
        let directory = &self.directory;
        // The file name begins with the prefix of this rank and life.
        Some(format!(
            "chunk {slot} of the file {directory}/*-to-r{destination}-{first:012}.log"
        ))
    }

    fn after_bytes(&self) -> u64 {
        self.after_bytes
    }

    fn held_bytes(&self) -> u64 {
        self.log.statistics().disk_bytes
    }

    fn explain(&self) -> String {
        let directory = &self.directory;
        let statistics = self.log.statistics();
        let options = self.log.options();
        let in_use = format!(
            "{} of {} bytes of disk are in use in {directory}",
            statistics.disk_bytes, options.disk_bytes
        );
        match (&self.trouble, self.refused) {
            (Some((trouble, false)), _) => {
                format!("{in_use}, and it cannot be written now ({trouble}): make room there")
            }
            (Some((trouble, true)), _) => {
                format!("{in_use}, and writing has failed for good ({trouble})")
            }
            (None, Some(Refused::Full)) => {
                format!("{in_use}: raise --log-disk, or publish checkpoints more often")
            }
            (None, _) if self.log.writes_under_way() == 0 => in_use,
            (None, _) => format!(
                "{in_use}, and {} writes have not ended: the disk is too slow or does not respond",
                self.log.writes_under_way()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_logging::spill::SpillOptions;
    use refrain_logging::store::StoreError;
    use refrain_logging::store::faulty::{Delivery, MemoryOptions, MemoryStore};
    use refrain_ring::Incarnation;

    /// A clock that stands still. Reports are dropped.
    struct Silent;

    impl Environment for Silent {
        fn now(&self) -> Duration {
            Duration::ZERO
        }

        fn report(&mut self, _text: &str) {}
    }

    #[test]
    fn that_files_stay_is_told_once() {
        let store = MemoryStore::new(MemoryOptions {
            seed: 1,
            file_prefix: String::new(),
            job: 1,
            delivery: Delivery::InOrder,
            room_bytes: 0,
        });
        let options = SpillOptions {
            job: 1,
            rank: Rank(0),
            incarnation: Incarnation(0),
            size: 2,
            disk_bytes: SpillOptions::DISK_BYTES_MIN,
            writes_max: 1,
        };
        let mut spilling = Spilling::new(SpillLog::new(options, store), "/disk".into(), 0, Silent);
        let report = || Report::Undeleted {
            error: StoreError {
                attempted: "removing x".into(),
                error: std::io::ErrorKind::PermissionDenied.into(),
            },
        };
        let told = spilling.text_of(&report()).expect("news");
        assert!(told.contains("removing x"), "{told}");
        assert_eq!(spilling.text_of(&report()), None);
        assert!(!spilling.explain().contains("removing x"), "no hindrance");
    }
}
