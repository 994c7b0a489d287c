//! The time, and other values from outside that differ in each life. Each value is an event, so
//! that a later life gets the same value in its replay. REC-4

use super::World;
use crate::Error;
use core::time::Duration;
use refrain_job::config::JobConfig;
use refrain_job::machine::unix_ns;
use refrain_logging::determinant::Determinant;
use refrain_rank::calls;
use std::time::Instant;

/// The series of [`World::time`].
const TIME_SERIES: u8 = 0;

/// The time since the job began, by the clock of this process.
#[derive(Debug)]
pub(super) struct JobTime {
    /// The instant of `began_ns`.
    began: Instant,
    began_ns: i64,
    /// The last time that was returned to the program.
    last_ns: i64,
    is_recorded: bool,
}

impl JobTime {
    /// The time of a life that continues from `last_ns`.
    pub(super) fn new(config: &JobConfig, last_ns: i64) -> Self {
        let began_ns = match config.began_unix_ns {
            0 => 0,
            began => unix_ns().saturating_sub(began),
        };
        Self {
            began: Instant::now(),
            began_ns: i64::try_from(began_ns).unwrap_or(i64::MAX),
            last_ns,
            is_recorded: config.recovery.record_clocks,
        }
    }

    pub(super) fn last_ns(&self) -> i64 {
        self.last_ns
    }

    /// Never less than the last time that was returned to the program. That time may be from an
    /// earlier life on a host whose clock was ahead; this life then continues from it.
    fn now_ns(&mut self) -> i64 {
        let elapsed = i64::try_from(self.began.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let now_ns = self.began_ns.saturating_add(elapsed);
        let behind_ns = self.last_ns.saturating_sub(now_ns).max(0);
        self.began_ns = self.began_ns.saturating_add(behind_ns);
        now_ns.saturating_add(behind_ns)
    }
}

impl World {
    /// The time since the job began. It never goes back, also not from one life of the rank to the
    /// next. Times of ranks on different hosts differ by as much as the clocks of their hosts.
    ///
    /// One operation of the clock, and an event: in its replay, a later life gets the recorded
    /// times; afterwards it continues from the last of them. With `--record-clocks off` it gets the
    /// current time. In a life that continues from a checkpoint, it is no operation before
    /// [`World::restored`], and the time is not recorded.
    ///
    /// # Errors
    /// When the event loggers are far behind, as [`World::send`].
    #[inline]
    pub fn time(&mut self) -> Result<Duration, Error> {
        let fresh_ns = self.job_time.now_ns();
        let time_ns = self.answer_number(TIME_SERIES, fresh_ns)?;
        self.job_time.last_ns = time_ns.max(self.job_time.last_ns);
        Ok(Duration::from_nanos(u64::try_from(time_ns).unwrap_or(0)))
    }

    /// As [`World::time`], not recorded and no operation: for a program that has taken its
    /// checkpoint ([`World::restored`]) and does not continue from it yet.
    #[doc(hidden)]
    pub fn unrecorded_time(&mut self) -> Duration {
        Duration::from_nanos(u64::try_from(self.job_time.now_ns()).unwrap_or(0))
    }

    /// Records a number from outside the program and returns it; in a replay, returns the
    /// number that was recorded for the same operation. One operation of the clock.
    ///
    /// `series`: the kind of number, 1 to 15; series 0 is [`World::time`]'s. Numbers of one series
    /// need least room in the event log when they are close to each other. In a life that continues
    /// from a checkpoint, the call is no operation before [`World::restored`]: it returns `fresh`
    /// and does not record it.
    ///
    /// # Errors
    /// [`Error::Argument`] for another series; when the first life made another operation here; as
    /// [`World::time`].
    #[doc(hidden)]
    #[inline]
    pub fn answer_number(&mut self, series: u8, fresh: i64) -> Result<i64, Error> {
        if series >= Determinant::SERIES {
            return Err(no_such_series(series));
        }
        if self.checkpoints.restored.is_some() {
            return Ok(fresh);
        }
        self.wait_for_room_for_events()?;
        let clock = self.engine.tick();
        if !self.job_time.is_recorded {
            return Ok(fresh);
        }
        match calls::number(&mut self.engine, clock, series, fresh) {
            Some(number) => Ok(number),
            None => self.asked_for_something_else(),
        }
    }

    /// As [`World::answer_number`], for bytes: in a replay, the recorded bytes replace `fresh`. One
    /// operation of the clock for each 256 bytes.
    ///
    /// # Errors
    /// As [`World::answer_number`].
    #[doc(hidden)]
    pub fn answer_bytes(&mut self, fresh: &mut [u8]) -> Result<(), Error> {
        if self.checkpoints.restored.is_some() {
            return Ok(());
        }
        for part in fresh.chunks_mut(Determinant::BYTES_MAX) {
            self.wait_for_room_for_events()?;
            let clock = self.engine.tick();
            if self.job_time.is_recorded && !calls::bytes(&mut self.engine, clock, part) {
                return self.asked_for_something_else();
            }
        }
        Ok(())
    }

    /// Waits for the event loggers if too many events are not stable yet.
    #[inline]
    fn wait_for_room_for_events(&mut self) -> Result<(), Error> {
        match self.engine.has_room_for_events() {
            true => Ok(()),
            false => self.block_until(|world| world.engine.has_room_for_events().then_some(())),
        }
    }

    /// The next progress returns the error of the divergence. REC-8
    #[cold]
    fn asked_for_something_else<T>(&mut self) -> Result<T, Error> {
        self.block_until(|_| None)
    }
}

#[cold]
fn no_such_series(series: u8) -> Error {
    Error::Argument(format!(
        "answer_number: series {series} does not exist: use 1 to {}",
        Determinant::SERIES - 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A life on a host whose clock is behind continues from the last time.
    #[test]
    fn the_time_continues_from_the_last() {
        let config = JobConfig {
            began_unix_ns: unix_ns(),
            ..JobConfig::default()
        };
        let hour_ns = 3_600_000_000_000;
        let mut time = JobTime::new(&config, hour_ns);
        let first = time.now_ns();
        assert!((hour_ns..2 * hour_ns).contains(&first), "{first}");
        while time.now_ns() == first {}
        // As after a record in a replay.
        time.last_ns = 2 * hour_ns;
        assert!((2 * hour_ns..3 * hour_ns).contains(&time.now_ns()));
    }

    /// The time of a host whose clock is ahead of the last time is used unchanged.
    #[test]
    fn the_time_of_a_later_life_counts_from_the_beginning_of_the_job() {
        let config = JobConfig {
            began_unix_ns: unix_ns() - 5_000_000_000,
            ..JobConfig::default()
        };
        let mut time = JobTime::new(&config, 7);
        assert!(time.now_ns() >= 5_000_000_000);
        assert_eq!(JobTime::new(&JobConfig::default(), 0).began_ns, 0);
    }
}
