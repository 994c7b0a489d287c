//! What many runs came to.

use refrain_sim::world::{FaultCounts, Totals};
use std::fmt;

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
