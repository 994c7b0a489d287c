//! Seed after seed, on several threads: how far they are, and what they came to.

use crate::arguments::Arguments;
use indicatif::{ProgressBar, ProgressStyle};
use refrain_sim::planted::Planted;
use refrain_sim::world::{Failure, FaultCounts, Totals};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Which seeds.
#[derive(Clone, Copy, Debug)]
pub enum Seeds {
    /// From the first on, a number of them.
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
            match crate::checked(&plan, self.arguments.twice, false) {
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

/// Draws on a terminal only.
pub struct Progress(ProgressBar);

impl Progress {
    /// Of a campaign that begins.
    pub fn new(seeds: Seeds) -> Self {
        let bar = match seeds {
            Seeds::Count(_, count) => ProgressBar::new(count),
            Seeds::Time(..) => ProgressBar::no_length(),
        };
        let template = match seeds {
            Seeds::Count(..) => "{elapsed} {bar:40} {pos} of {len} seeds, {per_sec}",
            Seeds::Time(..) => "{elapsed} {pos} seeds, {per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// One seed more.
    pub fn ran(&self) {
        self.0.inc(1);
    }

    /// The campaign is over.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}

/// The sum of runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// How many.
    pub seeds: u64,
    sum: Totals,
}

impl Tally {
    /// Adds a run.
    pub fn add(&mut self, run: &Totals) {
        self.seeds += 1;
        let sum = &mut self.sum;
        sum.steps += run.steps;
        sum.calls += run.calls;
        sum.frames += run.frames;
        sum.events += run.events;
        for (sum, more) in sum.kinds.iter_mut().zip(run.kinds) {
            *sum += more;
        }
        sum.checkpoints += run.checkpoints;
        sum.recollections += run.recollections;
        sum.lives += run.lives;
        sum.stops += run.stops;
        let (faults, more) = (&mut sum.faults, &run.faults);
        faults.rank_kills += more.rank_kills;
        faults.logger_kills += more.logger_kills;
        faults.forgotten += more.forgotten;
        faults.checkpoint_kills += more.checkpoint_kills;
        faults.suspicions += more.suspicions;
        faults.pauses += more.pauses;
        faults.disconnects += more.disconnects;
        faults.disks += more.disks;
        faults.losses += more.losses;
    }

    /// Adds the sum of others.
    pub fn merge(&mut self, other: &Tally) {
        let seeds = self.seeds + other.seeds;
        self.add(&other.sum);
        self.seeds = seeds;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals {
            steps,
            calls,
            frames,
            events,
            checkpoints,
            recollections,
            lives,
            stops,
            faults,
            kinds: _,
            digest: _,
        } = self.sum;
        let FaultCounts {
            rank_kills,
            logger_kills,
            forgotten,
            checkpoint_kills,
            suspicions,
            pauses,
            disconnects,
            disks,
            losses,
        } = faults;
        writeln!(
            f,
            "{} seeds: {calls} calls, {frames} frames, {events} events, {checkpoints} checkpoints in {steps} steps",
            self.seeds
        )?;
        writeln!(
            f,
            "faults: {rank_kills} ranks, {logger_kills} loggers, {checkpoint_kills} checkpoint stores killed; {forgotten} loggers lost all; {suspicions} suspicions, {pauses} pauses, {disconnects} disconnections, {disks} of disks"
        )?;
        writeln!(
            f,
            "{losses} jobs lost acknowledged events: {stops} of them stopped for it, the others went on as they were"
        )?;
        write!(
            f,
            "{lives} later lives played again and went on; {recollections} of them were checked before in the reference"
        )
    }
}
