//! Seed after seed, on several threads.

use crate::arguments::Arguments;
use crate::progress::Progress;
use crate::run;
use crate::tally::Tally;
use refrain_sim::planted::Planted;
use refrain_sim::world::Failure;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Which seeds.
#[derive(Clone, Copy, Debug)]
pub enum Seeds {
    /// From the first on, so many.
    Count(u64, u64),
    /// From the first on, so long.
    Time(u64, Duration),
}

/// Seeds that are run up to the first failure.
pub struct Campaign<'a> {
    /// What plans are like.
    pub arguments: &'a Arguments,
    /// Which.
    pub seeds: Seeds,
    /// A bug in all of them.
    pub planted: Option<Planted>,
}

/// What a campaign came to.
pub struct Report {
    /// Of all runs that were well.
    pub tally: Tally,
    /// The lowest seed that failed.
    pub failed: Option<(u64, Box<Failure>)>,
    /// How long it took.
    pub elapsed: Duration,
}

/// What the threads share.
struct Shared {
    /// The next seed.
    next: AtomicU64,
    /// No seed from here on is begun any more.
    end: AtomicU64,
    until: Option<Instant>,
    progress: Progress,
}

impl Campaign<'_> {
    /// Runs them.
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
            progress: Progress::new(self.seeds),
        };
        let mut report = Report {
            tally: Tally::default(),
            failed: None,
            elapsed: Duration::ZERO,
        };
        std::thread::scope(|scope| {
            let threads = self.arguments.threads();
            let work = || scope.spawn(|| self.work(&shared));
            let threads: Vec<_> = (0..threads).map(|_| work()).collect();
            for thread in threads {
                // It does not panic: runs that do are failures.
                let (tally, failed) = thread.join().expect("a thread of the campaign");
                report.tally.merge(&tally);
                report.failed = earlier(report.failed.take(), failed);
            }
        });
        shared.progress.end();
        report.elapsed = began.elapsed();
        report
    }

    fn work(&self, shared: &Shared) -> (Tally, Option<(u64, Box<Failure>)>) {
        let mut tally = Tally::default();
        loop {
            // Seeds are begun in order, so that all before one that fails have
            // been run: the lowest that fails is the same every time.
            let seed = shared.next.fetch_add(1, Ordering::Relaxed);
            let is_late = shared.until.is_some_and(|until| Instant::now() >= until);
            if is_late || seed >= shared.end.load(Ordering::Relaxed) {
                return (tally, None);
            }
            let plan = self.arguments.plan_with(seed, self.planted);
            match run::checked(&plan, self.arguments.twice, false) {
                Ok(totals) => tally.add(&totals),
                Err(failed) => {
                    shared.end.fetch_min(seed, Ordering::Relaxed);
                    return (tally, Some((seed, failed)));
                }
            }
            shared.progress.ran();
        }
    }
}

fn earlier(
    one: Option<(u64, Box<Failure>)>,
    other: Option<(u64, Box<Failure>)>,
) -> Option<(u64, Box<Failure>)> {
    let both = [one, other].into_iter().flatten();
    both.min_by_key(|(seed, _)| *seed)
}
