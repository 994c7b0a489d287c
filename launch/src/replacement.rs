//! Fences a killed rank, restarts it, and informs the other ranks.

use super::link::Memory;
use super::lives::Pending;
use super::recoveries::Death;
use super::restarts::{Departure, RestartDecision, Stage};
use super::start::Placement;
use super::verdict::{End, Membership};
use super::{Job, restarts};
use refrain_job::control::message::{HELD_BYTES_MAX, ToRank};
use refrain_job::introductions::PeerState;
use refrain_logging::held::Answers;
use refrain_ring::{Incarnation, Rank};
use std::io::Write as _;
use std::time::{Duration, Instant};

/// The key under which a rank publishes its address.
pub fn address_key(rank: usize) -> String {
    format!("address/{rank}")
}

impl Job {
    /// Decides what follows from the end of a rank.
    pub(super) fn decide(&self, rank: usize, end: End) -> RestartDecision {
        let (process, lives) = (&self.ranks[rank], &self.lives[rank]);
        let protected = match self.unprotected_since {
            None => Ok(()),
            Some(full) => Err(format!(
                "rank {full} had no room left for what recoveries need, and the job has gone on unprotected since"
            )),
        };
        let departure = self.departure(rank);
        let can_go_back = protected.is_ok() && !matches!(departure, Departure::Without(_));
        if can_go_back && lives.goes_back_with_set() {
            return RestartDecision::Again;
        }
        let sequel = lives.allowance.decide(
            process.true_end(end),
            departure,
            lives.has_caught_up,
            protected,
        );
        match (sequel, lives.stage()) {
            (RestartDecision::Judged(Some(why)), Some(stage)) if lives.repeated_deaths > 0 => {
                let what = restarts::describe_repeated_deaths(
                    lives.repeated_deaths + 1,
                    stage,
                    &self.config.recovery,
                );
                RestartDecision::Judged(Some(format!("{why}; it {what}")))
            }
            (sequel, _) => sequel,
        }
    }

    /// A rank keeps no messages, or events, any more: it is said once, and no rank is restarted. LOG-7
    pub(super) fn go_on_unprotected(&mut self, rank: usize, why: &str) {
        if self.unprotected_since.is_some() {
            return;
        }
        self.unprotected_since = Some(rank);
        if self.whole_checkpoint.is_some() {
            // A checkpoint from now on would lack messages. JOB-6
            return self.stop_at_checkpoints();
        }
        self.say(Some(format!(
            "{why}; the job goes on UNPROTECTED: the death of a rank ends it (--log-full stop ends the job now)"
        )));
    }

    /// Whether a rank has passed the last fence, and whether a later life could replay.
    pub(super) fn departure(&self, rank: usize) -> Departure {
        let has_left = self.ranks[rank].membership == Membership::Left;
        let mut others = (0..self.ranks.len()).filter(|other| *other != rank);
        match (self.past_last_fence, &self.placement) {
            (false, _) if has_left => Departure::Without("not all ranks have left the job"),
            (false, _) => Departure::Ahead,
            (true, Placement::Remote(_)) => Departure::Without(
                "in a job over several hosts the logs of ranks that have left cannot be read",
            ),
            (true, Placement::Local(_)) if self.is_set_given_up(rank) => {
                Departure::Without("another rank of its set was killed and is not restarted")
            }
            (true, Placement::Local(_)) => {
                match others.all(|it| self.lives[it].last_log().is_some()) {
                    true => Departure::Behind,
                    false => Departure::Without("a rank that has left had no log memory"),
                }
            }
        }
    }

    /// Starts the next life of a rank whose process has ended, at once or after a delay. REC-1,
    /// REC-6
    pub(super) fn start_again(&mut self, rank: usize, end: End) {
        let noticed = self.ranks[rank].noticed.unwrap_or_else(Instant::now);
        let end = self.ranks[rank].true_end(end);
        // FENCE-1: before peers are informed.
        if let Err(failure) = self.ranks[rank].fence() {
            return self.fail(1, format!("rank {rank} {end} and {failure}"));
        }
        self.end_output(rank);
        // Its next life has not asked.
        self.marked.retain(|(marked, _)| *marked != rank);
        self.key_values
            .forget(rank, &[address_key(rank)], self.is_remote());
        let incarnation = self.lives[rank].incarnation;
        let down = ToRank::Down {
            rank: rank as u32,
            incarnation,
        };
        // After the last fence ranks do not communicate.
        if !self.past_last_fence {
            let size = self.ranks.len();
            let survivors = (self.introductions).after_death(|it| self.peer_state(it), rank, size);
            for other in &survivors {
                self.tell(*other, &down, None);
            }
            let survivors = survivors.into_iter().map(|other| Rank(other as u32));
            let of = (Rank(rank as u32), Incarnation(incarnation));
            let told = self.losses.died(of.0, of.1, survivors);
            if let Err(gone) = told {
                return self.lose_events(rank, end, &gone);
            }
            self.give_events();
        }
        let lives = &mut self.lives[rank];
        if !lives.goes_back_with_set() {
            lives.allowance.spend(end, lives.has_caught_up);
        }
        let (shot, cause) = (lives.shot, lives.cause(end));
        let stage = lives.stage();
        lives.next_life();
        // A rank that the launcher has killed is restarted without a delay.
        let wait = shot.map_or_else(
            || restarts::delay(lives.repeated_deaths),
            |_| Duration::ZERO,
        );
        lives.pending = Some(Pending {
            start_at: Instant::now() + wait,
            death: Death {
                incarnation,
                end,
                cause,
                killed: shot.map(|shot| shot.at),
                noticed,
            },
        });
        self.schedule.scheduler.died(rank);
        self.ranks[rank].link.close();
        if let Some(stage) = stage {
            self.report_repeated_deaths(rank, stage, wait);
        }
        if wait.is_zero() && self.can_start_next(rank) {
            self.start_next(rank);
        }
    }

    /// More ranks are gone at once than the protocol survives. TICKET-4
    fn lose_events(&mut self, rank: usize, end: End, gone: &[Rank]) {
        let gone: Vec<_> = gone.iter().map(Rank::to_string).collect();
        self.fail(
            1,
            format!(
                "rank {rank} {end}; ranks {} are gone at once, and with --protocol {} their events may be lost: it survives {} at a time (--causal-f), and another one only when all ranks have given away again what the dead rank held; pessimist survives any number",
                gone.join(" and "),
                self.config.protocol,
                self.deaths_at_a_time(),
            ),
        );
    }

    fn deaths_at_a_time(&self) -> String {
        let recovery = &self.config.recovery;
        let failures = recovery.failures_at_once.unwrap_or(1);
        let what = match (recovery.set_of_rank.is_empty(), failures) {
            (true, 1) => "death",
            (true, _) => "deaths",
            (false, 1) => "death of a set",
            (false, _) => "deaths of sets",
        };
        format!("{failures} {what}")
    }

    /// Gives the events that other ranks hold to the next lives that wait for them. TICKET-2
    pub(super) fn give_events(&mut self) {
        while let Some(Answers { rank, held }) = self.losses.next_answers() {
            let rank = rank.index();
            for (holder, bytes) in &held {
                let parts = bytes.chunks(HELD_BYTES_MAX);
                let last = parts.len();
                for (part, number) in parts.zip(1..) {
                    let part = ToRank::Held {
                        holder: holder.0,
                        part: part.to_vec(),
                        is_last: number == last,
                    };
                    self.tell(rank, &part, None);
                }
            }
            self.tell(rank, &ToRank::AllHeld, None);
        }
    }

    /// Reports a rank that has died several times before it had caught up: how much was replayed,
    /// and which option would help.
    fn report_repeated_deaths(&mut self, rank: usize, stage: Stage, wait: Duration) {
        let deaths = self.lives[rank].repeated_deaths;
        if restarts::is_reported(deaths) {
            let what = restarts::describe_repeated_deaths(deaths, stage, &self.config.recovery);
            let mut line = format!("rank {rank} {what}");
            if !wait.is_zero() {
                let wait = wait.as_secs_f64();
                line += &format!(
                    ". It is restarted after {wait:.1} s, and later after each such death"
                );
            }
            self.say(Some(line));
        }
    }

    /// Starts the next lives that are due.
    pub(super) fn start_awaited(&mut self) {
        let now = Instant::now();
        for rank in 0..self.ranks.len() {
            let pending = self.lives[rank].pending.as_ref();
            let is_due = pending.is_some_and(|pending| pending.start_at <= now);
            if is_due && self.can_start_next(rank) {
                self.start_next(rank);
            }
        }
    }

    /// Whether the next life of a rank may be started now: its set has ended, and its host is not
    /// lost.
    fn can_start_next(&self, rank: usize) -> bool {
        let has_host = match &self.placement {
            Placement::Local(_) => true,
            Placement::Remote(hosts) => hosts.has_agent(rank),
        };
        has_host && self.has_whole_set_ended(rank)
    }

    /// When the next of the lives that wait for their start is to be started.
    pub(super) fn next_start(&self) -> Option<Instant> {
        let lives = self.lives.iter().enumerate();
        let pending = lives.filter_map(|(rank, it)| Some((rank, it.pending.as_ref()?)));
        let ready = pending.filter(|(rank, _)| self.can_start_next(*rank));
        ready.map(|(_, pending)| pending.start_at).min()
    }

    fn start_next(&mut self, rank: usize) {
        let Some(pending) = self.lives[rank].pending.take() else {
            return;
        };
        let next = self.lives[rank].incarnation;
        if let Some(dir) = &mut self.job_dir
            && let Err(error) = dir.will_start(next)
        {
            return self.fail(1, error.to_string());
        }
        // Until now the outputs belonged to the dead life, since the job might have ended.
        let outputs = std::mem::take(&mut self.ranks[rank].outputs);
        match self.start_life(rank as u32, next, outputs) {
            Ok(process) => self.ranks[rank] = process,
            Err(error) => {
                let end = pending.death.end;
                return self.fail(
                    1,
                    format!("rank {rank} {end} and cannot be restarted: {error}"),
                );
            }
        }
        let now = Instant::now();
        self.lives[rank].started = now;
        let line = self.recoveries.started(rank, pending.death, now);
        // From the second death in a row `report_repeated_deaths` reports them.
        if self.lives[rank].repeated_deaths < 2 {
            self.say_of(rank, line);
        }
    }

    /// Reads what a dead life has left in its pipes.
    pub(super) fn end_output(&mut self, rank: usize) {
        self.for_outputs(rank, |output, gate, out| output.end_life(gate, out));
        self.ranks[rank].gate = None;
    }

    /// A later life has begun: its output is passed on from now on.
    pub(super) fn begin_life(&mut self, rank: usize, checkpoint: u64) -> Result<(), String> {
        let lives = &self.lives[rank];
        if let (true, 0, Some((lost, _))) = (lives.has_moved, checkpoint, lives.checkpoint) {
            return Err(format!(
                "was started again on another host, where its checkpoint {lost} is missing, and other ranks no longer keep the messages before it: name a folder that all hosts share, or a checkpoint server, with --checkpoint-dir"
            ));
        }
        self.lives[rank].begin();
        if checkpoint > 0 {
            // Of an earlier run of the job.
            let known = &mut self.lives[rank].checkpoint;
            known.get_or_insert((checkpoint, Instant::now()));
        }
        let mut begun = Ok(());
        self.for_outputs(rank, |output, gate, out| {
            begun = begun
                .clone()
                .and_then(|()| output.begin(checkpoint, gate, out));
        });
        begun
    }

    /// All output of a rank up to now comes before a checkpoint.
    pub(super) fn mark_output(&mut self, rank: usize, checkpoint: u64) {
        self.for_outputs(rank, |output, gate, out| output.mark(checkpoint, gate, out));
    }

    /// Answers marks of output when all output before them is written: after a kill of this process a
    /// later run begins behind them. JOB-5
    pub(super) fn answer_marks(&mut self) {
        if self.marked.is_empty() || !self.out.is_written() || !self.err.is_written() {
            return;
        }
        for (rank, checkpoint) in std::mem::take(&mut self.marked) {
            if let Err(failure) = self.store_mark(rank) {
                return self.fail(1, failure);
            }
            self.tell(rank, &ToRank::Marked(checkpoint), None);
        }
    }

    fn store_mark(&mut self, rank: usize) -> Result<(), String> {
        let streams = self.output_to_save(rank);
        let Some(dir) = &mut self.job_dir else {
            return Ok(());
        };
        if let Some(full) = self.unprotected_since {
            // JOB-6: its checkpoint lacks messages that others may need.
            let why = format!(
                "rank {full} had no room left for what recoveries need, and the job has gone on unprotected since"
            );
            dir.lose(&why).map_err(|error| error.to_string())?;
        }
        dir.save_output(rank, streams).map_err(|error| {
            let path = dir.path().display();
            format!("--job-dir {path}: the position of the output of rank {rank} cannot be written: {error}")
        })
    }

    /// Informs a rank that has joined of the memory of its earlier lives, and after the last fence
    /// of the logs of its peers.
    pub(super) fn introduce_joined(&mut self, rank: usize) {
        for (incarnation, memory) in self.lives[rank].remains() {
            self.tell(rank, &ToRank::Remains(incarnation), Some(memory));
        }
        if self.past_last_fence {
            self.hand_over_logs(rank);
        }
    }

    /// Whether a life of `rank` communicates with `other`: after the last fence only with its set. SET-5
    fn meets(&self, rank: usize, other: usize) -> bool {
        let set = || self.rounds.members(Rank(rank as u32));
        !self.past_last_fence || set().contains(&Rank(other as u32))
    }

    /// Passes the logs of all ranks that it does not meet to a rank. REC-3
    fn hand_over_logs(&mut self, rank: usize) {
        for other in self.introductions.of(rank, self.ranks.len()) {
            if !self.meets(rank, other)
                && let Some((incarnation, memory)) = self.lives[other].last_log()
            {
                let departed = ToRank::Departed {
                    rank: other as u32,
                    incarnation,
                };
                self.tell(rank, &departed, Some(memory));
            }
        }
    }

    /// A rank has put its address: peers that wait for it are informed.
    pub(super) fn introduce_address(&mut self, rank: usize) {
        let segment = self
            .key_values
            .entry(&address_key(rank))
            .and_then(|entry| entry.memory.clone());
        // The log of the life that passed the last fence is whole, and other ranks may need it.
        let is_kept = self.restarts_ranks() && !self.past_last_fence;
        self.lives[rank].put_address(segment.filter(|_| is_kept));
        let size = self.ranks.len();
        let told = (self.introductions).after_address(|it| self.peer_state(it), rank, size);
        for (who, of) in told {
            self.tell_up(who, of);
        }
    }

    /// `rank` has something to send to `other` for the first time: both are told at the end of this turn.
    pub(super) fn will_introduce(&mut self, rank: usize, other: u32) -> Result<(), String> {
        let size = self.ranks.len();
        let other = other as usize;
        if other >= size {
            return Err(format!("asked for rank {other} in a job of {size} ranks"));
        }
        if self.past_last_fence {
            let has_left = self.ranks[rank].membership == Membership::Left;
            return match has_left || self.introductions.have_met(rank, other) {
                true => Ok(()),
                // It would wait for ever. REC-8
                false => Err(format!(
                    "sends to rank {other}, to which its earlier lives have sent nothing: its program does not do the same again"
                )),
            };
        }
        if rank != other && !self.introductions.have_met(rank, other) {
            let (one, other) = (rank.min(other), rank.max(other));
            self.unmet.push((one as u32, other as u32));
        }
        Ok(())
    }

    /// Introduces the ranks that have asked since the last call, when their pairs are stored. JOB-8
    pub(super) fn introduce_asked(&mut self) {
        if self.unmet.is_empty() || !self.is_running() {
            return;
        }
        let mut pairs = std::mem::take(&mut self.unmet);
        pairs.sort_unstable();
        pairs.dedup();
        if let Some(dir) = &mut self.job_dir {
            match dir.store_pairs(&pairs) {
                Ok(line) => self.say(line),
                Err(error) => return self.fail(1, error.to_string()),
            }
        }
        for (one, other) in pairs {
            let (one, other) = (one as usize, other as usize);
            let states = [self.peer_state(one), self.peer_state(other)];
            let state = |it| states[usize::from(it != one)];
            for (who, of) in self.introductions.introduce(state, (one, other)) {
                self.tell_up(who, of);
            }
        }
    }

    fn tell_up(&mut self, who: usize, of: usize) {
        let entry = self.key_values.entry(&address_key(of)).cloned();
        let Some(entry) = entry.filter(|_| self.meets(who, of)) else {
            return;
        };
        let up = ToRank::Up {
            rank: of as u32,
            incarnation: self.lives[of].incarnation,
            card: entry.value,
            memory: entry.memory.is_some(),
        };
        self.tell(who, &up, entry.memory);
    }

    pub(super) fn tell(&mut self, who: usize, message: &ToRank, memory: Option<Memory>) {
        if let Err(error) = self.ranks[who].link.send(message, memory) {
            let failure = format!("a message to rank {who} about another rank failed: {error}");
            self.fail(1, failure);
        }
    }

    /// Whether ranks are restarted at all.
    pub(super) fn restarts_ranks(&self) -> bool {
        self.config.recovery.max_restarts > 0
    }

    /// Prints a line about a rank, within the rate limit.
    pub(super) fn say_of(&mut self, rank: usize, line: Option<String>) {
        let line = line.and_then(|line| self.rate_limits[rank].pass(line, Instant::now()));
        self.say(line);
    }

    /// Prints the number of omitted lines about each rank.
    pub(super) fn report_omitted_lines(&mut self) {
        for rank in 0..self.rate_limits.len() {
            let omitted = self.rate_limits[rank].take_omitted();
            if omitted > 0 {
                let line = format!("{omitted} lines about rank {rank} were omitted");
                self.say(Some(line));
            }
        }
    }

    /// Prints a message of the launcher.
    pub(super) fn say(&mut self, line: Option<String>) {
        if let Some(line) = line {
            let _ = writeln!(self.err.buffer(), "refrain: {line}");
        }
    }

    fn peer_state(&self, rank: usize) -> PeerState {
        let process = &self.ranks[rank];
        PeerState {
            is_member: process.membership == Membership::Member && process.end.is_none(),
            has_address: self.lives[rank].has_address,
        }
    }

    fn is_remote(&self) -> bool {
        matches!(self.placement, Placement::Remote(_))
    }
}
