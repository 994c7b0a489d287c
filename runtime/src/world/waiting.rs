//! How a rank waits: it polls for a while, then sleeps.
//!
//! If every rank has a core, an answer arrives within the polling time and costs no system call. If
//! ranks share cores, polling keeps the peer from answering, so the rank yields its core after each
//! poll. A rank that waits for a long time sleeps and uses no processor.

use super::World;
use crate::Error;
use crate::error::LogFull;
use core::time::Duration;
use refrain_job::config::LogFullPolicy;
use refrain_job::control::message::ToLauncher;
use refrain_logging::{EventStore, Member};
use refrain_rank::calls::{self, Answer, NoAnswer};
use refrain_ring::Clock;
use refrain_transport::engine::EngineError;
use std::time::Instant;

/// Polling time before sleep when every rank has its own core. It is longer than a peer takes for
/// some MiB, since a sleep and the wake-up cost both sides 10 µs and more (measured: 96 against 79
/// µs for 1 MiB with 100 µs).
const SPIN_OWN_CORE: Duration = Duration::from_millis(2);
/// Polling time before sleep when ranks share cores. Each poll then yields the core, and the clock is
/// read after 64 polls. A sleep and the wake-up cost more than the turns of some other ranks.
const SPIN_SHARED_CORE: Duration = Duration::from_micros(100);
/// Tests without a result between two checks of waiting sends.
pub(super) const TESTS_PER_LOOK: u32 = 1024;
/// Tests without a result between two looks at the clock, for news of the launcher.
const TESTS_PER_CLOCK: u32 = 4;
/// Tests without a result between two pauses.
const TESTS_PER_PAUSE: u32 = 16;
/// Polls between two reads of the clock.
const POLLS_PER_LOOK: u32 = 64;
/// Longest sleep of one of few ranks: a sleeping rank then checks its launcher. A message of the
/// launcher wakes it earlier.
const SLEEP_MAX: Duration = Duration::from_millis(100);
/// Ranks on a host that sleep no longer than [`SLEEP_MAX`]. More ranks sleep longer, so that all of
/// them together do not wake more often.
const SHORT_SLEEPERS: u32 = 64;

/// Most time between two checks of stalled sends that counts as stalled: in a longer gap the rank
/// computed and could not get room.
const UNSEEN_MAX: Duration = Duration::from_secs(1);

/// Longest wait for log memory in a job that has no checkpoints, as it seems.
const NO_CHECKPOINT_WAIT: Duration = Duration::from_millis(200);

/// Limits of a rank's waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    spin: Duration,
    pub(super) sleep_max: Duration,
    /// Whether ranks share cores.
    shares_core: bool,
    /// Whether events go to event loggers, which may need a core.
    has_loggers: bool,
    /// Limit of a wait for log memory; then the log counts as full.
    log_full_wait: Duration,
    /// As `log_full_wait`, until a checkpoint of a receiver has freed a part of the log.
    log_full_wait_at_first: Duration,
    pub(super) log_full: LogFullPolicy,
    /// Limit of a send's wait for its events; then an error.
    pub(super) events_wait: Duration,
}

impl Patience {
    pub(super) fn new(config: &refrain_job::config::JobConfig) -> Self {
        let shares_core = config.ranks_on_host > config.cores_on_host;
        let default = match shares_core {
            true => SPIN_SHARED_CORE,
            false => SPIN_OWN_CORE,
        };
        let events = config.protocol.parse().map(Member::events);
        let log_full_wait = Duration::from_millis(config.log_full_wait_ms);
        let expects_checkpoints =
            config.log_full == LogFullPolicy::Stop || config.recovery.checkpoint_policy != "none";
        Self {
            spin: config.spin_us.map_or(default, Duration::from_micros),
            sleep_max: SLEEP_MAX * config.ranks_on_host.div_ceil(SHORT_SLEEPERS).max(1),
            shares_core,
            has_loggers: !config.events.shards.is_empty(),
            events_wait: match events {
                // Another rank may compute for any time.
                Ok(EventStore::Ranks(_)) => Duration::MAX,
                _ => Duration::from_millis(config.events.wait_ms),
            },
            log_full_wait,
            log_full_wait_at_first: match expects_checkpoints {
                true => log_full_wait,
                false => log_full_wait.min(NO_CHECKPOINT_WAIT),
            },
            log_full: config.log_full,
        }
    }
}

impl World {
    /// Makes progress until `ready` returns a value.
    #[inline]
    pub(super) fn block_until<T>(
        &mut self,
        mut ready: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, Error> {
        for _ in 0..POLLS_PER_LOOK {
            if let Some(answer) = ready(self) {
                return Ok(answer);
            }
            if !self.make_progress()? {
                self.pause();
            }
        }
        self.block_long_until(ready)
    }

    /// A test or probe: makes progress and calls `ask` once. In a replay it waits for the recorded
    /// result. `None`: nothing was found. REC-4
    #[inline]
    pub(super) fn test_now<T>(
        &mut self,
        clock: Clock,
        mut ask: impl FnMut(&mut Self) -> Answer<T>,
    ) -> Result<Option<T>, Error> {
        self.make_progress()?;
        let found = self.block_until(|world| match ask(world) {
            Ok(found) => Some(Some(found)),
            Err(NoAnswer::Nothing) => Some(None),
            Err(NoAnswer::NotYet) => None,
        })?;
        if found.is_none() {
            self.found_nothing(clock)?;
        }
        Ok(found)
    }

    /// Records that a test found nothing. A program that only tests never blocks, so this also
    /// detects a send or an event that waits too long.
    fn found_nothing(&mut self, clock: Clock) -> Result<(), Error> {
        calls::found_nothing(&mut self.engine, clock);
        self.tests_until_look -= 1;
        if self.tests_until_look.is_multiple_of(TESTS_PER_CLOCK) {
            // A program may compute for long between two tests: a new peer waits for this rank.
            self.look_for_news_at_times()?;
        }
        if self.tests_until_look.is_multiple_of(TESTS_PER_PAUSE) {
            // The program may wait by testing.
            self.pause();
        }
        if self.tests_until_look == 0 {
            self.tests_until_look = TESTS_PER_LOOK;
            self.check_waits()?;
        }
        Ok(())
    }

    #[cold]
    fn block_long_until<T>(
        &mut self,
        mut ready: impl FnMut(&mut Self) -> Option<T>,
    ) -> Result<T, Error> {
        let mut idle_since = Instant::now();
        let mut polls: u32 = 0;
        loop {
            if let Some(answer) = ready(self) {
                return Ok(answer);
            }
            polls = polls.wrapping_add(1);
            if self.make_progress()? {
                idle_since = Instant::now();
                continue;
            }
            self.pause();
            if !polls.is_multiple_of(POLLS_PER_LOOK) {
                continue;
            }
            self.check_waits()?;
            if self.engine.is_spilling() {
                // The writing thread may need this core.
                std::thread::yield_now();
            }
            if idle_since.elapsed() < self.patience.spin {
                continue;
            }
            self.engine.wait(self.patience.sleep_max);
            self.look_for_news()?;
        }
    }

    /// Pauses between two polls that found nothing.
    #[inline]
    fn pause(&self) {
        if self.patience.shares_core || self.patience.has_loggers && self.engine.awaits_commit() {
            // Another rank, or the event logger, may need this core.
            std::thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }

    /// Fails when a send has waited too long, for memory or for its events.
    #[cold]
    pub(super) fn check_waits(&mut self) -> Result<(), Error> {
        let mut log_watch = self.log_watch;
        let checked = log_watch.check(self);
        self.log_watch = log_watch;
        checked?;
        self.check_gate()
    }

    /// Fails when a send has waited too long for its events.
    fn check_gate(&self) -> Result<(), Error> {
        if !self.engine.awaits_commit() {
            return Ok(());
        }
        let waited = self.engine.protocol().watch().so_far();
        match waited.filter(|waited| *waited >= self.patience.events_wait) {
            None => Ok(()),
            Some(waited) => Err(Error::EventsNotStable {
                waited,
                why: self.engine.explain_gate().unwrap_or_default(),
            }),
        }
    }
}

/// Watches for stalled sends that only a checkpoint can free. All calls check it, since a program
/// may only test.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LogWatch {
    /// The time of the last check, if sends were stalled then.
    looked: Option<Instant>,
    /// How long sends have been stalled.
    stalled: Duration,
    /// Bytes appended to the logs, and chunks written to disk, at the last check.
    progress: (u64, u64),
}

impl LogWatch {
    fn check(&mut self, world: &mut World) -> Result<(), Error> {
        let engine = &world.engine;
        let progress = (engine.log_bytes_appended(), engine.disk_progress());
        let stall = engine.stall().filter(|stall| stall.is_of_memory());
        let stall = stall.filter(|_| progress == self.progress);
        // A peer that is dead or just restarted consumes nothing, and may free much when it is
        // back.
        let stall = stall.filter(|_| !world.any_is_away());
        let Some(stall) = stall else {
            *self = Self {
                progress,
                ..Self::default()
            };
            return Ok(());
        };
        let now = Instant::now();
        let looked = self.looked.replace(now).unwrap_or(now);
        // A rank that sleeps looks at each end of its sleep.
        let unseen_max = UNSEEN_MAX.max(world.patience.sleep_max);
        self.stalled += (now - looked).min(unseen_max);
        let patience = &world.patience;
        let wait = match world.engine.was_freed_by_checkpoints() {
            true => patience.log_full_wait,
            false => patience.log_full_wait_at_first,
        };
        if self.stalled < wait {
            return Ok(());
        }
        let (used_bytes, budget_bytes) = world.engine.log_bytes();
        let full = LogFull {
            stall,
            used_bytes,
            budget_bytes,
            disk: world.engine.explain_disk(),
        };
        let log_full = patience.log_full;
        if world.give_up_round()? {
            return Ok(());
        }
        if log_full == LogFullPolicy::Stop || world.engine.has_stopped_keeping() {
            return Err(Error::LogFull(full));
        }
        // LOG-7: while a peer catches up it waits for that.
        if world.engine.stop_keeping() {
            let report = format!("the log of rank {} is full: {full}", world.rank);
            let report = ToLauncher::Unprotected(report);
            world.tell(|control| control.report(&report))?;
            // What it keeps no more becomes free when receivers have it.
            *self = Self::default();
        }
        Ok(())
    }
}

impl From<EngineError> for Error {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Fabric(error) => Error::Fabric(error),
            other => Error::Engine(other),
        }
    }
}
