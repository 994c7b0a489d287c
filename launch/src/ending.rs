//! The end of a job.
//!
//! Running → Ending (ranks are asked to stop, then killed) → Flushing (all processes have ended,
//! output is written) → Over. If all ranks end well, Running is followed by Flushing.

use super::Job;
use super::hosts::message::Recipient;
use super::key_values::{StalledWait, Waiting};
use super::outcome::{DIFFERED, Outcome};
use super::output::Output;
use super::process::RankProcess;
use super::sink::{LostStream, Stream};
use super::verdict::{self, Cause, End, Membership, Verdict};
use refrain_job::control::message::ToRank;
use rustix::io::Errno;
use rustix::process::Signal;
use signal_hook::consts::SIGKILL;
use std::time::{Duration, Instant};

/// Time for ranks to end after the request to stop.
const GRACE: Duration = Duration::from_secs(3);

/// Phase of a job.
#[derive(Debug)]
pub enum Phase {
    /// Ranks run.
    Running,
    /// Ranks are asked to stop.
    Ending {
        /// When the ranks are killed. `None`: they are killed, and the launcher waits for their
        /// end.
        kill_at: Option<Instant>,
        /// The job's outcome, as known so far.
        outcome: Outcome,
        /// The rank that aborted the job: its own exit status is the outcome's.
        aborted_by: Option<usize>,
    },
    /// All ranks have ended; output is written.
    Flushing {
        /// The job's outcome.
        outcome: Outcome,
        /// When to give up waiting for a reader of the output. `None` (after a good end): never.
        give_up_at: Option<Instant>,
    },
    /// The job is over.
    Over {
        /// The job's outcome.
        outcome: Outcome,
    },
}

impl Phase {
    /// When the phase has to change even if no event occurs.
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Phase::Ending { kill_at, .. } => *kill_at,
            Phase::Flushing { give_up_at, .. } => *give_up_at,
            _ => None,
        }
    }
}

/// Why the launcher's own stdout or stderr cannot be written, for people.
fn unwritable(stream: Stream, error: Errno) -> String {
    let name = match stream {
        Stream::Out => "standard output",
        Stream::Err => "standard error",
    };
    let advice = match error {
        Errno::NOSPC | Errno::DQUOT => ": make room on the disk that it goes to",
        Errno::FBIG => ": the file is as long as ulimit -f allows",
        _ => "",
    };
    format!(
        "the job's {name} cannot be written: {}{advice}",
        std::io::Error::from(error)
    )
}

impl Job {
    pub(super) fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    /// Asks all ranks to stop, unless that has happened. The first reason is the job's outcome.
    /// `spared` gets no signal; it is killed if it does not end by itself.
    fn end(&mut self, outcome: Outcome, signal: Signal, spared: Option<usize>) {
        if !self.is_running() {
            return;
        }
        self.lives.iter_mut().for_each(|lives| lives.pending = None);
        let reason = outcome
            .failure
            .clone()
            .unwrap_or_else(|| "the output of the job has no reader".into());
        for (index, rank) in self.ranks.iter_mut().enumerate() {
            if rank.end.is_some() || Some(index) == spared {
                continue;
            }
            let reason = reason.clone();
            // A reason is far shorter than the longest message.
            let _ = rank.link.send(&ToRank::Stop(reason), None);
            rank.signal(Recipient::Group, signal);
            // A stopped process handles no signals but SIGCONT and SIGKILL.
            rank.signal(Recipient::Group, Signal::CONT);
        }
        self.phase = Phase::Ending {
            kill_at: Some(Instant::now() + GRACE),
            outcome,
            aborted_by: spared,
        };
    }

    /// Ends the job because of a rank.
    pub(super) fn fail(&mut self, status: i32, failure: String) {
        self.end(Outcome::new(status, Some(failure)), Signal::TERM, None);
    }

    /// Ends the job as `rank` asked for.
    pub(super) fn abort(&mut self, rank: usize, message: &str) {
        let failure = Some(format!("rank {rank} aborted the job: {message}"));
        self.end(Outcome::new(1, failure), Signal::TERM, Some(rank));
    }

    /// Ends the job because its output cannot be written. If the reader is gone, the job ends
    /// without a message, like a program that gets SIGPIPE.
    pub(super) fn output_closed(&mut self, lost: LostStream) {
        let LostStream { stream, error } = lost;
        let closed = match error {
            Errno::PIPE => Outcome::new(verdict::signal_status(signal_hook::consts::SIGPIPE), None),
            error => Outcome::new(1, Some(unwritable(stream, error))),
        };
        match &mut self.phase {
            // All ranks ended well; only the output failed.
            Phase::Flushing { outcome, .. } if matches!(outcome.status, 0 | DIFFERED) => {
                *outcome = closed;
            }
            _ => self.end(closed, Signal::TERM, None),
        }
    }

    /// Ends the job because of a signal to the launcher; at the second signal, kills the ranks at
    /// once.
    pub(super) fn end_by_signal(&mut self, number: i32) {
        let failure = format!("the job was ended by {}", verdict::signal_name(number));
        let outcome = Outcome::new(verdict::signal_status(number), Some(failure));
        match &mut self.phase {
            Phase::Running => {
                let signal = Signal::from_named_raw(number).unwrap_or(Signal::TERM);
                self.end(outcome, signal, None);
            }
            Phase::Ending {
                kill_at: Some(kill_at),
                ..
            } => *kill_at = Instant::now(),
            Phase::Flushing { give_up_at, .. } => *give_up_at = Some(Instant::now()),
            Phase::Ending { .. } | Phase::Over { .. } => {}
        }
    }

    /// Changes the phase if its time has come.
    pub(super) fn keep_time(&mut self) {
        let deadline = self.phase.deadline();
        if deadline.is_none_or(|deadline| Instant::now() < deadline) {
            return;
        }
        match &mut self.phase {
            Phase::Ending { kill_at, .. } => {
                *kill_at = None;
                self.ranks.iter().for_each(RankProcess::kill_group);
            }
            Phase::Flushing { outcome, .. } => {
                let outcome = outcome.clone();
                self.phase = Phase::Over { outcome };
            }
            Phase::Running | Phase::Over { .. } => {}
        }
    }

    /// Judges ranks that were found ended together; each with the reason why it is not restarted.
    pub(super) fn judge(&mut self, ended: &[(usize, End, Option<String>)]) {
        for (rank, end, _) in ended {
            if let Phase::Ending {
                outcome,
                aborted_by: Some(aborter),
                ..
            } = &mut self.phase
                && aborter == rank
                && let End::Exited(status @ 1..) = end
            {
                outcome.status = *status;
            }
        }
        let verdicts = ended.iter().filter_map(|(rank, end, why)| {
            let (membership, cause) = (self.ranks[*rank].membership, self.lives[*rank].cause(*end));
            let mut verdict = verdict::judge(*rank, *end, membership, cause)?;
            if *end == End::Killed(SIGKILL)
                && cause == Cause::Unknown
                && let Some(hint) = self.out_of_memory.hint()
            {
                verdict.failure = format!("{}; {hint}", verdict.failure);
            }
            if let Some(why) = why {
                verdict.failure = format!("{}; {why}", verdict.failure);
            }
            Some(verdict)
        });
        // Takes the first of equals; `max_by_key` would take the last.
        let worst = verdicts.reduce(|a, b| if b.weight > a.weight { b } else { a });
        if let Some(Verdict {
            status, failure, ..
        }) = worst
        {
            self.fail(status, failure);
        }
    }

    /// A rank that was killed after all ranks had left is not restarted: the other ranks continue,
    /// and the job's status reports it.
    pub(super) fn note_late(&mut self, rank: usize, end: End, why: &str) {
        let cause = self.lives[rank].cause(end);
        if let Some(verdict) = verdict::judge(rank, end, Membership::Left, cause) {
            let failure = format!("{}; it had left the job before; {why}", verdict.failure);
            let late = Outcome::new(verdict.status, Some(failure));
            self.late.get_or_insert(late);
        }
        if self.past_last_fence {
            self.give_up_set(rank);
        }
    }

    /// Ends a job whose ranks wait for an event that cannot occur.
    pub(super) fn judge_waiting(&mut self) {
        let is_over =
            |rank: usize| self.ranks[rank].end.is_some() && !self.lives[rank].is_awaited();
        let Some(StalledWait { waiter, gone }) = self.key_values.stalled(is_over) else {
            return;
        };
        // REC-6: a killed rank whose end is not seen yet waits for nothing, and its next life
        // reaches the same point.
        let is_dying = |rank: usize| {
            let process = &self.ranks[rank];
            process.end.is_none() && (self.lives[rank].shot.is_some() || process.has_ended())
        };
        if (0..self.ranks.len()).any(is_dying) {
            return;
        }
        let waiting = self.key_values.waiting(waiter);
        let waits = waiting.map_or_else(String::new, Waiting::describe);
        let missed = gone.and_then(|rank| Some((rank, self.ranks[rank].end?)));
        let failure = match missed {
            Some((rank, end)) => {
                let how = verdict::describe(end, self.ranks[rank].membership);
                format!("rank {rank} {how}, while rank {waiter} waits {waits}")
            }
            None => format!(
                "all ranks wait for each other (rank {waiter} waits {waits}, which no rank can provide): \
                 check that all ranks make the same calls"
            ),
        };
        self.fail(1, failure);
    }

    /// All ranks have ended: kills the processes that they left, reads the output that is still in
    /// the pipes, and reaps.
    pub(super) fn conclude(&mut self) {
        self.ranks.iter().for_each(RankProcess::kill_group);
        for rank in 0..self.ranks.len() {
            // What is shown of a life that has not reported where it begins comes again in the next
            // run, whose checkpoint needs the marks of before.
            let has_begun = self.ranks[rank].outputs.iter().all(Output::has_begun);
            let before = (!has_begun).then(|| self.output_to_save(rank));
            self.conclude_output(rank);
            if self.job_dir.is_some() {
                let saved = before.unwrap_or_else(|| self.output_to_save(rank));
                self.ended_output.push(saved);
            }
        }
        self.report_omitted_lines();
        self.ranks.clear();
        let (outcome, give_up_at) = match &self.phase {
            Phase::Running => (
                self.late.take().unwrap_or_else(|| Outcome::new(0, None)),
                None,
            ),
            Phase::Ending { outcome, .. } => (outcome.clone(), Some(Instant::now() + GRACE)),
            Phase::Flushing { .. } | Phase::Over { .. } => return,
        };
        let (outcome, line) = outcome.conclude(self.recoveries.ended());
        self.say(line);
        self.phase = Phase::Flushing {
            outcome,
            give_up_at,
        };
    }

    fn conclude_output(&mut self, rank: usize) {
        if self.has_stopped {
            // The next life ends its last line. JOB-5
            return self.end_output(rank);
        }
        let mut dropped_bytes = 0;
        self.for_outputs(rank, |output, gate, out| {
            dropped_bytes += output.conclude(gate, out);
        });
        if dropped_bytes > 0 {
            // GATE-1: output of events that may be undone must not be visible.
            self.say(Some(format!(
                "{dropped_bytes} bytes that rank {rank} printed are not shown: the events before them were not stable when it ended"
            )));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_values::Fencing;
    use crate::recoveries::Shot;
    use crate::{JobSpec, Program};

    fn sleeping() -> Job {
        Job::start(JobSpec {
            programs: vec![Program {
                path: "sleep".into(),
                arguments: vec!["1000".into()],
                ranks: 2,
                ..Program::default()
            }],
            ..JobSpec::default()
        })
        .unwrap()
    }

    /// All ranks wait in a fence, which does not open: one of them was killed, and its death is
    /// not seen yet.
    // REC-6
    #[test]
    fn a_job_is_not_stuck_while_one_that_was_shot_has_yet_to_be_found_dead() {
        let mut job = sleeping();
        for rank in 0..2 {
            let reached = job.key_values.fence(rank, 0, true, |rank| rank != 1);
            assert_eq!(reached, Ok(Fencing::Waits));
        }
        job.lives[1].shot = Some(Shot {
            at: Instant::now(),
            cause: Cause::Kill,
        });
        job.judge_waiting();
        assert!(job.is_running());
        job.lives[1].shot = None;
        job.judge_waiting();
        assert!(!job.is_running());
    }

    #[test]
    fn the_second_signal_ends_the_grace_and_the_first_is_the_status() {
        let mut job = sleeping();
        assert_eq!(job.phase.deadline(), None);
        let before = Instant::now();
        job.end_by_signal(signal_hook::consts::SIGINT);
        assert!(job.phase.deadline().unwrap() >= before + GRACE);
        job.end_by_signal(signal_hook::consts::SIGTERM);
        assert!(job.phase.deadline().unwrap() <= Instant::now());
        assert_eq!(job.wait().unwrap().status, 130);
    }

    #[test]
    fn the_first_reason_holds() {
        let mut job = sleeping();
        job.fail(7, "first".into());
        job.fail(8, "second".into());
        job.output_closed(LostStream {
            stream: Stream::Out,
            error: Errno::PIPE,
        });
        job.end_by_signal(signal_hook::consts::SIGTERM);
        let outcome = job.wait().unwrap();
        assert_eq!(
            (outcome.status, outcome.failure.as_deref()),
            (7, Some("first"))
        );
    }
}
