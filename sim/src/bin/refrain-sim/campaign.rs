//! Many seeds on several threads: progress and results.

use crate::arguments::Arguments;
use indicatif::{ProgressBar, ProgressStyle};
use refrain_sim::planted::Planted;
use refrain_sim::world::{Counts, Failure};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The seeds of a campaign.
#[derive(Clone, Copy, Debug)]
pub enum Seeds {
    /// First seed, and number of seeds.
    Count(u64, u64),
    /// First seed, and duration.
    Time(u64, Duration),
}

/// A run of many seeds, up to the first failure.
pub struct Campaign<'a> {
    /// The options of the plans.
    pub arguments: &'a Arguments,
    /// The seeds.
    pub seeds: Seeds,
    /// The bug that is planted in all of them.
    pub planted: Option<Planted>,
}

/// A seed that failed.
type Failed = (u64, Box<Failure>);

/// The result of a campaign.
pub struct Report {
    /// Number of runs without a failure.
    pub seeds: u64,
    /// Counts of these runs.
    pub counts: Counts,
    /// The lowest seed that failed, with its failure.
    pub failed: Option<Failed>,
    /// Duration of the campaign.
    pub elapsed: Duration,
}

/// State shared by the threads.
struct Shared {
    /// The next seed.
    next: AtomicU64,
    /// No seed from here on is started.
    end: AtomicU64,
    until: Option<Instant>,
    progress: ProgressBar,
}

impl Campaign<'_> {
    /// Runs the campaign.
    pub fn run(&self) -> Report {
        let began = Instant::now();
        let (first, end, until) = match self.seeds {
            Seeds::Count(first, count) => (first, first.saturating_add(count), None),
            Seeds::Time(first, time) => (first, u64::MAX, Some(began + time)),
        };
        let shared = Shared {
            next: AtomicU64::new(first),
            end: AtomicU64::new(end),
            until,
            progress: progress(self.seeds),
        };
        let mut report = Report {
            seeds: 0,
            counts: Counts::default(),
            failed: None,
            elapsed: Duration::ZERO,
        };
        std::thread::scope(|scope| {
            let threads = self.arguments.threads();
            let work = || scope.spawn(|| self.work(&shared));
            let threads: Vec<_> = (0..threads).map(|_| work()).collect();
            for thread in threads {
                // The thread does not panic: panics of runs are failures.
                let (seeds, counts, failed) = thread.join().expect("a thread of the campaign");
                report.seeds += seeds;
                report.counts.merge(&counts);
                let both = report.failed.take().into_iter().chain(failed);
                report.failed = both.min_by_key(|(seed, _)| *seed);
            }
        });
        shared.progress.finish_and_clear();
        report.elapsed = began.elapsed();
        report
    }

    fn work(&self, shared: &Shared) -> (u64, Counts, Option<Failed>) {
        let (mut seeds, mut counts) = (0, Counts::default());
        loop {
            // Seeds start in order, so that all seeds before a failing one run: the lowest failing
            // seed is the same every time.
            let seed = shared.next.fetch_add(1, Ordering::Relaxed);
            let is_late = shared.until.is_some_and(|until| Instant::now() >= until);
            if is_late || seed >= shared.end.load(Ordering::Relaxed) {
                return (seeds, counts, None);
            }
            let plan = self.arguments.plan_with(seed, self.planted);
            match crate::checked(&plan, self.arguments.twice, false) {
                Ok(totals) => {
                    seeds += 1;
                    counts.merge(&totals.counts);
                }
                Err(failed) => {
                    shared.end.fetch_min(seed, Ordering::Relaxed);
                    return (seeds, counts, Some((seed, failed)));
                }
            }
            shared.progress.inc(1);
        }
    }
}

/// The progress bar of a campaign; it is shown on a terminal only.
fn progress(seeds: Seeds) -> ProgressBar {
    let (bar, template) = match seeds {
        Seeds::Count(_, count) => (
            ProgressBar::new(count),
            "{elapsed} {bar:40} {pos} of {len} seeds, {per_sec}",
        ),
        Seeds::Time(..) => (ProgressBar::no_length(), "{elapsed} {pos} seeds, {per_sec}"),
    };
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
