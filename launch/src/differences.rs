//! Ranks that went on although messages of their replay had other bytes: the reports, and
//! the job's exit status. REC-8. Pure.

use super::Outcome;
use super::recoveries::Recovery;
use refrain_job::control::message::RecoveryFigures;
use std::fmt::{self, Display, Formatter};

/// Exit status of a job in which replayed messages had other bytes, and everything
/// else went well.
pub const DIFFERED: i32 = 80;

/// What such bytes mostly are, and which options help.
const MEANING: &str = "such bytes are mostly padding or memory that the program never wrote, a time, an address or \
     a process id: --record-clocks and --same-memory make them the same in each life, \
     --divergence stop ends the job at the first of them";

/// The report about a rank. `None`: its messages do not differ.
pub fn explain(rank: usize, figures: &RecoveryFigures) -> Option<String> {
    let first = figures.first_difference.as_ref()?;
    Some(format!(
        "rank {rank} sent other bytes in its replay than before: {}; {first}; \
         receivers keep the first bytes; {MEANING}",
        Counts::default().with(figures)
    ))
}

/// The report about the whole job, at its end.
fn summarize(recoveries: &[Recovery]) -> Option<String> {
    let mut differing = recoveries.iter().filter_map(|recovery| {
        let first = recovery.figures.as_ref()?.first_difference.as_ref()?;
        Some((recovery.rank, first))
    });
    let (rank, first) = differing.next()?;
    let mut ranks = vec![rank];
    ranks.extend(differing.map(|(rank, _)| rank));
    ranks.sort_unstable();
    ranks.dedup();
    let which = match ranks.as_slice() {
        [rank] => format!("rank {rank}"),
        several => format!("{} ranks", several.len()),
    };
    let figures = recoveries.iter().filter_map(|one| one.figures.as_ref());
    let counts = figures.fold(Counts::default(), Counts::with);
    Some(format!(
        "the replay of {which} sent other bytes than before: {counts}; first difference: rank {rank}, {first}; {MEANING}"
    ))
}

/// The outcome of a job at its end, and a line that is still to be printed.
pub fn conclude(outcome: Outcome, recoveries: &[Recovery]) -> (Outcome, Option<String>) {
    let summary = summarize(recoveries);
    match (outcome.status, &outcome.failure, &summary) {
        (0, None, Some(_)) => (Outcome::new(DIFFERED, summary), None),
        _ => (outcome, summary),
    }
}

#[derive(Default)]
struct Counts {
    compared: u64,
    compared_bytes: u64,
    differing: u64,
    differing_bytes: u64,
}

impl Counts {
    fn with(self, figures: &RecoveryFigures) -> Self {
        Self {
            compared: self.compared + figures.compared,
            compared_bytes: self.compared_bytes + figures.compared_bytes,
            differing: self.differing + figures.differing,
            differing_bytes: self.differing_bytes + figures.differing_bytes,
        }
    }
}

impl Display for Counts {
    fn fmt(&self, to: &mut Formatter<'_>) -> fmt::Result {
        write!(
            to,
            "{} of {} compared messages differ, in {} of {} bytes",
            self.differing, self.compared, self.differing_bytes, self.compared_bytes
        )
    }
}

#[cfg(test)]
mod tests;
