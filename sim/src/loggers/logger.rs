//! One logger: a process that dies and restarts, over a disk and rings that remain.

use super::JOB;
use super::host::{FetchState, LoggerChannel, LoggerHost, Rings};
use super::ledger::{Ledger, batches_in};
use super::network::{Network, SessionId};
use crate::crash_point::CrashPoint;
use crate::planted::Planted;
use core::ops::ControlFlow;
use refrain_eventlog::acceptor::Beginning;
use refrain_eventlog::logbook::{Archive, Logbook, LogbookOptions};
use refrain_eventlog::server::Limits;
use refrain_eventlog::server::host::Wanted;
use refrain_eventlog::server::service::{Service, ServiceOptions};
use refrain_eventlog::{Level, LoggerId};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Incarnation, Rank};
use refrain_storage::Directory;
use refrain_storage::simulated::SimulatedDisk;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Size of a file in bytes: small, so that a short run has many files.
const SEGMENT_BYTES: u64 = 64 << 10;
/// Time before a full or slow disk is tried again, in ticks.
const DISK_PAUSE: u64 = 50;
/// Probability that a completion of the disk is late, in percent.
const DISK_LATE_PERCENT: u32 = 40;

/// State that all loggers of a shard share.
#[derive(Clone, Debug)]
pub(super) struct Shard {
    pub(super) network: Rc<RefCell<Network>>,
    pub(super) ledger: Ledger,
    pub(super) level: Level,
    pub(super) replicas: usize,
    pub(super) reports: Rc<RefCell<Vec<String>>>,
}

/// An event logger: its process and its disk.
#[derive(Debug)]
pub struct Logger {
    number: usize,
    shard: Shard,
    pub(super) process: CrashPoint,
    service: Option<Service<LoggerHost>>,
    disk: SimulatedDisk,
    seed: u64,
    is_slow: bool,
    is_full: bool,
    lost_power: bool,
    rings: Rings,
    /// Whether the process is paused.
    pub is_paused: bool,
    /// Whether the process has more work at once.
    has_more: bool,
    disk_try_at: u64,
}

/// A fetch that a logger begins.
pub(super) type FetchStart = (Wanted, Rc<RefCell<FetchState>>);

impl Logger {
    pub(super) fn new(number: usize, shard: Shard, crash_point: CrashPoint, seed: u64) -> Self {
        let disk = new_disk(seed);
        let mut logger = Self {
            number,
            shard,
            process: crash_point,
            service: None,
            disk,
            seed,
            is_slow: false,
            is_full: false,
            lost_power: false,
            rings: Rings::default(),
            is_paused: false,
            has_more: false,
            disk_try_at: 0,
        };
        logger.begin();
        logger
    }

    /// Whether its process is alive.
    pub fn lives(&mut self) -> bool {
        self.bury();
        self.service.is_some()
    }

    fn begin(&mut self) {
        let began = self.open();
        match began {
            Ok(service) => {
                self.service = Some(service);
                self.has_more = true;
                self.shard.network.borrow_mut().lives[self.number] = true;
            }
            Err(error) => self.ends_with(&error),
        }
    }

    fn logbook_options(&self) -> LogbookOptions {
        let logger = LoggerId(self.number as u32);
        LogbookOptions {
            continues: false,
            segment_bytes: SEGMENT_BYTES,
            ..LogbookOptions::new(logger, self.shard.level == Level::Durable)
        }
    }

    fn open(&mut self) -> Result<Service<LoggerHost>, String> {
        let options = self.logbook_options();
        let logger = options.logger;
        let process = self.process.clone();
        self.disk.gate(move || process.act(|| ()).is_some());
        let (number, ledger) = (self.number, self.shard.ledger.clone());
        let held = move |bytes: &[u8]| ledger.holds(number, &batches_in(bytes));
        self.disk.show(held);
        self.disk.stall(self.is_slow);
        // Existing files open on a full disk, too.
        self.disk.set_room(u64::MAX);
        let logbook = Logbook::open_on(self.disk.clone().into(), &options);
        self.set_full(self.is_full);
        let logbook = logbook.map_err(|error| error.to_string())?;
        let host = LoggerHost {
            logger: self.number,
            network: self.shard.network.clone(),
            process: self.process.clone(),
            rings: self.rings.clone(),
            ledger: self.shard.ledger.clone(),
            keys: Default::default(),
            wanted: Vec::new(),
            reports: self.shard.reports.clone(),
        };
        let options = ServiceOptions {
            logger,
            level: self.shard.level,
            peers: self.shard.replicas - 1,
            limits: Limits::default(),
        };
        Service::open(options, logbook, host, 0).map_err(|error| error.to_string())
    }

    /// The process ends with an error, or has died.
    fn ends_with(&mut self, error: &str) {
        if !self.process.is_dead() {
            let told = format!("logger {} ends: {error}", self.number);
            self.shard.reports.borrow_mut().push(told);
        }
        self.kill();
    }

    /// Kills the process and drops its memory.
    pub fn kill(&mut self) {
        self.process.kill();
        // Dropping the service ends its sessions.
        self.service = None;
        self.shard.network.borrow_mut().logger_died(self.number);
    }

    /// Completes a death at an effect.
    pub(super) fn bury(&mut self) {
        if self.service.is_some() && self.process.is_dead() {
            self.kill();
        }
    }

    /// Its host loses power.
    pub fn lose_power(&mut self) {
        self.kill();
        self.lost_power = true;
    }

    /// The host is lost, with disk and rings.
    pub(super) fn forget(&mut self) {
        self.kill();
        self.seed = self.seed.wrapping_add(1);
        self.disk = new_disk(self.seed);
        self.rings.borrow_mut().clear();
        self.shard.ledger.holds_only(self.number, &[]);
    }

    /// Restarts the process over its disk and rings.
    pub fn restart(&mut self) {
        if self.service.is_some() {
            return;
        }
        self.process = self.process.restarted();
        self.seed = self
            .seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(1);
        self.is_paused = false;
        let lost_power = core::mem::take(&mut self.lost_power);
        self.disk = match lost_power {
            true => self.disk.after_power_loss(self.seed),
            false => self.disk.after_death(self.seed),
        };
        if lost_power {
            self.rings.borrow_mut().clear();
            // The watermark is never synced, and may be lost.
            let _ = Directory::from(self.disk.clone()).remove("watermark");
        }
        self.begin();
        // Data that was not synced before the power loss does not count.
        if lost_power || self.service.is_some() {
            self.count_again(lost_power);
        }
    }

    /// A dead logger loses the events of a rank from about index `kept` on: the rings, and the end
    /// of the rank's log in the files.
    pub(super) fn lose_events(&mut self, rank: Rank, kept: EventIndex) {
        self.rings.borrow_mut().retain(|name, _| name.rank != rank);
        self.disk = self.disk.after_death(self.seed);
        let cut = self.cut_files(rank, kept);
        let end = cut.unwrap_or_else(|error| panic!("logger {}: {error}", self.number));
        self.shard.ledger.loses(self.number, rank, end);
    }

    /// Cuts a rank's log at the first end of a batch, from `kept` on, at which a logbook can cut:
    /// trimmed determinants stay trimmed. Returns the new end.
    fn cut_files(&self, rank: Rank, kept: EventIndex) -> Result<EventIndex, String> {
        let options = self.logbook_options();
        let disk = self.disk.clone().into();
        let mut logbook = Logbook::open_on(disk, &options).map_err(|error| error.to_string())?;
        let Some(row) = logbook.row(JOB, rank).cloned() else {
            return Ok(EventIndex(0));
        };
        let mut ends = vec![row.first];
        let read = logbook.read(JOB, rank, row.first, None, &mut |batch| {
            ends.extend(batches_in(batch).iter().map(BatchHeader::end));
            ControlFlow::Continue(())
        });
        read.map_err(|error| error.to_string())?;
        let is_cut = |end: &EventIndex| {
            let mut left = row.clone();
            left.end = *end;
            left.lives.retain(|life| life.start < *end);
            // For another life: what a log has of the life itself is not cut.
            let other = Beginning {
                incarnation: Incarnation(u32::MAX),
                ..Beginning::default()
            };
            logbook.follow(JOB, rank, &left, &other).is_ok()
        };
        let end = ends.into_iter().filter(|end| *end >= kept).find(is_cut);
        logbook.settle().map_err(|error| error.to_string())?;
        Ok(end.unwrap_or(row.end))
    }

    /// Reports the contents of the disk to the ledger: less than before, or more, since a write
    /// under way may complete after its process has died.
    fn count_again(&self, lost_power: bool) {
        let mut headers = Vec::new();
        if let Ok(archive) = Archive::open_on(self.disk.clone().into()) {
            for holding in archive.holdings() {
                let rank = Rank(holding.rank);
                let from = EventIndex(holding.first);
                let _ = archive.read(holding.job, rank, from, None, &mut |batch| {
                    headers.extend(batches_in(batch));
                    ControlFlow::Continue(())
                });
            }
        }
        match lost_power {
            true => self.shard.ledger.holds_only(self.number, &headers),
            false => self.shard.ledger.holds(self.number, &headers),
        }
    }

    /// Sets whether the disk takes new files.
    pub fn set_full(&mut self, is_full: bool) {
        self.is_full = is_full;
        self.disk.set_room(if is_full { 0 } else { u64::MAX });
    }

    /// Sets whether the disk does not answer.
    pub fn set_slow(&mut self, is_slow: bool) {
        self.is_slow = is_slow;
        self.disk.stall(is_slow);
    }

    /// Whether the process has something to do now.
    pub(super) fn is_ready(&self, is_called: bool, now: u64) -> bool {
        let Some(service) = self.service.as_ref().filter(|_| !self.is_paused) else {
            return false;
        };
        is_called || self.has_more || !service.logbook().is_settled() && now >= self.disk_try_at
    }

    /// A turn of the process; fetches that it begins are added to `starts`.
    pub(super) fn turn(&mut self, now: u64, starts: &mut Vec<FetchStart>) {
        let Some(service) = &mut self.service else {
            return;
        };
        self.shard.network.borrow_mut().calls[self.number] = false;
        take_in(self.number, &self.shard.network, &self.process, service);
        let moved = service.turn().map(|moved| {
            let rest = service.before_sleep(moved);
            let bug = self.shard.network.borrow().bug;
            if bug == Some(Planted::LoggerSleepsOnWrites) {
                service.host().take_in_unseen();
            }
            service.after_sleep(&rest);
            rest.moved
        });
        starts.append(&mut service.host().wanted);
        match moved {
            Ok(moved) => {
                self.has_more = moved;
                let is_stuck = self.is_full || self.is_slow;
                if is_stuck && !moved {
                    self.disk_try_at = now + DISK_PAUSE;
                }
            }
            Err(error) => self.ends_with(&error.to_string()),
        }
        self.bury();
    }
}

fn new_disk(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(seed);
    disk.set_late(DISK_LATE_PERCENT);
    disk
}

/// Passes arrived messages to the service before a turn, as sockets do in the real server.
fn take_in(
    logger: usize,
    network: &Rc<RefCell<Network>>,
    process: &CrashPoint,
    service: &mut Service<LoggerHost>,
) {
    let sessions: Vec<(SessionId, Option<u64>, bool)> = {
        let network = network.borrow();
        let sessions = network
            .sessions
            .iter()
            .filter(|(_, session)| session.logger == logger);
        let with_news = |(id, session): (&SessionId, &super::network::Session)| {
            (*id, session.connection, !session.at_logger.is_empty())
        };
        sessions.map(with_news).collect()
    };
    for (id, connection, has_news) in sessions {
        let connection = connection.or_else(|| {
            let connection = service.connect(LoggerChannel {
                session: id,
                network: network.clone(),
                process: process.clone(),
                out: VecDeque::new(),
            });
            if let Some(session) = network.borrow_mut().sessions.get_mut(&id) {
                session.connection = connection;
            }
            connection
        });
        let Some(connection) = connection else {
            continue;
        };
        if has_news && service.listen(connection).is_some() {
            service.take_messages(connection);
        }
        let is_ended = network.borrow().is_ended(id);
        if is_ended || !service.has_connection(connection) {
            service.drop_connection(connection, true);
            network.borrow_mut().close(id);
        }
    }
}
