//! What a protocol costs one iteration of a job, by counting: for job sizes that no machine here has.
//! Pure; bytes come from the real encoder ([`Bytes`]).
//!
//! A job is made of *roles*: all ranks of a role do the same, so one stands for all. In an iteration
//! a rank has some *bursts*: it receives from any source, which makes an event each, then sends, one
//! message after the other, each to the next of its receivers.
//!
//! - The events of a burst are one batch, which is made before the first message behind it.
//! - `pessimist` commits the batch to a logger. The burst waits for the confirmation.
//! - `ticket` gives the batch to the sender of its last message. The burst waits as well.
//! - `causal` carries the batch in each message to another receiver, until the first confirmation is
//!   back: after as many messages as leave in that time (the *window*). Nothing waits.
//! - An iteration takes the computation, and for the busiest role each message it sends or receives,
//!   the waits, and the bytes that it carries.
//!
//! Not in it: loggers that have too much to do, commits that begin before a message waits, completions
//! that are events of their own, batches that ranks join because they run ahead, lanes that are full.

use refrain_logging::{EventStore, Member, held::Gives};
use serde::Serialize;

/// A pattern of communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Each rank exchanges faces with its neighbours in a periodic grid.
    Stencil,
    /// Each rank sends to each other rank, and receives from all.
    AllToAll,
    /// A master receives a result and sends the next task, for each worker in turn.
    MasterAndWorkers,
}

/// Ranks that do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Role {
    /// How many there are.
    pub ranks: u64,
    /// Bursts in an iteration.
    pub bursts: u64,
    /// Receives in a burst.
    pub receives: u64,
    /// Whether they are from any source: each is an event. A receive from a named source is one only
    /// with `-classic`.
    pub is_any: bool,
    /// Messages sent in a burst.
    pub sends: u64,
    /// Different receivers of all messages, and senders.
    pub peers: u64,
}

impl Pattern {
    /// The roles in a job with this many ranks; `dimensions`: of the stencil's grid.
    pub fn roles(self, ranks: u64, dimensions: usize) -> Vec<Role> {
        let all = Role {
            ranks,
            bursts: 1,
            receives: ranks - 1,
            is_any: true,
            sends: ranks - 1,
            peers: ranks - 1,
        };
        match self {
            Self::AllToAll => vec![all],
            Self::Stencil => {
                // Both neighbours along an axis of two ranks are the same one.
                let others = |extent: u64| (extent - 1).min(2);
                let faces = 2 * dimensions as u64;
                vec![Role {
                    receives: faces,
                    sends: faces,
                    peers: extents(ranks, dimensions).into_iter().map(others).sum(),
                    ..all
                }]
            }
            Self::MasterAndWorkers => {
                let one = Role {
                    receives: 1,
                    sends: 1,
                    ..all
                };
                let master = Role {
                    ranks: 1,
                    bursts: ranks - 1,
                    ..one
                };
                let worker = Role {
                    ranks: ranks - 1,
                    is_any: false,
                    peers: 1,
                    ..one
                };
                vec![master, worker]
            }
        }
    }
}

/// The extents of a grid: each prime factor of `ranks`, from the largest on, multiplies the smallest
/// extent.
fn extents(ranks: u64, dimensions: usize) -> Vec<u64> {
    let mut extents = vec![1; dimensions];
    let (mut left, mut factor, mut factors) = (ranks, 2, Vec::new());
    while left > 1 {
        if left.is_multiple_of(factor) {
            left /= factor;
            factors.push(factor);
        } else {
            factor += 1;
        }
    }
    for factor in factors.into_iter().rev() {
        if let Some(smallest) = extents.iter_mut().min() {
            *smallest *= factor;
        }
    }
    extents
}

/// Lengths of what a protocol sends for a batch, from the real encoder.
pub trait Bytes {
    /// Bytes of a batch of this many events, whose messages are of `peers` of `ranks` ranks: as a
    /// logger gets it, as one message carries it, or on the control lane, with its confirmation.
    fn of(&mut self, events: EventStore, determinants: u64, peers: u64, ranks: u64) -> f64;
}

/// Times, and the length of a run.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Costs {
    /// Time between two messages of a rank, in µs.
    pub gap_us: f64,
    /// Time until a batch is confirmed, in µs.
    pub confirm_us: f64,
    /// Time of the computation of an iteration, in µs.
    pub step_us: f64,
    /// Time to send or receive a byte, in ns.
    pub byte_ns: f64,
    /// Iterations between two checkpoints of a rank: as long determinants are kept.
    pub iterations: u64,
}

impl Costs {
    /// Messages that a rank sends until the first of them is confirmed.
    pub fn window(&self) -> u64 {
        (self.confirm_us / self.gap_us).ceil().max(1.0) as u64
    }
}

/// What a protocol costs a whole job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Load {
    /// Messages of all ranks in all iterations.
    pub messages: f64,
    /// Events of all ranks in all iterations.
    pub events: f64,
    /// Batches of all ranks: commits to loggers with `pessimist`.
    pub commits: f64,
    /// Bytes of batches that loggers get.
    pub logger_bytes: f64,
    /// Determinants that messages carry, each time.
    pub carried: f64,
    /// Bytes that messages carry for them.
    pub carried_bytes: f64,
    /// The longest carrier in one message, in bytes.
    pub carried_bytes_max: f64,
    /// Bytes on the control lanes of ranks: batches and confirmations.
    pub told_bytes: f64,
    /// Determinants of their own in the memory of all ranks at the end.
    pub own: f64,
    /// The same with those of others.
    pub held: f64,
    /// The same, of the rank with the most.
    pub held_max: f64,
    /// Time of an iteration, in µs.
    pub iteration_us: f64,
    /// The same without a protocol.
    pub iteration_none_us: f64,
}

impl Load {
    /// The load of a protocol on a job of these roles.
    pub fn of(member: Member, roles: &[Role], costs: &Costs, bytes: &mut impl Bytes) -> Self {
        let ranks = roles.iter().map(|role| role.ranks).sum();
        let of_role = |role: &Role| Self::of_role(member, role, ranks, costs, bytes);
        let parts: Vec<Self> = roles.iter().map(of_role).collect();
        let sum = |of: fn(&Self) -> f64| parts.iter().map(of).sum();
        let max = |of: fn(&Self) -> f64| parts.iter().map(of).fold(0.0, f64::max);
        let held = |at: usize| {
            let own = parts[at].own;
            // What one role makes is at the ranks of the other, or of itself if there is none.
            let from = if roles.len() == 1 { at } else { 1 - at };
            (own + parts[from].held - parts[from].own) / roles[at].ranks as f64
        };
        Self {
            messages: sum(|it| it.messages),
            events: sum(|it| it.events),
            commits: sum(|it| it.commits),
            logger_bytes: sum(|it| it.logger_bytes),
            carried: sum(|it| it.carried),
            carried_bytes: sum(|it| it.carried_bytes),
            carried_bytes_max: max(|it| it.carried_bytes_max),
            told_bytes: sum(|it| it.told_bytes),
            own: sum(|it| it.own),
            held: sum(|it| it.held),
            held_max: (0..roles.len()).map(held).fold(0.0, f64::max),
            iteration_us: max(|it| it.iteration_us),
            iteration_none_us: max(|it| it.iteration_none_us),
        }
    }

    /// The same of one role; without the maximum of what a rank holds.
    fn of_role(
        member: Member,
        role: &Role,
        ranks: u64,
        costs: &Costs,
        bytes: &mut impl Bytes,
    ) -> Self {
        let bursts = (role.ranks * role.bursts * costs.iterations) as f64;
        let messages_us = (role.sends + role.receives) as f64 * costs.gap_us;
        let iteration_us = |burst_us: f64| costs.step_us + role.bursts as f64 * burst_us;
        let quiet = Self {
            messages: role.sends as f64 * bursts,
            iteration_us: iteration_us(messages_us),
            iteration_none_us: iteration_us(messages_us),
            ..Self::default()
        };
        let is_event = role.is_any || member.logs_every_reception();
        let store = member.events();
        if !is_event || store == EventStore::Nowhere {
            return quiet;
        }
        let events = role.receives as f64 * bursts;
        let batch_bytes = bytes.of(store, role.receives, role.peers, ranks);
        let logged = Self {
            events,
            commits: bursts,
            ..quiet
        };
        let waiting_us = iteration_us(messages_us + costs.confirm_us);
        match store {
            EventStore::Nowhere => quiet,
            EventStore::Loggers => Self {
                logger_bytes: batch_bytes * bursts,
                iteration_us: waiting_us,
                ..logged
            },
            EventStore::Ranks(Gives::AtCommit) => Self {
                told_bytes: batch_bytes * bursts,
                own: events,
                held: 2.0 * events,
                iteration_us: waiting_us,
                ..logged
            },
            EventStore::Ranks(Gives::WithMessages) => {
                // `copies`: ranks that get each batch. `open`: batches that wait for a confirmation at one time.
                let copies = costs.window().min(role.peers);
                let open = copies.div_ceil(role.sends) as f64;
                let copies = copies as f64;
                let bytes_us = batch_bytes * copies * costs.byte_ns / 1e3;
                Self {
                    carried: events * copies,
                    carried_bytes: batch_bytes * copies * bursts,
                    carried_bytes_max: batch_bytes * open,
                    own: events,
                    held: events * (1.0 + copies),
                    iteration_us: iteration_us(messages_us + bytes_us),
                    ..logged
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A determinant takes two bytes.
    struct Two;

    impl Bytes for Two {
        fn of(&mut self, _: EventStore, determinants: u64, _: u64, _: u64) -> f64 {
            2.0 * determinants as f64
        }
    }

    const COSTS: Costs = Costs {
        gap_us: 1.0,
        confirm_us: 5.0,
        step_us: 100.0,
        byte_ns: 0.0,
        iterations: 10,
    };

    fn load(pattern: Pattern, ranks: u64, member: Member) -> Load {
        Load::of(member, &pattern.roles(ranks, 3), &COSTS, &mut Two)
    }

    #[test]
    fn grids_are_as_cubic_as_factors_allow() {
        assert_eq!(extents(1 << 20, 3), [128, 128, 64]);
        assert_eq!(extents(1024, 3), [16, 8, 8]);
        assert_eq!(extents(12, 2), [3, 4]);
        assert_eq!(Pattern::Stencil.roles(4, 2)[0].peers, 2);
        assert_eq!(Pattern::Stencil.roles(8, 2)[0].peers, 3);
    }

    #[test]
    fn messages_carry_a_batch_to_each_receiver_within_the_window() {
        let stencil = load(Pattern::Stencil, 1024, Member::Causal);
        // Six events go to five of six neighbours, in six messages.
        assert_eq!(stencil.carried / stencil.messages, 5.0);
        assert_eq!(stencil.carried_bytes, 2.0 * stencil.carried);
        assert_eq!(stencil.held, stencil.events * 6.0);
        assert_eq!(stencil.iteration_us, stencil.iteration_none_us);
        let all = load(Pattern::AllToAll, 1 << 20, Member::Causal);
        assert_eq!(all.carried / all.messages, 5.0, "as at any size");
        assert_eq!(all.carried_bytes_max, 2.0 * ((1 << 20) - 1) as f64);
    }

    #[test]
    fn a_master_waits_for_each_batch_and_its_workers_hold_them() {
        let ticket = load(Pattern::MasterAndWorkers, 1025, Member::Ticket);
        assert_eq!(ticket.events, 10.0 * 1024.0);
        assert_eq!(ticket.iteration_us, 100.0 + 1024.0 * (2.0 + 5.0));
        assert_eq!(ticket.iteration_none_us, 100.0 + 1024.0 * 2.0);
        assert_eq!(ticket.held, 2.0 * ticket.events);
        assert_eq!(ticket.held_max, ticket.events, "the master's own");
        let causal = load(Pattern::MasterAndWorkers, 1025, Member::Causal);
        assert_eq!(causal.carried, 5.0 * causal.events);
        assert_eq!(causal.carried_bytes_max, 10.0, "five bursts are open");
    }

    #[test]
    fn loggers_get_what_others_do_not() {
        for pattern in [Pattern::Stencil, Pattern::AllToAll] {
            let logged = load(pattern, 64, Member::Pessimist);
            assert_eq!(logged.commits, 640.0);
            assert_eq!(logged.logger_bytes, 2.0 * logged.events);
            assert_eq!(
                (logged.held, logged.carried, logged.told_bytes),
                (0.0, 0.0, 0.0)
            );
            let ticket = load(pattern, 64, Member::Ticket);
            assert_eq!((ticket.logger_bytes, ticket.carried), (0.0, 0.0));
            let none = load(pattern, 64, Member::None);
            assert_eq!((none.commits, none.held), (0.0, 0.0));
        }
    }
}
