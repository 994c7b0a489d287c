//! The launcher's loop: poll(2), then one step for each ready descriptor.

use super::Job;
use super::ending::Phase;
use super::hosts::message::Recipient;
use super::job_dir::whole_checkpoint;
use super::lives::Lives;
use super::monitor::Monitor;
use super::outcome::Outcome;
use super::output::{GATED_BYTES_MAX, Output};
use super::progress::Progress;
use super::restarts::RestartDecision;
use super::signals::{self, Signals};
use super::sink::{Sink, Stream};
use super::start::Placement;
use super::verdict::End;
use refrain_job::JobError;
use refrain_job::output_gate::OutputGate;
use refrain_wire::HELD_BACK_RETRY;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use signal_hook::consts::SIGTSTP;
use std::time::{Duration, Instant};

/// Time between two checks of gated output.
const GATE_CHECK: Duration = Duration::from_millis(1);

/// Time for agents to receive the request to stop ranks.
const STOP_MAX: Duration = Duration::from_secs(1);

/// Owner of a polled descriptor.
#[derive(Clone, Copy, Debug)]
enum Source {
    Signals,
    Control {
        rank: usize,
    },
    Output {
        rank: usize,
        index: usize,
    },
    Input,
    End {
        rank: usize,
    },
    /// Ranks without a descriptor for their ends.
    Ends,
    LoggerEnd {
        logger: usize,
    },
    /// An agent that takes the ranks of a lost host is being started.
    NewAgent,
    Agent {
        host: usize,
    },
    AgentEnd {
        host: usize,
    },
    Metrics,
    Sink,
}

pub fn serve(job: &mut Job, timeout: Duration) -> Result<Option<Outcome>, JobError> {
    let deadline = Instant::now().checked_add(timeout);
    loop {
        if let Phase::Over { outcome } = &job.phase {
            let mut outcome = outcome.clone();
            job.settle_job_dir(&mut outcome);
            outcome.statistics = std::mem::take(&mut job.statistics);
            outcome.recoveries = job.recoveries.take_all();
            outcome.checkpoints = job.schedule.scheduler.counts();
            job.monitor_end(&outcome);
            return Ok(Some(outcome));
        }
        let has_lost = job.flush_hosts();
        let wake_at = deadline
            .into_iter()
            .chain((has_lost || job.can_take_relayed()).then(Instant::now))
            .chain(job.phase.deadline())
            .chain(job.next_gate_check())
            .chain(
                job.progress
                    .as_ref()
                    .map(Progress::next)
                    // When output is waiting, the view is drawn after the output is written.
                    .filter(|_| job.is_running() && job.out.is_empty() && job.err.is_empty()),
            )
            .chain(job.monitor.as_ref().map(Monitor::next))
            .chain(job.next_start())
            .chain(job.next_retry())
            .chain(job.next_step_of_hosts())
            .chain(job.faults.next_due().filter(|_| job.is_running()))
            .chain(job.next_checkpoint_step().filter(|_| job.is_running()))
            .min();
        let ready = job.poll(wake_at)?;
        job.step(&ready);
        let is_over = matches!(job.phase, Phase::Over { .. });
        if !is_over && deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(None);
        }
    }
}

/// The launcher's stream for a stream of a rank.
pub fn sink_of<'a>(out: &'a mut Sink, err: &'a mut Sink, stream: Stream) -> &'a mut Sink {
    match stream {
        Stream::Out => out,
        Stream::Err => err,
    }
}

impl Job {
    /// When descriptors are sent again for which too many were in flight.
    fn next_retry(&self) -> Option<Instant> {
        let is_held_back = self.ranks.iter().any(|process| process.link.is_held_back());
        is_held_back.then(|| Instant::now() + HELD_BACK_RETRY)
    }

    /// Blocks until a descriptor is ready or the time has come.
    fn poll(&self, wake_at: Option<Instant>) -> Result<Vec<Source>, JobError> {
        let (mut polled, sources) = self.interests();
        let timeout = wake_at.map(|at| at.saturating_duration_since(Instant::now()));
        // A time that the system cannot represent counts as no limit.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => {
                return Err(JobError::control("waiting for the ranks of the job", error));
            }
        }
        let polled = polled.iter().zip(sources);
        let ready = polled.filter(|(polled, _)| !polled.revents().is_empty());
        Ok(ready.map(|(_, source)| source).collect())
    }

    fn interests(&self) -> (Vec<PollFd<'_>>, Vec<Source>) {
        let mut polled = Vec::with_capacity(4 * self.ranks.len() + 3);
        let mut sources = Vec::with_capacity(polled.capacity());
        let mut add = |descriptor, events, source| {
            polled.push(PollFd::from_borrowed_fd(descriptor, events));
            sources.push(source);
        };
        if let Some(signals) = &self.signals {
            add(signals.descriptor(), PollFlags::IN, Source::Signals);
        }
        for sink in [&self.out, &self.err] {
            if !sink.is_empty() {
                add(sink.descriptor(), PollFlags::OUT, Source::Sink);
            }
        }
        if let Some(ends) = &self.child_ends {
            add(ends.descriptor(), PollFlags::IN, Source::Ends);
        }
        if let Some((descriptor, events)) = self.standard_input.interest() {
            add(descriptor, events, Source::Input);
        }
        if let Some(descriptor) = self.monitor.as_ref().and_then(Monitor::descriptor) {
            add(descriptor, PollFlags::IN, Source::Metrics);
        }
        for (logger, descriptor) in self.loggers.ends() {
            add(descriptor, PollFlags::IN, Source::LoggerEnd { logger });
        }
        if let Placement::Remote(hosts) = &self.placement {
            for (host, is_end, descriptor, events) in hosts.interests() {
                let source = match is_end {
                    true => Source::AgentEnd { host },
                    false => Source::Agent { host },
                };
                add(descriptor, events, source);
            }
            for (descriptor, events) in hosts.interests_of_moves() {
                add(descriptor, events, Source::NewAgent);
            }
        }
        for (rank, process) in self.ranks.iter().enumerate() {
            if let Some((descriptor, events)) = process.link.interest() {
                add(descriptor, events, Source::Control { rank });
            }
            for (index, output) in process.outputs.iter().enumerate() {
                let sink = match output.stream {
                    Stream::Out => &self.out,
                    Stream::Err => &self.err,
                };
                if let Some(pipe) = output.pipe().filter(|_| !sink.is_full()) {
                    add(pipe, PollFlags::IN, Source::Output { rank, index });
                }
            }
            if let Some((descriptor, events)) = process.end_descriptor() {
                add(descriptor, events, Source::End { rank });
            }
        }
        (polled, sources)
    }

    /// Handles the ready descriptors, then the consequences.
    fn step(&mut self, ready: &[Source]) {
        let mut ended = Vec::new();
        for process in self.ranks.iter_mut() {
            if process.link.is_held_back() {
                process.link.flush();
            }
        }
        for source in ready {
            match *source {
                Source::Signals => self.take_signals(),
                Source::Control { rank } => {
                    self.ranks[rank].link.flush();
                    self.hear(rank);
                }
                Source::Output { rank, index } => {
                    let process = &mut self.ranks[rank];
                    let output = &mut process.outputs[index];
                    let sink = sink_of(&mut self.out, &mut self.err, output.stream);
                    output.read(process.gate.as_ref(), sink.buffer());
                }
                Source::Input => {
                    let line = self.standard_input.advance();
                    self.say(line);
                }
                Source::End { rank } => ended.extend(self.take_end(rank).map(|end| (rank, end))),
                Source::Ends => {
                    if let Some(ends) = &mut self.child_ends {
                        ends.take();
                    }
                    let alive = |rank: &usize| self.ranks[*rank].end.is_none();
                    let alive: Vec<usize> = (0..self.ranks.len()).filter(alive).collect();
                    let ends = (alive.into_iter())
                        .filter_map(|rank| self.take_end(rank).map(|end| (rank, end)));
                    ended.extend(ends);
                }
                Source::LoggerEnd { logger } => match self.loggers.ended(logger) {
                    Ok(line) => self.say(line),
                    Err(failure) => self.fail(1, failure),
                },
                Source::Agent { host } => self.hear_agent(host),
                Source::AgentEnd { host } => self.agent_ended(host),
                Source::Metrics => self.answer_readers(),
                // Written below, with the output that has just arrived.
                Source::Sink => {}
                // Served below.
                Source::NewAgent => {}
            }
        }
        self.look_after_hosts();
        self.take_relayed();
        for rank in self.reported_ends() {
            ended.extend(self.take_end(rank).map(|end| (rank, end)));
        }
        self.introduce_asked();
        self.release_output();
        self.follow(&ended);
        if self.is_running() {
            self.start_awaited();
            self.judge_waiting();
        }
        let awaits = self.lives.iter().any(Lives::is_awaited);
        let have_ended = self.ranks.iter().all(|rank| rank.end.is_some());
        if !self.ranks.is_empty() && have_ended && !awaits {
            self.conclude();
        }
        self.keep_time();
        if self.is_running() {
            self.inject_faults();
            self.order_checkpoints();
            self.step_whole_checkpoint();
        }
        // Ends that were noticed above come after messages.
        self.introduce_asked();
        self.write_output();
        self.draw_progress();
        self.step_monitor();
    }

    /// Handles ranks that were found ended together: those that can be restarted are, unless the
    /// end of another one ends the job.
    fn follow(&mut self, ended: &[(usize, End)]) {
        let (mut again, mut judged) = (Vec::new(), Vec::new());
        for (rank, end) in ended {
            match self.decide(*rank, *end) {
                RestartDecision::Again if self.is_running() => again.push((*rank, *end)),
                RestartDecision::Again => judged.push((*rank, *end, None)),
                RestartDecision::Noted(why) => self.note_late(*rank, *end, &why),
                RestartDecision::Judged(why) => judged.push((*rank, *end, why)),
            }
        }
        self.judge(&judged);
        for (rank, end) in again {
            // Another one of its set, which ended at the same time, may not be restarted.
            match self.decide(rank, end) {
                RestartDecision::Again if self.is_running() => {
                    let ended = self.take_set_along(rank);
                    self.start_again(rank, end);
                    for (member, end) in ended {
                        self.start_again(member, end);
                    }
                }
                RestartDecision::Noted(why) => self.note_late(rank, end, &why),
                _ => {}
            }
        }
    }

    /// How a rank has ended, if it has; its earlier messages are served first.
    fn take_end(&mut self, rank: usize) -> Option<End> {
        let end = self.ranks[rank].look()?;
        self.hear(rank);
        Some(end)
    }

    /// Handles the signals that were caught.
    pub(super) fn take_signals(&mut self) {
        let signals = self.signals.as_mut();
        for number in signals.map_or_else(Vec::new, Signals::take) {
            if self.job_dir.is_some() && whole_checkpoint::is_asked_by(number) {
                self.begin_whole_checkpoint(number, true);
                continue;
            }
            if signals::ends_job(number) {
                self.end_by_signal(number);
                continue;
            }
            if let Some(signal) = Signal::from_named_raw(number) {
                let ranks = self.ranks.iter();
                ranks.for_each(|rank| rank.signal(Recipient::Group, signal));
            }
            self.faults.forgive();
            if number == SIGTSTP {
                // Agents are informed only while this process runs.
                self.flush_hosts_until(Instant::now() + STOP_MAX);
                // Stops this process; returns when it is continued.
                let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
            }
        }
    }

    /// Passes on the output whose events have become stable. GATE-1
    fn release_output(&mut self) {
        let mut too_much = None;
        let mut different = Vec::new();
        for rank in 0..self.ranks.len() {
            self.for_outputs(rank, |output, gate, out| {
                if let Some(gate) = gate {
                    output.release(gate, out);
                }
                if let Some(what) = output.too_long_without() {
                    too_much = Some((rank, what));
                }
                if output.take_difference() {
                    different.push(rank);
                }
            });
        }
        for rank in different {
            self.say(Some(format!(
                "rank {rank} printed other output than before its death: use --gate-output, and print neither times nor random numbers"
            )));
        }
        if let Some((rank, what)) = too_much {
            let most = GATED_BYTES_MAX >> 20;
            let failure = format!("rank {rank} printed more than {most} MiB without {what}");
            self.fail(1, failure);
        }
    }

    /// When gated output has to be checked again: nothing announces that events have become
    /// stable.
    fn next_gate_check(&self) -> Option<Instant> {
        let mut outputs = self.ranks.iter().flat_map(|rank| &rank.outputs);
        let is_gated = outputs.any(Output::is_gated);
        is_gated.then(|| Instant::now() + GATE_CHECK)
    }

    /// Calls `step` for each output stream of a rank, with the rank's gate and the buffer for its
    /// lines.
    pub(super) fn for_outputs(
        &mut self,
        rank: usize,
        mut step: impl FnMut(&mut Output, Option<&OutputGate>, &mut Vec<u8>),
    ) {
        let process = &mut self.ranks[rank];
        for output in &mut process.outputs {
            let sink = sink_of(&mut self.out, &mut self.err, output.stream);
            step(output, process.gate.as_ref(), sink.buffer());
        }
    }

    fn write_output(&mut self) {
        self.hide_progress();
        let (out, err) = (self.out.flush(), self.err.flush());
        if let Some(lost) = out.and(err).err() {
            self.output_closed(lost);
        }
        self.answer_marks();
        if let Phase::Flushing { outcome, .. } = &self.phase
            && self.out.is_empty()
            && self.err.is_empty()
        {
            let outcome = outcome.clone();
            self.phase = Phase::Over { outcome };
        }
    }
}
