//! To which ranks batches are given, and what is done when one of them dies. TICKET-1, TICKET-4

use super::batch::Batch;
use super::holdings::{Holdings, Peer, Restoring};
use super::lane::{Message, Taken};
use super::tolerance::Tolerance;
use refrain_ring::{Incarnation, Rank};

impl Holdings {
    /// A life of a peer is over and fenced: [`Holdings::next_restored`] tells when what it held of
    /// this rank has another holder. TICKET-4
    pub fn note_death(&mut self, rank: Rank, incarnation: Incarnation) {
        self.restoring.push(Restoring {
            rank,
            incarnation,
            until: self.are_enough_live().then(|| self.given()),
        });
    }

    /// A dead life whose loss this rank has made good. If it is the last life of this rank: its batches have
    /// as many holders again.
    pub fn next_restored(&mut self) -> Option<(Rank, Incarnation)> {
        if let Some((end, incarnation)) = self.earlier
            && self.stable >= end
        {
            self.earlier = None;
            return Some((self.rank, incarnation));
        }
        let is_over = |it: &Restoring| {
            let mut peers = self.peers.iter().zip(it.until.iter().flatten());
            it.until.is_some() && peers.all(|(peer, until)| peer.counts.1 >= *until)
        };
        let over = self.restoring.iter().position(is_over)?;
        let Restoring {
            rank, incarnation, ..
        } = self.restoring.swap_remove(over);
        Some((rank, incarnation))
    }

    /// Number of batches and floors that each peer was given.
    fn given(&self) -> Vec<u64> {
        self.peers.iter().map(|peer| peer.counts.0).collect()
    }

    /// The first rank from `first` on that may hold a batch of this rank: it lives, in another domain than
    /// this rank and than `taken`.
    fn next_holder(&self, first: Rank, taken: &[Rank]) -> Option<Rank> {
        let size = self.peers.len() as u32;
        let mut after = (0..size).map(|step| Rank((first.0 + step) % size));
        after.find(|rank| {
            let is_taken = |taken: &Rank| self.tolerance.are_together(*taken, *rank);
            self.peers[rank.index()].is_live && !is_taken(&self.rank) && !taken.iter().any(is_taken)
        })
    }

    /// Whether as many domains live as have to hold each batch.
    fn are_enough_live(&self) -> bool {
        let mut taken = [self.rank; Tolerance::FAILURES_MAX];
        (0..self.tolerance.failures()).all(|place| {
            let next = self.next_holder(self.rank, &taken);
            taken[place] = next.unwrap_or(self.rank);
            next.is_some()
        })
    }

    /// The rank next to this one.
    pub(crate) fn next_rank(&self) -> Rank {
        Rank((self.rank.0 + 1) % self.peers.len() as u32)
    }

    /// Gives a batch to as many ranks as are missing: those from `first` on. If too few live, it gets the
    /// others when they are back. TICKET-1
    pub(crate) fn give_to_missing(&mut self, at: usize, batch: Batch<'_>, first: Rank) {
        for place in 0..self.tolerance.failures() {
            let holders = self.holders.of(at);
            if holders[place] != self.rank {
                continue;
            }
            let Some(to) = self.next_holder(first, holders) else {
                return;
            };
            self.holders.of_mut(at)[place] = to;
            self.give(to, batch);
        }
    }

    fn give(&mut self, to: Rank, batch: Batch<'_>) {
        self.counts.given += u64::from(batch.count);
        self.peers[to.index()].was_given = true;
        self.say(to, Message::Hold(batch));
        let (incarnation, end) = (batch.incarnation, batch.end());
        self.await_of(to, Taken::Batch { incarnation, end });
    }

    pub(super) fn await_of(&mut self, peer: Rank, taken: Taken) {
        let peer = &mut self.peers[peer.index()];
        peer.given.push_back(taken);
        peer.counts.0 += 1;
    }

    /// Gives the ranks from `first` on the batches that too few ranks hold. `new`: a rank that was just
    /// connected. TICKET-4
    pub(super) fn give_lost(&mut self, first: Rank, new: Option<Rank>) {
        let own = core::mem::take(&mut self.own);
        for (at, batch) in own.batches().enumerate() {
            self.forget_lost(at, new);
            self.give_to_missing(at, batch, first);
        }
        self.own = own;
    }

    /// Forgets the holders of a batch that do not hold it any more, or that were never given it.
    fn forget_lost(&mut self, at: usize, new: Option<Rank>) {
        let waiting = at.checked_sub(self.holders.len() - self.waiting.len());
        for place in 0..self.tolerance.failures() {
            let holder = self.holders.of(at)[place];
            let Peer {
                is_live, has_held, ..
            } = self.peers[holder.index()];
            let is_confirmed = waiting.is_none_or(|it| self.waiting[it].is_confirmed(place));
            let holds = is_live && new != Some(holder) || has_held && is_confirmed;
            if !holds {
                self.holders.of_mut(at)[place] = self.rank;
                if let Some(it) = waiting {
                    self.waiting[it].confirmed &= !(1 << place);
                }
            }
        }
    }

    /// `by` holds the unstable batch at this place.
    pub(crate) fn is_held_by(&mut self, place: usize, by: Rank) {
        // The unstable batches are the last of all.
        let at = self.holders.len() - self.waiting.len() + place;
        let waiting = &mut self.waiting[place];
        let holders = self.holders.of_mut(at);
        let is_of_domain = |holder: &Rank| self.tolerance.are_together(*holder, by);
        let is_free = |holder: &Rank| *holder == self.rank;
        let mut places = 0..holders.len();
        let to = (holders.iter().position(is_of_domain))
            .or_else(|| holders.iter().position(is_free))
            .or_else(|| places.find(|place| !waiting.is_confirmed(*place)));
        if let Some(to) = to {
            holders[to] = by;
            waiting.confirmed |= 1 << to;
        }
    }

    /// A peer was connected: gives it the batches that have too few holders.
    pub(super) fn give_to_connected(&mut self, peer: Rank) {
        self.tell_floor(peer);
        self.give_lost(peer, Some(peer));
        if self.are_enough_live() {
            let given = self.given();
            for restoring in &mut self.restoring {
                restoring.until.get_or_insert_with(|| given.clone());
            }
        }
    }
}
