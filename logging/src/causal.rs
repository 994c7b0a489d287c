//! The causal protocol (simple causal logging; Meneses, Bronevetsky and Kalé): determinants travel
//! with the messages that may depend on them, until another rank is known to hold them. No message
//! waits. docs/design/events-at-ranks.md
//!
//! A message is preceded by a *carrier* with all batches that are not stable and that were not
//! carried to its receiver before (CAUSAL-1). The receiver holds them before its program gets the
//! message, and tells in its next carrier, or when it is idle, how far it has got (CAUSAL-2). One
//! other holder makes a batch stable; batches become stable in their order.
//!
//! What cannot be preceded by a carrier waits as with `ticket`: output, answers on the control lane,
//! messages to a rank whose lane catches up. Then the batches go to the next rank (CAUSAL-3).

use crate::determinant::EventIndex;
use crate::determinant::record::varint::{Bytes, put};
use crate::held::{Batch, Floor, Holdings, Message, Previous, Row, answer};
use refrain_ring::Rank;

/// Carriers that may arrive before they are confirmed by a message of their own.
const UNCONFIRMED_MAX: u32 = 32;

impl Holdings {
    /// Writes what the next message to a rank has to carry, as far as one carrier holds it: a
    /// confirmation (one past the last batch that came from it, or 0), then batches. Nothing: there
    /// is none. CAUSAL-1
    pub(crate) fn carry_to(&mut self, to: Rank, bytes_max: usize, carrier: &mut Vec<u8>) {
        let carried = &mut self.peers[to.index()].carried;
        carried.next = carried.until;
        let mut previous = Previous::default();
        let begin = self.waiting.partition_point(|it| it.end <= carried.until);
        let Some(first) = self.waiting.get(begin) else {
            return;
        };
        put(carrier, carried.to_confirm.map_or(0, |end| end.0));
        for batch in self.own.batches_from(first.place) {
            let before = carrier.len();
            batch.put(&mut previous, carrier);
            if carrier.len() > bytes_max && carried.next > carried.until {
                carrier.truncate(before);
                break;
            }
            carried.next = batch.end();
            self.counts.carried += u64::from(batch.count);
        }
        self.counts.carried_bytes += carrier.len() as u64;
    }

    /// The carrier is in the log, before its message.
    pub(crate) fn carried_to(&mut self, to: Rank) {
        let carried = &mut self.peers[to.index()].carried;
        carried.until = carried.next;
        (carried.to_confirm, carried.unconfirmed) = (None, 0);
    }

    /// Takes a carrier: from now on this rank holds its batches. CAUSAL-2
    pub(crate) fn take_carried_from(
        &mut self,
        from: Rank,
        carrier: &[u8],
    ) -> Result<(), &'static str> {
        let peer = &mut self.peers[from.index()];
        if !peer.is_live {
            return Ok(());
        }
        let carried = &mut peer.carried;
        let mut rest = Bytes(carrier);
        let confirmed = EventIndex(rest.number()?);
        let mut previous = Previous::default();
        let (_, row) = self.held.entry(from).or_default();
        while rest.left() > 0 {
            let batch = Batch::take(&mut rest, &mut previous)?;
            row.push(&batch);
            if carried.to_confirm.replace(batch.end()).is_none() {
                self.unconfirmed.push(from);
            }
        }
        carried.unconfirmed += 1;
        if carried.unconfirmed >= UNCONFIRMED_MAX {
            self.confirm_carried_of(from);
        }
        self.carried_confirmed(from, confirmed);
        Ok(())
    }

    /// Nothing arrives: confirms what no carrier may confirm soon. CAUSAL-2
    pub(crate) fn confirm_carried(&mut self) {
        while let Some(peer) = self.unconfirmed.pop() {
            self.confirm_carried_of(peer);
        }
    }

    fn confirm_carried_of(&mut self, of: Rank) {
        let carried = &mut self.peers[of.index()].carried;
        carried.unconfirmed = 0;
        if let Some(end) = carried.to_confirm.take() {
            self.say(of, Message::TookCarried { end });
        }
    }

    /// A peer holds what was carried to it before `end`: of the batches before it, all that are not
    /// stable. CAUSAL-2
    pub(crate) fn carried_confirmed(&mut self, by: Rank, end: EventIndex) {
        if end > self.peers[by.index()].carried.until {
            return;
        }
        let count = self.waiting.partition_point(|it| it.end <= end);
        for place in 0..count {
            self.is_held_by(place, by);
        }
        self.settle();
    }

    /// Something waits for batches that no message carries: gives them to the next rank. CAUSAL-3
    pub(crate) fn give_unstable(&mut self) {
        let to = self.holder(self.next_rank());
        let begin = self.waiting.partition_point(|it| it.is_pressed);
        let Some(first) = self.waiting.get(begin).map(|it| it.place) else {
            return;
        };
        if !self.peers[to.index()].is_live {
            return;
        }
        let own = core::mem::take(&mut self.own);
        for batch in own.batches_from(first) {
            self.give(to, batch);
        }
        self.own = own;
        for waiting in self.waiting.range_mut(begin..) {
            waiting.is_pressed = true;
        }
    }
}

/// The batches in the carriers that an earlier life of a rank has left in its logs, as an answer for
/// [`Collected::of`](crate::held::Collected::of): what it has published may have left, and depends on
/// no others. CAUSAL-4
///
/// # Errors
/// When one of them is no carrier.
pub fn answer_of_carriers<'a>(
    carriers: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Vec<u8>, &'static str> {
    let mut row = Row::default();
    for carrier in carriers {
        let mut rest = Bytes(carrier);
        rest.number()?;
        let mut previous = Previous::default();
        while rest.left() > 0 {
            row.push(&Batch::take(&mut rest, &mut previous)?);
        }
    }
    Ok(answer(Floor::default(), Some(&row)))
}
