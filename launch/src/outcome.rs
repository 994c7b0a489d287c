//! How a job ended.

use super::recoveries::{Recovery, summarize};
use refrain_job::Statistics;

/// Exit status of a job in which replayed messages had other bytes and everything else ended well.
pub const DIFFERED: i32 = 80;

/// Exit status of a job that ended since a host was lost (`EX_TEMPFAIL` of sysexits.h): the program
/// did not fail, and the job can be started again.
pub const HOST_LOST: i32 = 75;

/// Exit status of a run that has stopped at checkpoints of its ranks, so that a later run with the same
/// `--job-dir` goes on (`ERESTART` of Linux).
pub const STOPPED: i32 = 85;

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Exit status for the launcher: the status of the first rank that failed (128 + signal for a
    /// killed one; 1 for one that failed with status 0), 128 + signal if a signal ended the
    /// launcher, 75 if a lost host ended the job, [`STOPPED`] if a signal has stopped it at checkpoints, 141 (as by SIGPIPE) if the output has no reader
    /// any more, [`DIFFERED`] if replayed messages had other bytes and everything else ended well,
    /// or 0.
    pub status: i32,
    /// What failed, for people; `None` after a good end, and if the reader of the output is gone.
    pub failure: Option<String>,
    /// Statistics by rank, if ranks report them
    /// ([`EventConfig::statistics`](refrain_job::config::EventConfig::statistics)).
    pub statistics: Vec<Option<Statistics>>,
    /// Deaths of ranks that were restarted, in the order in which their recoveries ended.
    pub recoveries: Vec<Recovery>,
    /// Checkpoints, by rank.
    pub checkpoints: Vec<CheckpointCounts>,
}

/// Checkpoints of one rank, in all its lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct CheckpointCounts {
    /// Number of checkpoint requests to the rank.
    pub orders: u64,
    /// Number of its stable checkpoints, requested or not.
    pub stable: u64,
    /// Bytes of its stable checkpoints.
    pub bytes: u64,
}

impl Outcome {
    /// An outcome without statistics, recoveries and checkpoints.
    pub fn new(status: i32, failure: Option<String>) -> Self {
        Self {
            status,
            failure,
            statistics: Vec::new(),
            recoveries: Vec::new(),
            checkpoints: Vec::new(),
        }
    }

    /// The outcome at the end of the job, and a line that is still to be printed.
    pub fn conclude(self, recoveries: &[Recovery]) -> (Self, Option<String>) {
        let summary = summarize(recoveries);
        match (self.status, &self.failure, &summary) {
            (0, None, Some(_)) => (Self::new(DIFFERED, summary), None),
            _ => (self, summary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recoveries::explain;
    use crate::verdict::Cause;
    use refrain_job::control::message::DifferenceFigures;
    use refrain_job::control::message::RecoveryFigures;

    fn figures(differing: u64) -> RecoveryFigures {
        RecoveryFigures {
            compared: 100,
            compared_bytes: 2400,
            differing,
            differing_bytes: 4 * differing,
            first_difference: (differing > 0).then(|| DifferenceFigures {
                operation: 7,
                receiver: 1,
                message: 2,
                context: 0,
                tag: 5,
                bytes: 24,
                call: String::new(),
                ranges: vec![(4, 8)],
                has_more: false,
            }),
            ..RecoveryFigures::default()
        }
    }

    fn recovery(rank: u32, figures: Option<RecoveryFigures>) -> Recovery {
        Recovery {
            rank,
            incarnation: 0,
            signal: 9,
            cause: Cause::Unknown,
            noticed_us: None,
            started_us: 0,
            joined_us: None,
            total_us: None,
            figures,
        }
    }

    #[test]
    fn a_rank_is_explained_once_it_differs() {
        assert_eq!(explain(3, &figures(0)), None);
        let line = explain(3, &figures(2)).expect("it differs");
        let begin = "rank 3 sent other bytes in its replay than before: \
         2 of 100 compared messages differ, in 8 of 2400 bytes; operation 7: \
         message 2 to rank 1 (context 0, tag 5, 24 bytes) has other bytes at 4..7; ";
        assert!(line.starts_with(begin), "{line}");
        for option in ["--record-clocks", "--same-memory", "--divergence stop"] {
            assert!(line.contains(option), "{line}");
        }
    }

    #[test]
    fn a_job_that_differed_has_a_status_of_its_own() {
        let all = [
            recovery(0, None),
            recovery(1, Some(figures(0))),
            recovery(5, Some(figures(2))),
            recovery(3, Some(figures(1))),
            recovery(5, Some(figures(2))),
        ];
        let good = Outcome::new(0, None);
        assert_eq!(good.clone().conclude(&all[..2]), (good.clone(), None));
        let (outcome, line) = good.conclude(&all);
        assert_eq!((outcome.status, line), (DIFFERED, None));
        let summary = outcome.failure.expect("it says why");
        let begin = "the replay of 2 ranks sent other bytes than before: \
         5 of 400 compared messages differ, in 20 of 9600 bytes; \
         first difference: rank 5, operation 7: message 2 to rank 1";
        assert!(summary.starts_with(begin), "{summary}");
    }

    #[test]
    fn a_job_that_failed_keeps_its_status_and_reports_both() {
        let failed = Outcome::new(3, Some("rank 1 exited".into()));
        let (outcome, line) = failed.clone().conclude(&[recovery(5, Some(figures(2)))]);
        assert_eq!(outcome, failed);
        assert!(line.expect("a line").contains("the replay of rank 5 sent"));
    }
}
