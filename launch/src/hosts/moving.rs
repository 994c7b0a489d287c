//! The ranks of a lost host start again on another one: a spare host, or one that has ranks already.
//!
//! A new agent gets the ranks of the lost one. They count as dead only when the lease of the lost agent
//! is over, since the host may be alive. FENCE-2

use super::beginning::share_cores;
use super::gathering::{Gathering, Placed};
use super::lease::{LeaseLength, SILENT_LOOKS};
use super::listing::{HostSlots, HostsSpec};
use super::message::{Setup, ToAgent};
use super::{Host, Hosts};
use crate::Job;
use crate::boot_clock::since_boot;
use crate::error::LaunchError;
use crate::outcome::HOST_LOST;
use crate::recoveries::Shot;
use crate::start::Placement;
use crate::verdict::Cause;
use refrain_job::JobError;
use rustix::event::PollFlags;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// A lost host, and the agent that takes its ranks.
#[derive(Debug)]
pub(super) struct Move {
    /// Index of the lost host in [`Hosts`].
    from: usize,
    lost_at: Instant,
    /// When its ranks run no more, since boot. FENCE-2
    fenced_at: Duration,
    /// Index of the new host in the list of hosts.
    to: usize,
    /// `None`: the new agent could not be started.
    gathering: Option<Gathering>,
    /// The new agent is ready.
    is_ready: bool,
}

/// The host for the ranks of a lost one: the first with the fewest ranks. `ranks_at` has the number of
/// ranks on a host; `None`: it is not to be used.
fn choose(hosts: &[HostSlots], ranks_at: impl Fn(usize) -> Option<usize>) -> Option<usize> {
    let is_first = |place: &usize| {
        let name = &hosts[*place].name;
        hosts[..*place].iter().all(|earlier| earlier.name != *name)
    };
    let places = (0..hosts.len()).filter(is_first);
    let usable = places.filter_map(|place| Some((ranks_at(place)?, place)));
    usable.min().map(|(_, place)| place)
}

impl Hosts {
    /// The host that is to take the ranks of a lost one.
    fn choose_place(&self) -> Option<usize> {
        choose(&self.spec.hosts, |place| {
            let here = self.hosts.iter().filter(|host| host.placed.place == place);
            let coming = self.moves.iter().filter(|it| it.to == place);
            let coming = coming.map(|it| self.hosts[it.from].placed.ranks.len());
            let is_lost = self.lost_places.contains(&place);
            let ranks = here.filter(|host| !host.is_lost());
            let ranks = ranks.map(|host| host.placed.ranks.len());
            (!is_lost).then(|| ranks.chain(coming).sum())
        })
    }

    /// Begins to start the ranks of a lost host elsewhere. Returns the other host's name; `None`: no
    /// host is left.
    pub(super) fn begin_move(&mut self, from: usize) -> Option<String> {
        self.lost_places.push(self.hosts[from].placed.place);
        let to = self.choose_place()?;
        let grant = self.hosts[from].grant.as_ref()?;
        self.moves.push(Move {
            from,
            lost_at: Instant::now(),
            fenced_at: grant.is_fenced_at(),
            to,
            gathering: None,
            is_ready: false,
        });
        Some(self.spec.hosts[to].name.clone())
    }

    /// The job as the agent gets it that takes the ranks of a lost host.
    fn setup_after(&self, lost: &Host) -> Setup {
        let mut setup = self.setup.clone();
        // A later life holds the log of an earlier one, and reads its checkpoints.
        setup.config.log_memory_bytes = lost.config.log_memory_bytes;
        let prefix = &lost.config.recovery.checkpoint_prefix;
        setup.config.recovery.checkpoint_prefix.clone_from(prefix);
        setup
    }

    /// Serves the new agent of a move. `true`: it is ready.
    fn step_move(&mut self, index: usize) -> Result<bool, LaunchError> {
        let of = &self.moves[index];
        if of.gathering.is_none() {
            let lost = &self.hosts[of.from];
            let placed = Placed {
                place: of.to,
                // Loggers do not move: ranks keep their addresses.
                is_for_services: false,
                ..lost.placed.clone()
            };
            let setup = self.setup_after(lost);
            let started = Gathering::start(&self.spec, setup, vec![placed], None)?;
            self.moves[index].gathering = Some(started);
        }
        match &mut self.moves[index].gathering {
            Some(gathering) => gathering.step(),
            None => Ok(false),
        }
    }

    /// Ends a move: the ranks belong to the new host now.
    fn finish_move(&mut self, index: usize) -> Result<(), LaunchError> {
        let Move { gathering, .. } = &mut self.moves[index];
        let Some(gathering) = gathering.take() else {
            return Ok(());
        };
        let (new, _) = gathering.finish()?;
        let fabric = self.fabric()?;
        for host in new {
            if host.config.fabric != fabric {
                return Err(JobError::Config(format!(
                    "host {} chooses the fabric {}, the job has {fabric}",
                    host.name, host.config.fabric
                ))
                .into());
            }
            for rank in &host.placed.ranks {
                self.of_rank[*rank as usize] = self.hosts.len();
            }
            self.hosts.push(host);
            self.cut_off_looks.push(0);
        }
        share_cores(&mut self.hosts);
        Ok(())
    }

    /// When moves need a step even if no descriptor is ready.
    fn next_move(&self) -> Option<Instant> {
        let now = (Instant::now(), since_boot());
        let next = self
            .moves
            .iter()
            .map(|it| match (&it.gathering, it.is_ready) {
                (None, _) => now.0,
                (Some(_), true) => now.0 + it.fenced_at.saturating_sub(now.1),
                (Some(gathering), false) => gathering.wake_at(),
            });
        next.min()
    }

    /// The descriptors of agents that are not ready yet, or have no connection.
    pub(crate) fn interests_of_moves(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let gatherings = self.moves.iter().filter_map(|it| it.gathering.as_ref());
        let moving = gatherings.flat_map(Gathering::interests);
        moving.chain(self.interests_of_callers())
    }

    /// Time between two looks for silent agents; `None`: the end of its connection shows that one is lost.
    fn turn(&self) -> Option<Duration> {
        let default = LeaseLength(HostsSpec::LEASE);
        let of_tree = self.are_a_tree().then_some(default);
        self.setup.lease.or(of_tree).map(LeaseLength::turn)
    }

    /// Looks for agents that have been silent for too long, if it is time.
    fn silent(&mut self) -> Vec<usize> {
        let now = Instant::now();
        let Some(turn) = self.turn().filter(|_| now >= self.next_look) else {
            return Vec::new();
        };
        self.next_look = now + turn;
        let hosts = 0..self.hosts.len();
        let is_silent = |number: &usize| {
            let is_cut_off = self.is_cut_off(*number);
            let looks = &mut self.cut_off_looks[*number];
            *looks = if is_cut_off { *looks + 1 } else { 0 };
            let host = &mut self.hosts[*number];
            !host.is_lost()
                && match &mut host.grant {
                    Some(grant) => grant.is_silent(),
                    None => *looks >= SILENT_LOOKS,
                }
        };
        hosts.filter(is_silent).collect()
    }

    /// An agent has asked for a lease.
    pub(super) fn grant(&mut self, number: usize) {
        let host = &mut self.hosts[number];
        if let Some(grant) = &mut host.grant {
            grant.give(since_boot());
            host.agent.push(ToAgent::Lease);
        }
    }

    /// When to look for silent agents, or to step the moves.
    fn next_step(&self) -> Option<Instant> {
        let look = self.turn().map(|_| self.next_look);
        let calls = self.next_step_of_callers();
        (look.into_iter())
            .chain(self.next_move())
            .chain(calls)
            .min()
    }
}

impl Job {
    /// When hosts need a step even if no descriptor is ready.
    pub(crate) fn next_step_of_hosts(&self) -> Option<Instant> {
        match &self.placement {
            Placement::Local(_) => None,
            Placement::Remote(hosts) if !hosts.moves.is_empty() && !self.is_running() => {
                Some(Instant::now())
            }
            Placement::Remote(hosts) => hosts.next_step(),
        }
    }

    /// Finds silent hosts, and starts ranks of lost hosts on others.
    pub(crate) fn look_after_hosts(&mut self) {
        let Placement::Remote(hosts) = &mut self.placement else {
            return;
        };
        let LeaseLength(length) = hosts.setup.lease.unwrap_or(LeaseLength(HostsSpec::LEASE));
        for number in hosts.step_callers() {
            self.hear_agent(number);
        }
        let silent = self.hosts().map_or_else(Vec::new, Hosts::silent);
        for number in silent {
            let length = length.as_secs_f64();
            self.lose_host(number, &format!("no answer for {length} s"));
        }
        let mut index = 0;
        loop {
            let is_running = self.is_running();
            let Placement::Remote(hosts) = &mut self.placement else {
                return;
            };
            if index >= hosts.moves.len() {
                return;
            }
            if !is_running {
                // No rank starts any more.
                let from = hosts.moves.remove(index).from;
                self.mark_ranks_ended(from);
                continue;
            }
            let stepped = hosts.step_move(index).and_then(|is_ready| {
                hosts.moves[index].is_ready = is_ready;
                let is_due = is_ready && hosts.moves[index].fenced_at <= since_boot();
                if is_due {
                    hosts.finish_move(index)?;
                }
                Ok(is_due)
            });
            match stepped {
                Ok(false) => index += 1,
                Ok(true) => {
                    let done = hosts.moves.remove(index);
                    self.ranks_have_moved(&done);
                }
                Err(error) => self.choose_another(index, &error),
            }
        }
    }

    /// The new agent of a move cannot be used.
    fn choose_another(&mut self, index: usize, error: &LaunchError) {
        let Placement::Remote(hosts) = &mut self.placement else {
            return;
        };
        let tried = hosts.moves[index].to;
        hosts.lost_places.push(tried);
        // Ends its agent.
        hosts.moves[index].gathering = None;
        match hosts.choose_place() {
            Some(to) => {
                hosts.moves[index].to = to;
                let name = &hosts.spec.hosts[to].name;
                let line = format!("{error}; the ranks start on {name} instead");
                self.say(Some(line));
            }
            None => {
                let lost = &hosts.hosts[hosts.moves[index].from].name;
                let failure = format!(
                    "host {lost} is lost, and no other host can take its ranks: {error}: give the job more hosts, with --spare-nodes"
                );
                self.fail(HOST_LOST, failure);
            }
        }
    }

    /// The lost host is fenced, and the new one has its ranks: the lives on the lost one are over.
    fn ranks_have_moved(&mut self, done: &Move) {
        let Placement::Remote(hosts) = &self.placement else {
            return;
        };
        let lost = &hosts.hosts[done.from];
        for rank in lost.placed.ranks.clone() {
            let lives = &mut self.lives[rank as usize];
            lives.leave_host();
            if self.ranks[rank as usize].end.is_none() {
                // Peers may have noticed it first.
                if lives.shot.is_none_or(|shot| shot.cause == Cause::Lost) {
                    lives.shot = Some(Shot {
                        at: done.lost_at,
                        cause: Cause::HostLost,
                    });
                }
            }
        }
        self.mark_ranks_ended(done.from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spare_host_is_chosen_before_those_with_ranks() {
        let names = ["a", "b", "a", "c", "d"];
        let hosts = names.map(|name| HostSlots {
            name: name.into(),
            slots: 1,
        });
        let mut ranks = [Some(2), Some(1), None, Some(0), Some(0)];
        let mut taken = Vec::new();
        while let Some(place) = choose(&hosts, |place| ranks[place]) {
            taken.push(place);
            ranks[place] = None;
        }
        assert_eq!(
            taken,
            [3, 4, 1, 0],
            "spare hosts in order, then the least busy"
        );
    }
}
