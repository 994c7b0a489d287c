//! Checkpoints of all ranks at a signal, and the end of the run: a later run of the job goes on from
//! them. The checkpoints are those that single ranks take, each at its own time; together with the
//! events and the logs in them any of them fit together. JOB-3
//!
//! Until the run ends nothing is different from any other run: a kill at any moment leaves a folder from
//! which the next run goes on. JOB-4

use crate::Job;
use crate::ending::Phase;
use crate::error::LaunchError;
use crate::key_values::Waiting;
use crate::outcome::{DIFFERED, Outcome, STOPPED};
use crate::printed::SavedPosition;
use crate::verdict::{self, Membership};
use refrain_job::stderr::report;
use signal_hook::consts::{SIGTERM, SIGUSR1};
use std::time::{Duration, Instant};

/// Slurm, and others, send SIGTERM twice for one event: the launcher and its process group get it.
/// Signals that follow the first one within this time do not count as a second one.
const ONE_EVENT: Duration = Duration::from_secs(2);

/// The ranks that a whole checkpoint has asked.
#[derive(Debug)]
pub struct WholeCheckpoint {
    /// By rank: it has a stable checkpoint since then.
    is_stable: Vec<bool>,
}

/// Whether the signal asks for a whole checkpoint of a job that has a folder. SIGTERM does, since it is
/// the only warning before a preemption, or a time limit without `--signal`.
pub fn is_asked_by(signal: i32) -> bool {
    matches!(signal, SIGUSR1 | SIGTERM)
}

/// SIGTERM before the first rank was started stops the run in order, too: the next one goes on.
pub fn interrupted(error: LaunchError) -> LaunchError {
    match error {
        LaunchError::Interrupted { status, name }
            if i32::from(status) == verdict::signal_status(SIGTERM) =>
        {
            LaunchError::Interrupted {
                status: STOPPED as u8,
                name,
            }
        }
        other => other,
    }
}

impl Job {
    /// A signal asks for a whole checkpoint; `is_own`: it came to the launcher itself, and not to an
    /// agent. The second one, [`ONE_EVENT`] after the first or later, ends the run at once.
    pub(crate) fn begin_whole_checkpoint(&mut self, signal: i32, is_own: bool) {
        let name = verdict::signal_name(signal);
        let first = self.signalled_at.filter(|_| is_own);
        if is_own {
            self.signalled_at.get_or_insert_with(Instant::now);
        }
        let is_lost = self.job_dir.as_ref().is_none_or(super::JobDir::is_lost);
        if is_lost && signal == SIGTERM && self.is_running() {
            return self.end_by_signal(signal);
        }
        if first.is_some_and(|first| first.elapsed() < ONE_EVENT) {
            return;
        }
        if !self.is_running() {
            if signal == SIGTERM {
                self.end_by_signal(signal);
            }
            return;
        }
        if self.past_last_fence && first.is_some() && signal == SIGTERM {
            // The program hangs after its end.
            return self.end_by_signal(signal);
        }
        let apart_s = ONE_EVENT.as_secs();
        if is_lost || self.past_last_fence {
            let why = match is_lost {
                true => "the job cannot go on later, since a log was full".into(),
                false => format!(
                    "all ranks are at their end; a second SIGTERM, {apart_s} s later or more, ends the job"
                ),
            };
            return self.say(Some(format!("{name}: no checkpoints are taken: {why}")));
        }
        if self.whole_checkpoint.is_some() {
            if first.is_some() {
                self.stop_at_checkpoints();
            }
            return;
        }
        if self.unprotected_since.is_some() {
            // A checkpoint from now on would lack messages; earlier ones do not. JOB-6
            return self.stop_at_checkpoints();
        }
        self.say(Some(format!(
            "{name}: the job stops when all ranks have a checkpoint; a second signal, {apart_s} s later or more, stops it at once"
        )));
        let ranks = self.ranks.len();
        self.whole_checkpoint = Some(WholeCheckpoint {
            is_stable: vec![false; ranks],
        });
        for rank in 0..ranks {
            self.schedule.scheduler.request(rank);
        }
    }

    /// A rank has a stable checkpoint.
    pub(crate) fn note_stable(&mut self, rank: usize) {
        if let Some(under_way) = &mut self.whole_checkpoint {
            under_way.is_stable[rank] = true;
        }
    }

    /// Stops the run when no rank is left whose checkpoint is worth the wait.
    pub(crate) fn step_whole_checkpoint(&mut self) {
        let Some(under_way) = &self.whole_checkpoint else {
            return;
        };
        if self.past_last_fence {
            // The job ends well at any moment.
            self.whole_checkpoint = None;
            return;
        }
        let is_settled = |rank: usize| {
            let (process, lives) = (&self.ranks[rank], &self.lives[rank]);
            let has_gone = process.end.is_some() && !lives.is_awaited();
            let takes_none = lives.checkpoint.is_none() && !lives.heeds_requests;
            let waits_at_the_end =
                self.key_values.waiting(rank) == Some(&Waiting::Fence { last: true });
            under_way.is_stable[rank]
                || has_gone
                || waits_at_the_end
                || process.membership != Membership::Member && !lives.is_awaited()
                || takes_none
        };
        if (0..self.ranks.len()).all(is_settled) {
            self.stop_at_checkpoints();
        }
    }

    /// Ends all ranks; a later run goes on. JOB-4
    pub(crate) fn stop_at_checkpoints(&mut self) {
        let Some(dir) = &self.job_dir else { return };
        let (is_later, dir) = (dir.is_later_run(), dir.path().display());
        let ranks = self.ranks.len();
        let with = self.lives.iter().filter(|it| it.checkpoint.is_some());
        // They have not told from which checkpoint of an earlier run they go on.
        let unknown = self.lives.iter();
        let unknown = unknown.filter(|it| is_later && it.checkpoint.is_none() && !it.has_begun());
        let failure = match (with.count(), unknown.count()) {
            (_, unknown @ 1..) => format!(
                "the job has stopped before {unknown} of {ranks} ranks had loaded their checkpoints: start it again with --job-dir {dir} to go on from those of its earlier runs, if there are any"
            ),
            (0, 0) => format!(
                "the job has stopped without checkpoints: started again with --job-dir {dir}, it repeats its work from the beginning, with the recorded events, which takes about as long as until now"
            ),
            (with, 0) if with == ranks => format!(
                "the job has stopped at checkpoints of all {ranks} ranks: start it again with --job-dir {dir} to go on"
            ),
            (with, 0) => format!(
                "the job has stopped at checkpoints of {with} of {ranks} ranks: start it again with --job-dir {dir} to go on; the other ranks repeat their work from the beginning"
            ),
        };
        self.lives.iter_mut().for_each(|lives| lives.pending = None);
        self.whole_checkpoint = None;
        self.has_stopped = true;
        self.phase = Phase::Ending {
            kill_at: Some(Instant::now()),
            outcome: Outcome::new(STOPPED, Some(failure)),
            aborted_by: None,
        };
    }

    /// What a later run has to know of the output of a rank. JOB-5
    pub(crate) fn output_to_save(&self, rank: usize) -> Vec<SavedPosition> {
        let outputs = self.ranks[rank].outputs.iter();
        outputs.map(crate::output::Output::to_save).collect()
    }

    /// The run is over: says so in the job's folder if its output is written. If a good end has output
    /// without a reader, that comes in a later run. JOB-5, JOB-7
    pub(crate) fn settle_job_dir(&mut self, outcome: &mut Outcome) {
        let Some(dir) = &mut self.job_dir else { return };
        let is_good = matches!(outcome.status, 0 | DIFFERED);
        if !self.out.is_written() || !self.err.is_written() {
            if is_good {
                let failure = format!(
                    "all ranks have ended, and the last of their output was not read: start the job again with --job-dir {} to get it",
                    dir.path().display()
                );
                *outcome = Outcome::new(STOPPED, Some(failure));
            }
            return;
        }
        if is_good {
            if let Err(error) = dir.end() {
                report(error);
            }
            return;
        }
        let saved = std::mem::take(&mut self.ended_output);
        for (rank, streams) in saved.into_iter().enumerate() {
            if let Err(error) = dir.save_output(rank, streams) {
                let path = dir.path().display();
                report(format_args!(
                    "--job-dir {path}: the position of the output of rank {rank} cannot be written: {error}: output comes again"
                ));
            }
        }
        if outcome.status != STOPPED && !dir.is_lost() {
            report(format_args!(
                "started again with --job-dir {}, the job goes on from its newest checkpoints",
                dir.path().display()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_dir::JobDir;
    use crate::{JobSpec, Program};

    fn job_of(folder: &std::path::Path) -> JobSpec {
        let mut spec = JobSpec {
            programs: vec![Program {
                path: "sleep".into(),
                arguments: vec!["1000".into()],
                ranks: 3,
                ..Program::default()
            }],
            job_dir: Some(folder.to_owned()),
            ..JobSpec::default()
        };
        spec.config.protocol = "pessimist".into();
        spec.config.recovery.max_restarts = 1;
        spec
    }

    /// A job of three ranks whose programs take checkpoints.
    fn job(folder: &std::path::Path) -> Job {
        let mut spec = job_of(folder);
        let mut dir = JobDir::open(&mut spec, 7).unwrap();
        dir.as_mut().unwrap().begin_run(&spec.config).unwrap();
        let mut job = Job::start(JobSpec {
            programs: spec.programs,
            ..JobSpec::default()
        })
        .unwrap();
        job.job_dir = dir;
        for (process, lives) in job.ranks.iter_mut().zip(&mut job.lives) {
            process.membership = Membership::Member;
            lives.heeds_requests = true;
        }
        job
    }

    // JOB-4
    #[test]
    fn a_run_stops_when_no_checkpoint_is_missing_that_could_come() {
        let folder = tempfile::tempdir().unwrap();
        let mut job = job(folder.path());
        job.begin_whole_checkpoint(SIGUSR1, true);
        job.note_stable(0);
        // It has nothing to save any more, and waits for the others.
        let waits = job.key_values.fence(1, 0, true, |_| true);
        assert_eq!(waits, Ok(crate::key_values::Fencing::Waits));
        job.step_whole_checkpoint();
        assert!(job.is_running(), "rank 2 will take one");
        // An agent has got the same signal, and the launcher once more.
        job.begin_whole_checkpoint(SIGUSR1, false);
        job.begin_whole_checkpoint(SIGTERM, true);
        assert!(job.is_running());
        job.lives[2].heeds_requests = false;
        job.step_whole_checkpoint();
        let outcome = job.wait().unwrap();
        assert_eq!(outcome.status, STOPPED);
        let failure = outcome.failure.unwrap();
        assert!(failure.contains("without checkpoints"), "{failure}");
    }

    // JOB-6
    #[test]
    fn a_job_whose_log_was_full_stops_without_new_checkpoints() {
        let folder = tempfile::tempdir().unwrap();
        let mut job = job(folder.path());
        job.unprotected_since = Some(1);
        job.begin_whole_checkpoint(SIGUSR1, true);
        assert_eq!(job.wait().unwrap().status, STOPPED);
        let mut again = job_of(folder.path());
        let dir = JobDir::open(&mut again, 8).unwrap().unwrap();
        assert!(dir.goes_on());
    }

    /// The answer to a mark is not for the next life.
    #[test]
    fn a_mark_of_a_dead_life_is_not_answered() {
        let folder = tempfile::tempdir().unwrap();
        let mut job = job(folder.path());
        job.config.recovery.max_restarts = 1;
        job.marked = vec![(0, 3), (1, 3)];
        job.start_again(1, crate::verdict::End::Killed(signal_hook::consts::SIGKILL));
        assert!(job.is_running());
        assert_eq!(job.marked, [(0, 3)]);
    }

    // JOB-6
    #[test]
    fn a_job_that_cannot_go_on_later_does_not_stop() {
        let folder = tempfile::tempdir().unwrap();
        let mut job = job(folder.path());
        job.job_dir
            .as_mut()
            .unwrap()
            .lose("a log was full")
            .unwrap();
        job.begin_whole_checkpoint(SIGUSR1, true);
        assert!(job.is_running() && job.whole_checkpoint.is_none());
        job.begin_whole_checkpoint(SIGTERM, true);
        assert_eq!(job.wait().unwrap().status, 143);
    }

    /// All ranks have passed the last fence: the job is about to end well.
    #[test]
    fn a_job_at_its_end_does_not_stop() {
        let folder = tempfile::tempdir().unwrap();
        let mut job = job(folder.path());
        job.begin_whole_checkpoint(SIGUSR1, true);
        job.past_last_fence = true;
        job.step_whole_checkpoint();
        assert!(job.is_running() && job.whole_checkpoint.is_none());
    }

    /// Its next life begins with the checkpoint of an earlier run, whose marks it needs.
    // JOB-5
    #[test]
    fn marks_of_a_life_that_has_not_begun_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut job = job(folder.path());
        let at = serde_json::json!({"bytes": 4, "hash": 1});
        let mark = serde_json::json!({"at": at, "cut": at, "partial": []});
        let saved = serde_json::json!({"handed_on": at, "marks": [[7, mark]]});
        for output in &mut job.ranks[1].outputs {
            output.go_on(Some(serde_json::from_value(saved.clone()).unwrap()));
        }
        job.end_by_signal(signal_hook::consts::SIGINT);
        assert_eq!(job.wait().unwrap().status, 130);
        let dir = JobDir::open(&mut job_of(folder.path()), 8)
            .unwrap()
            .unwrap();
        let stored = dir.saved_output(1);
        let stored = serde_json::to_value(stored).unwrap();
        assert_eq!(stored, serde_json::json!([saved, saved]));
    }

    /// A signal has ended the wait for a reader of the output.
    // JOB-7
    #[test]
    fn a_good_end_whose_output_is_not_written_is_no_end() {
        let folder = tempfile::tempdir().unwrap();
        let mut job = job(folder.path());
        job.out.buffer().extend(b"result\n");
        let mut outcome = Outcome::new(0, None);
        job.settle_job_dir(&mut outcome);
        assert_eq!(outcome.status, STOPPED);
        job.out.buffer().clear();
        drop(job);
        let dir = JobDir::open(&mut job_of(folder.path()), 8).unwrap();
        assert!(dir.unwrap().goes_on());
    }

    /// The first signal was `ONE_EVENT` ago.
    fn first_was_long_ago(job: &mut Job) {
        let first = job.signalled_at.unwrap();
        job.signalled_at = Some(first.checked_sub(ONE_EVENT).unwrap());
    }

    // JOB-4
    #[test]
    fn a_second_signal_counts_when_it_is_another_event() {
        let folder = tempfile::tempdir().unwrap();
        let mut job = job(folder.path());
        for _ in 0..3 {
            job.begin_whole_checkpoint(SIGTERM, true);
            assert!(job.is_running());
        }
        first_was_long_ago(&mut job);
        job.begin_whole_checkpoint(SIGTERM, true);
        assert!(!job.is_running());
        assert_eq!(job.wait().unwrap().status, STOPPED);
    }

    /// Its ranks hang after the last fence.
    #[test]
    fn a_job_at_its_end_is_ended_by_the_second_signal() {
        let folder = tempfile::tempdir().unwrap();
        let mut job = job(folder.path());
        job.begin_whole_checkpoint(SIGTERM, true);
        job.past_last_fence = true;
        job.step_whole_checkpoint();
        job.begin_whole_checkpoint(SIGTERM, true);
        assert!(job.is_running(), "it is the same event");
        first_was_long_ago(&mut job);
        job.begin_whole_checkpoint(SIGUSR1, true);
        assert!(job.is_running());
        job.begin_whole_checkpoint(SIGTERM, true);
        assert_eq!(job.wait().unwrap().status, 143);
    }

    /// What the launcher does not know yet may be there.
    // JOB-4
    #[test]
    fn a_later_run_that_stops_at_once_does_not_deny_earlier_checkpoints() {
        let folder = tempfile::tempdir().unwrap();
        let mut job = job(folder.path());
        job.lives[0].checkpoint = Some((3, Instant::now()));
        for lives in &mut job.lives[1..] {
            *lives = crate::lives::Lives::new(1, None).of_later_run(1);
        }
        job.lives[1].begin();
        let dir = job.job_dir.as_mut().unwrap();
        assert_eq!(dir.begin_run(&job.config).unwrap().run, 2);
        job.stop_at_checkpoints();
        let failure = job.wait().unwrap().failure.unwrap();
        assert!(failure.contains("before 1 of 3 ranks"), "{failure}");
        assert!(!failure.contains("beginning"), "{failure}");
    }

    #[test]
    fn sigterm_before_the_first_rank_stops_in_order() {
        let status_of = |signal| {
            let error = interrupted(LaunchError::Interrupted {
                status: verdict::signal_status(signal) as u8,
                name: verdict::signal_name(signal),
            });
            match error {
                LaunchError::Interrupted { status, .. } => i32::from(status),
                _ => 0,
            }
        };
        assert_eq!(status_of(SIGTERM), STOPPED);
        assert_eq!(status_of(signal_hook::consts::SIGINT), 130);
    }
}
