//! A rank that was killed is fenced and started again, and the others are told.

use super::Job;
use super::introductions::{self, Standing};
use super::memory::Memory;
use super::restarting::{self, Sequel};
use super::verdict::{End, Membership};
use crate::control::message::ToRank;
use std::io::Write as _;
use std::time::Instant;

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
    pub(super) fn sequel(&self, rank: usize, end: End) -> Sequel {
        let (process, lives) = (&self.ranks[rank], &self.lives[rank]);
        lives.allowance.sequel(
            process.true_end(end),
            process.membership,
            lives.has_caught_up,
        )
    }

    /// Starts a rank again whose process has ended. REC-1, REC-6
    pub(super) fn start_again(&mut self, rank: usize, end: End) {
        let noticed = self.ranks[rank].noticed.unwrap_or_else(Instant::now);
        let end = self.ranks[rank].true_end(end);
        // FENCE-1: before anybody is told.
        if let Err(failure) = self.ranks[rank].fence() {
            return self.fail(
                1,
                format!("rank {rank} {} and {failure}", restarting::how(end)),
            );
        }
        self.end_output(rank);
        self.board.forget(rank, &[address_key(rank), far_key(rank)]);
        let incarnation = self.lives[rank].incarnation;
        let down = ToRank::Down {
            rank: rank as u32,
            incarnation,
        };
        for other in introductions::after_death(&self.standings(), rank) {
            self.tell(other, &down, None);
        }
        let lives = &mut self.lives[rank];
        lives.allowance.spend(end, lives.has_caught_up);
        let (shot, cause) = (lives.shot, lives.likely_cause(signal_of(end)));
        lives.next_life();
        self.schedule.scheduler.died(rank);
        let outputs = std::mem::take(&mut self.ranks[rank].outputs);
        match self.start_life(rank as u32, self.lives[rank].incarnation, outputs) {
            Ok(process) => self.ranks[rank] = process,
            Err(error) => {
                let how = restarting::how(end);
                return self.fail(
                    1,
                    format!("rank {rank} {how} and cannot be started again: {error}"),
                );
            }
        }
        let times = (noticed, Instant::now());
        let line = self
            .recoveries
            .started((rank, incarnation), end, shot, cause, times);
        self.say(line);
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
        for other in introductions::after_welcome(&self.standings(), rank) {
            self.tell_up(rank, other);
        }
    }

    /// A rank has put its address: it is introduced to those who wait for it.
    pub(super) fn introduce_address(&mut self, rank: usize) {
        let segment = self
            .board
            .entry(&address_key(rank))
            .and_then(|entry| entry.memory.clone());
        let is_kept = self.restarts_ranks();
        self.lives[rank].put_address(segment.filter(|_| is_kept));
        // Also when it is put again: then with the part for other hosts.
        for (who, of) in introductions::after_address(&self.standings(), rank) {
            self.tell_up(who, of);
        }
    }

    fn tell_up(&mut self, who: usize, of: usize) {
        let Some(entry) = self.board.entry(&address_key(of)).cloned() else {
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
            self.fail(1, format!("rank {who} cannot be told of another: {error}"));
        }
    }

    /// Whether ranks may be started again at all.
    pub(super) fn restarts_ranks(&self) -> bool {
        self.config.recovery.max_restarts > 0
    }

    /// A line of the launcher's own.
    pub(super) fn say(&mut self, line: Option<String>) {
        if let Some(line) = line {
            let _ = writeln!(self.err.buffer(), "refrain: {line}");
        }
    }

    fn standings(&self) -> Vec<Standing> {
        let standing = |(process, lives): (&super::RankProcess, &super::Lives)| Standing {
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
