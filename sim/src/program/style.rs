//! How a rank goes about a round: everything that its program may choose.

use fastrand::Rng;

/// What comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Receives,
    Sends,
    Mixed,
}

/// One way through a round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub order: Order,
    /// Of the receives: begun before anything is waited for, in percent.
    pub posted_percent: u32,
    /// Of the others: begun with a look for their message, in percent.
    pub probed_percent: u32,
    /// Looks at messages and requests between sends and receives.
    pub looks: u32,
    /// Tests and probes that may find nothing, at most.
    pub tries: u32,
    /// Of the sends: tested right behind their calls, when it depends on the log
    /// whether they are complete; in percent.
    pub tested_percent: u32,
    /// Receives that are taken back.
    pub extras: u32,
    /// Receives for which no message ever comes.
    pub nevers: u32,
    /// Sends may be left for the next round.
    pub carries: bool,
    /// One call after the other is of the same kind.
    pub is_monotone: bool,
}

impl Style {
    pub fn new(chance: &mut Rng) -> Self {
        let order = match chance.u32(0..4) {
            0 => Order::Receives,
            1 => Order::Sends,
            _ => Order::Mixed,
        };
        let is_busy = chance.u32(0..3) == 0;
        Self {
            order,
            posted_percent: [0, 50, 80, 100][chance.usize(0..4)],
            probed_percent: [0, 30, 60][chance.usize(0..3)],
            looks: if is_busy { chance.u32(0..5) } else { 0 },
            tries: if is_busy { 12 } else { chance.u32(0..5) },
            tested_percent: [0, 20, 60][chance.usize(0..3)],
            extras: u32::from(chance.u32(0..6) == 0),
            nevers: u32::from(chance.u32(0..6) == 0),
            carries: chance.u32(0..4) == 0,
            is_monotone: chance.bool(),
        }
    }
}
