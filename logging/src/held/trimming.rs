//! Which determinants of a rank are held: those from its floor on. GC-1, CAUSAL-5

use super::floor::Floor;
use super::holders::Holders;
use super::holdings::Holdings;
use super::lane::{Message, Taken};
use crate::determinant::EventIndex;
use refrain_ring::Rank;

/// Maximum number of determinants that loggers have and that ranks still hold. Rows are trimmed, and other
/// ranks are told, once for so many.
const LOGGED_MAX: u64 = 1024;

impl Holdings {
    /// A later life cannot do without the floor: it would take trimmed batches for missing ones.
    /// So peers confirm it, too. TICKET-3, TICKET-4
    pub(super) fn tell_floor(&mut self, to: Rank) {
        let first = self.floor;
        let peer = &mut self.peers[to.index()];
        if peer.is_live && first > peer.told {
            (peer.told, peer.was_given) = (first, false);
            let made = self.own.batches().next();
            let life = made.map_or(self.incarnation, |batch| batch.incarnation);
            self.say(to, Message::Trim(Floor { first, life }));
            self.await_of(to, Taken::Floor(first));
        }
    }

    pub(super) fn tell_floor_to_all(&mut self) {
        for peer in (0..self.peers.len() as u32).map(Rank) {
            self.tell_floor(peer);
        }
    }

    /// Drops the own batches before a determinant; all of them are stable.
    pub(super) fn drop_before(&mut self, first: EventIndex) {
        let own = core::mem::take(&mut self.own);
        let none = Holders::new(self.rank, &self.tolerance);
        let holders = core::mem::replace(&mut self.holders, none);
        let stable = holders.len() - self.waiting.len();
        for (at, batch) in own.batches().enumerate() {
            if batch.end() <= first {
                continue;
            }
            if let Some(waiting) = at.checked_sub(stable) {
                self.waiting[waiting].place = self.own.end();
            }
            self.own.push(&batch);
            self.holders.push_of(&holders, at);
        }
        self.floor = first;
    }

    /// Event loggers have all determinants of this rank before `end`: they are stable, and no rank needs to
    /// hold them. CAUSAL-5
    pub(crate) fn logged(&mut self, end: EventIndex) {
        if end <= self.floor {
            return;
        }
        while let Some(first) = self.waiting.front()
            && first.end <= end
        {
            self.waiting.pop_front();
        }
        self.stable = self.stable.max(end);
        self.settle();
        if self.stable == end && self.waiting.is_empty() {
            self.own.clear();
            self.holders.clear();
            self.floor = end;
        } else if end.0 - self.floor.0 >= LOGGED_MAX {
            self.drop_before(end);
        }
        if self.floor.0 >= self.told_at.0 + LOGGED_MAX {
            self.told_at = self.floor;
            for to in (0..self.peers.len() as u32).map(Rank) {
                let peer = &self.peers[to.index()];
                if peer.was_given || peer.carried.until > peer.told {
                    self.tell_floor(to);
                }
            }
        }
    }
}
