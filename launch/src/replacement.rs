//! Fences a killed rank, starts it again, and informs the other ranks.
//!
//! A first incarnation asks for the addresses of its peers and is informed of later
//! incarnations only, so that it knows which one an address belongs to. A later incarnation
//! asks for nothing: after it has put its own address, it is informed of all peers that have
//! one, and of each that follows.

use super::link::Memory;
use super::lives::Pending;
use super::recoveries::Cause;
use super::restarts::Stage;
use super::restarts::{Departure, RestartDecision};
use super::start::Placement;
use super::verdict::{End, Membership};
use super::{Job, restarts};
use refrain_job::control::message::ToRank;
use std::io::Write as _;
use std::time::{Duration, Instant};

/// The key of a rank's address.
pub fn address_key(rank: usize) -> String {
    format!("address/{rank}")
}

/// That of its address for ranks on other hosts, where a job has any.
fn far_key(rank: usize) -> String {
    format!("far/{rank}")
}

impl Job {
    /// What follows from the end of a rank.
    pub(super) fn decide(&self, rank: usize, end: End) -> RestartDecision {
        let (process, lives) = (&self.ranks[rank], &self.lives[rank]);
        let sequel = lives.allowance.decide(
            process.true_end(end),
            self.departure(rank),
            lives.has_caught_up,
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

    /// Where the last fence is for a rank.
    pub(super) fn departure(&self, rank: usize) -> Departure {
        let has_left = self.ranks[rank].membership == Membership::Left;
        let mut others = (0..self.ranks.len()).filter(|other| *other != rank);
        match (self.past_last_fence, &self.placement) {
            (false, _) if has_left => Departure::Without("not all ranks have left the job"),
            (false, _) => Departure::Ahead,
            (true, Placement::Remote(_)) => Departure::Without(
                "in a job over several hosts the logs of ranks that have left cannot be read",
            ),
            (true, Placement::Local(_)) => {
                match others.all(|it| self.lives[it].last_log().is_some()) {
                    true => Departure::Behind,
                    false => Departure::Without("a rank that has left had no log memory"),
                }
            }
        }
    }

    /// Starts a rank again whose process has ended. REC-1, REC-6
    pub(super) fn start_again(&mut self, rank: usize, end: End) {
        let noticed = self.ranks[rank].noticed.unwrap_or_else(Instant::now);
        let end = self.ranks[rank].true_end(end);
        // FENCE-1: before peers are informed.
        if let Err(failure) = self.ranks[rank].fence() {
            return self.fail(1, format!("rank {rank} {end} and {failure}"));
        }
        self.end_output(rank);
        self.key_values
            .forget(rank, &[address_key(rank), far_key(rank)]);
        let incarnation = self.lives[rank].incarnation;
        let down = ToRank::Down {
            rank: rank as u32,
            incarnation,
        };
        // After the last fence ranks do not communicate.
        if !self.past_last_fence {
            for other in after_death(&self.peer_states(), rank) {
                self.tell(other, &down, None);
            }
        }
        let lives = &mut self.lives[rank];
        lives.allowance.spend(end, lives.has_caught_up);
        let (shot, cause) = (lives.shot, lives.likely_cause(signal_of(end)));
        let stage = lives.stage();
        lives.next_life();
        // A rank that the launcher killed by its own options is started again at once.
        let wait = shot.map_or_else(
            || restarts::delay(lives.repeated_deaths),
            |_| Duration::ZERO,
        );
        lives.pending = Some(Pending {
            start_at: Instant::now() + wait,
            incarnation,
            end,
            shot,
            cause,
            noticed,
        });
        self.schedule.scheduler.died(rank);
        self.ranks[rank].link.close();
        if let Some(stage) = stage {
            self.report_repeated_deaths(rank, stage, wait);
        }
        if wait.is_zero() {
            self.start_next(rank);
        }
    }

    /// Reports a rank that dies again and again before it has caught up: how much it
    /// replayed, and which option would help.
    fn report_repeated_deaths(&mut self, rank: usize, stage: Stage, wait: Duration) {
        let deaths = self.lives[rank].repeated_deaths;
        if restarts::is_reported(deaths) {
            let what = restarts::describe_repeated_deaths(deaths, stage, &self.config.recovery);
            let wait = match wait.as_secs_f64() {
                0.0 => String::new(),
                wait => {
                    format!(". It is restarted after {wait:.1} s, and later after each such death")
                }
            };
            self.say(Some(format!("rank {rank} {what}{wait}")));
        }
    }

    /// Starts the next lives for which it is time.
    pub(super) fn start_awaited(&mut self) {
        let now = Instant::now();
        for rank in 0..self.ranks.len() {
            let pending = self.lives[rank].pending.as_ref();
            if pending.is_some_and(|pending| pending.start_at <= now) {
                self.start_next(rank);
            }
        }
    }

    /// When the next life that is awaited is to be started.
    pub(super) fn next_start(&self) -> Option<Instant> {
        let pending = self.lives.iter().filter_map(|it| it.pending.as_ref());
        pending.map(|pending| pending.start_at).min()
    }

    fn start_next(&mut self, rank: usize) {
        let Some(pending) = self.lives[rank].pending.take() else {
            return;
        };
        let next = self.lives[rank].incarnation;
        // Until now they stayed with the dead life: the job may end meanwhile.
        let outputs = std::mem::take(&mut self.ranks[rank].outputs);
        match self.start_life(rank as u32, next, outputs) {
            Ok(process) => self.ranks[rank] = process,
            Err(error) => {
                let end = pending.end;
                return self.fail(
                    1,
                    format!("rank {rank} {end} and cannot be restarted: {error}"),
                );
            }
        }
        let now = Instant::now();
        self.lives[rank].started = now;
        let line = self.recoveries.started(
            (rank, pending.incarnation),
            pending.end,
            pending.shot,
            pending.cause,
            (pending.noticed, now),
        );
        // From the second death in a row `report_repeated_deaths` reports them.
        if self.lives[rank].repeated_deaths < 2 {
            self.say_of(rank, line);
        }
    }

    /// Takes what a dead life has left in its pipes.
    fn end_output(&mut self, rank: usize) {
        let process = &mut self.ranks[rank];
        for output in &mut process.outputs {
            let sink = super::serve::sink_of(&mut self.out, &mut self.err, output.stream);
            output.end_life(process.gate.as_ref(), sink.buffer());
        }
        process.gate = None;
    }

    /// A later life says where it begins: its output is read from now on.
    pub(super) fn begin_life(&mut self, rank: usize, checkpoint: u64) -> Result<(), String> {
        self.lives[rank].begin();
        let process = &mut self.ranks[rank];
        for output in &mut process.outputs {
            let sink = super::serve::sink_of(&mut self.out, &mut self.err, output.stream);
            output.begin(checkpoint, process.gate.as_ref(), sink.buffer())?;
        }
        Ok(())
    }

    /// All output of a rank up to now lies before a checkpoint.
    pub(super) fn mark_output(&mut self, rank: usize, checkpoint: u64) {
        let process = &mut self.ranks[rank];
        for output in &mut process.outputs {
            let sink = super::serve::sink_of(&mut self.out, &mut self.err, output.stream);
            output.mark(checkpoint, process.gate.as_ref(), sink.buffer());
        }
    }

    /// A rank has joined: what is left of the lives before, and who lives a later
    /// life already.
    pub(super) fn introduce_joined(&mut self, rank: usize) {
        for (incarnation, memory) in self.lives[rank].remains() {
            self.tell(rank, &ToRank::Remains { incarnation }, Some(memory));
        }
        if self.past_last_fence {
            return self.hand_over_logs(rank);
        }
        for other in after_welcome(&self.peer_states(), rank) {
            self.tell_up(rank, other);
        }
    }

    /// What all others have sent, for a rank that meets none of them. REC-3
    fn hand_over_logs(&mut self, rank: usize) {
        for other in (0..self.ranks.len()).filter(|other| *other != rank) {
            if let Some((incarnation, memory)) = self.lives[other].last_log() {
                let departed = ToRank::Departed {
                    rank: other as u32,
                    incarnation,
                };
                self.tell(rank, &departed, Some(memory));
            }
        }
    }

    /// A rank has put its address: it is introduced to those who wait for it.
    pub(super) fn introduce_address(&mut self, rank: usize) {
        let segment = self
            .key_values
            .entry(&address_key(rank))
            .and_then(|entry| entry.memory.clone());
        let is_kept = self.restarts_ranks();
        self.lives[rank].put_address(segment.filter(|_| is_kept));
        // Also when it is put again: then with the part for other hosts.
        for (who, of) in after_address(&self.peer_states(), rank) {
            self.tell_up(who, of);
        }
    }

    fn tell_up(&mut self, who: usize, of: usize) {
        let Some(entry) = self.key_values.entry(&address_key(of)).cloned() else {
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
            self.fail(
                1,
                format!("a message to rank {who} about another rank failed: {error}"),
            );
        }
    }

    /// Whether ranks may be started again at all.
    pub(super) fn restarts_ranks(&self) -> bool {
        self.config.recovery.max_restarts > 0
    }

    /// A line about a rank, unless there were many.
    pub(super) fn say_of(&mut self, rank: usize, line: Option<String>) {
        let line = line.and_then(|line| self.rate_limits[rank].pass(line, Instant::now()));
        self.say(line);
    }

    /// Prints how many lines about each rank were left out.
    pub(super) fn tell_untold(&mut self) {
        for rank in 0..self.rate_limits.len() {
            let unsaid = self.rate_limits[rank].take_unsaid();
            if unsaid > 0 {
                self.say(Some(format!(
                    "{unsaid} lines about rank {rank} were omitted"
                )));
            }
        }
    }

    /// Why a rank was killed, as far as is known.
    pub(super) fn cause(&self, rank: usize, end: End) -> Cause {
        let lives = &self.lives[rank];
        match lives.shot {
            Some(shot) => shot.cause,
            None => lives.likely_cause(signal_of(end)),
        }
    }

    /// A line of the launcher's own.
    pub(super) fn say(&mut self, line: Option<String>) {
        if let Some(line) = line {
            let _ = writeln!(self.err.buffer(), "refrain: {line}");
        }
    }

    fn peer_states(&self) -> Vec<PeerState> {
        let standing = |(process, lives): (&super::RankProcess, &super::Lives)| PeerState {
            incarnation: lives.incarnation,
            is_member: process.membership == Membership::Member && process.end.is_none(),
            has_address: lives.has_address,
        };
        self.ranks.iter().zip(&self.lives).map(standing).collect()
    }
}

fn signal_of(end: End) -> i32 {
    match end {
        End::Killed(signal) => signal,
        End::Exited(_) => 0,
    }
}

/// A rank, as far as that matters here.
#[derive(Clone, Copy, Debug)]
pub struct PeerState {
    /// Which life runs.
    pub incarnation: u32,
    /// It has joined the job and not left it.
    pub is_member: bool,
    /// It has put its address.
    pub has_address: bool,
}

impl PeerState {
    /// Whether this rank is informed when `other` can be reached.
    fn hears_of(&self, other: &PeerState) -> bool {
        let is_waiting = if self.incarnation == 0 {
            other.incarnation > 0
        } else {
            self.has_address
        };
        self.is_member && other.has_address && is_waiting
    }
}

/// After `rank` has put its address: pairs of a rank to inform and the reachable peer.
pub fn after_address(ranks: &[PeerState], rank: usize) -> Vec<(usize, usize)> {
    let own = &ranks[rank];
    let others = || (0..ranks.len()).filter(|other| *other != rank);
    let told_of_it = others().filter(|other| ranks[*other].hears_of(own));
    let hears = others().filter(|other| own.incarnation > 0 && own.hears_of(&ranks[*other]));
    told_of_it
        .map(|other| (other, rank))
        .chain(hears.map(|other| (rank, other)))
        .collect()
}

/// After `rank` has joined: the peers that it is informed of.
pub fn after_welcome(ranks: &[PeerState], rank: usize) -> Vec<usize> {
    (0..ranks.len())
        .filter(|other| *other != rank && ranks[rank].hears_of(&ranks[*other]))
        .collect()
}

/// After the death of `rank`: the peers that are informed.
pub fn after_death(ranks: &[PeerState], rank: usize) -> Vec<usize> {
    (0..ranks.len())
        .filter(|other| *other != rank && ranks[*other].is_member)
        .collect()
}

#[cfg(test)]
mod peer_tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// What happens to one rank.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Join,
        PutAddress,
        Die,
    }

    /// A job, and what its ranks know of each other: by (who, of whom) the life.
    struct Played {
        ranks: Vec<PeerState>,
        known: HashMap<(usize, usize), u32>,
    }

    impl Played {
        fn new(ranks: usize) -> Self {
            let standing = PeerState {
                incarnation: 0,
                is_member: false,
                has_address: false,
            };
            Self {
                ranks: vec![standing; ranks],
                known: HashMap::new(),
            }
        }

        fn tell(&mut self, who: usize, of: usize) {
            let life = self.ranks[of].incarnation;
            let before = self.known.insert((who, of), life);
            assert_ne!(
                before,
                Some(life),
                "the launcher reports {of} to {who} once"
            );
        }

        fn step(&mut self, rank: usize, step: Step) {
            let standing = self.ranks[rank];
            match step {
                Step::Join if !standing.is_member => {
                    self.ranks[rank].is_member = true;
                    for other in after_welcome(&self.ranks, rank) {
                        self.tell(rank, other);
                    }
                }
                Step::PutAddress if standing.is_member && !standing.has_address => {
                    self.ranks[rank].has_address = true;
                    for (who, of) in after_address(&self.ranks, rank) {
                        self.tell(who, of);
                    }
                }
                Step::Die => {
                    self.known.retain(|(who, _), _| *who != rank);
                    self.ranks[rank] = PeerState {
                        incarnation: standing.incarnation + 1,
                        is_member: false,
                        has_address: false,
                    };
                }
                _ => {}
            }
        }
    }

    proptest! {
        // REC-6
        #[test]
        fn a_rank_with_an_address_is_known_to_all_that_wait_for_it(
            steps in prop::collection::vec(
                (0usize..4, prop::sample::select(vec![Step::Join, Step::PutAddress, Step::PutAddress, Step::Die])),
                0..80,
            ),
        ) {
            let mut played = Played::new(4);
            for (rank, step) in steps {
                played.step(rank, step);
                for (who, of) in (0..4).flat_map(|who| (0..4).map(move |of| (who, of))) {
                    let (one, other) = (played.ranks[who], played.ranks[of]);
                    let knows = played.known.get(&(who, of)) == Some(&other.incarnation);
                    let is_first = one.incarnation == 0;
                    if who == of || !one.is_member || !other.has_address {
                        continue;
                    }
                    // A first life asks; it has to know the life of what it gets.
                    let must = is_first && other.incarnation > 0 || !is_first && one.has_address;
                    prop_assert_eq!(knows, must, "{} of {}", who, of);
                }
            }
        }
    }

    #[test]
    fn a_death_is_told_to_members_alone() {
        let mut played = Played::new(3);
        played.step(1, Step::Join);
        assert_eq!(after_death(&played.ranks, 0), [1]);
        assert_eq!(after_death(&played.ranks, 1), [0usize; 0]);
    }
}
