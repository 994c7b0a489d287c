//! How far the soak is.

use super::launched::Ended;
use std::time::{Duration, Instant};

/// Between two lines.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// What was seen so far.
#[derive(Debug)]
pub struct Tally {
    begin: Instant,
    told: Instant,
    jobs: u64,
    with_deaths: u64,
    deaths: u64,
    failures: u64,
    launcher_bytes: u64,
}

impl Tally {
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            told: now,
            jobs: 0,
            with_deaths: 0,
            deaths: 0,
            failures: 0,
            launcher_bytes: 0,
        }
    }

    /// A job has ended.
    pub fn add(&mut self, ended: &Ended, has_failed: bool) {
        let deaths = ended.deaths() as u64;
        self.jobs += 1;
        self.with_deaths += u64::from(deaths > 0);
        self.deaths += deaths;
        self.failures += u64::from(has_failed);
        self.launcher_bytes = self.launcher_bytes.max(ended.launcher_bytes);
    }

    pub fn failures(&self) -> u64 {
        self.failures
    }

    /// One line every some seconds.
    pub fn tell_sometimes(&mut self) {
        if self.told.elapsed() >= LINE_EVERY {
            self.told = Instant::now();
            println!("{}", self.summary());
        }
    }

    /// All in one line.
    pub fn summary(&self) -> String {
        format!(
            "soak: {:.0} s: {} jobs, {} of them with {} deaths of ranks, {} failures; launchers had \
             at most {:.1} MiB",
            self.begin.elapsed().as_secs_f64(),
            self.jobs,
            self.with_deaths,
            self.deaths,
            self.failures,
            self.launcher_bytes as f64 / f64::from(1 << 20),
        )
    }
}
