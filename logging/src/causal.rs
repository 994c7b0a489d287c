//! The causal protocol (simple causal logging; Meneses, Bronevetsky and Kalé): determinants travel
//! with the messages that may depend on them, until another rank is known to hold them. No message
//! waits. docs/design/events-at-ranks.md
//!
//! A message carries all batches that are not stable and that were not carried to its receiver before
//! (CAUSAL-1). The receiver holds them before its program gets the message, and tells with its next
//! message that carries some, or when it is idle, how far it has got (CAUSAL-2). One other holder makes a
//! batch stable; batches become stable in their order.
//!
//! What cannot carry them waits as with `ticket`: output, answers on the control lane, messages to a rank
//! whose lane catches up, or that fails together with the sender. Then the batches go to the next rank
//! (CAUSAL-3).
//!
//! To survive several failures at once, batches need as many holders. A message carries batches when all but
//! one of these are other ranks than its receiver; before, it waits.

use crate::determinant::{EventIndex, Match};
use crate::held::{
    Floor, Holdings, Incoming, Made, Message, Reader, Row, Scratch, ToCarry, Waiting, Wanted,
    Writer, answer,
};
use refrain_ring::{Carriage, Incarnation, Rank};
use std::borrow::Cow;

/// Attachments that may arrive before they are confirmed by a message of their own.
const UNCONFIRMED_MAX: u32 = 32;
/// Batches as they were made, at most, while there is no time to store them.
const RECENT_MAX: usize = 64;

impl Holdings {
    #[inline]
    pub(crate) fn push_recent(&mut self, made: Made) {
        if self.recent.len() >= RECENT_MAX {
            self.store_recent(false);
        }
        self.recent.push(made);
    }

    /// Stores recent batches among the others: those that are stable, or all.
    pub(crate) fn store_recent(&mut self, all: bool) {
        while let Some((made, is_stable)) = self.recent.pop(all) {
            let batch = made.batch();
            let confirmed = self.holders.push(&self.tolerance, made.holder);
            if !is_stable {
                let waiting = Waiting::new(&batch, self.own.end(), confirmed);
                self.waiting.push_back(waiting);
            }
            self.own.push(&batch);
        }
    }

    /// Writes what the next message to a rank has to carry. Returns whether that is all. CAUSAL-1
    #[inline]
    pub(crate) fn carry_to(&mut self, carriage: Carriage, out: &mut Vec<u8>) -> bool {
        let carried = &mut self.peers[carriage.to.index()].carried;
        let until = carried.until;
        carried.next = until;
        let last = self.recent.last().map(Made::end);
        let last = last.or(self.waiting.back().map(|last| last.end));
        let last = match last {
            Some(last) if last > until => last,
            _ => return true,
        };
        let wanted = Wanted {
            life: carriage.life,
            confirms: carried.to_confirm,
            bytes_max: carriage.bytes_max,
            scratch: &mut self.scratch,
        };
        let recent = self.recent.unstable_behind(until).map(|made| ToCarry {
            batch: made.batch(),
            alone: made.alone.as_ref(),
        });
        let writer = carried
            .writer
            .get_or_insert_with(|| Box::new(Writer::new()));
        let is_base = carriage.may_be_first;
        let begin = self.waiting.partition_point(|it| it.end <= until);
        let next = match self.waiting.get(begin) {
            None => writer.write(is_base, wanted, recent, out),
            Some(first) => {
                let stored = self.own.batches_from(first.place);
                let stored = stored.map(|batch| ToCarry { batch, alone: None });
                writer.write(is_base, wanted, stored.chain(recent), out)
            }
        };
        carried.bytes = out.len();
        // Without any to carry, all is stable.
        carried.next = next.unwrap_or(last);
        carried.next == last
    }

    /// As [`Holdings::carry_to`], if it is only a batch that is committed next. Returns whether it was written.
    #[inline]
    pub(crate) fn carry_alone_to(
        &mut self,
        carriage: Carriage,
        first: EventIndex,
        alone: &Match,
        out: &mut Vec<u8>,
    ) -> bool {
        let carried = &mut self.peers[carriage.to.index()].carried;
        let is_all = carried.until.max(self.stable) >= first && !self.has_stopped;
        let Some(writer) = carried.writer.as_mut().filter(|_| is_all) else {
            return false;
        };
        carried.next = EventIndex(first.0 + 1);
        let from = (self.incarnation, first);
        let is_written = writer.write_alone(carriage, carried.to_confirm, from, alone, out);
        carried.bytes = out.len();
        is_written
    }

    /// What was written last for this rank is in the log.
    #[inline]
    pub(crate) fn carried_to(&mut self, to: Rank) {
        let carried = &mut self.peers[to.index()].carried;
        let first = carried.until.max(self.stable);
        self.counts.carried += carried.next.0.saturating_sub(first.0);
        self.counts.carried_bytes += carried.bytes as u64;
        carried.until = carried.next;
        (carried.to_confirm, carried.unconfirmed) = (None, 0);
        if let Some(writer) = &mut carried.writer {
            writer.close();
        }
    }

    /// Takes an attachment: from now on this rank holds its batches. CAUSAL-2
    #[inline]
    pub(crate) fn take_carried_from(
        &mut self,
        from: Rank,
        attachment: &[u8],
    ) -> Result<(), &'static str> {
        let peer = &mut self.peers[from.index()];
        if !peer.is_live {
            return Ok(());
        }
        let carried = &mut peer.carried;
        let incoming = carried
            .incoming
            .get_or_insert_with(|| Box::new(Incoming::new()));
        let taken = incoming.take(attachment, self.incarnation, &mut self.scratch)?;
        let Some(taken) = taken else {
            return Ok(());
        };
        let is_full = incoming.is_full();
        carried.to_confirm = Some(taken.end);
        if !self.unconfirmed.contains(&from) {
            self.unconfirmed.push(from);
        }
        carried.unconfirmed += 1;
        if carried.unconfirmed >= UNCONFIRMED_MAX {
            self.confirm_carried_of(from);
        }
        if let Some(end) = taken.confirms {
            self.carried_confirmed(from, end);
        }
        if is_full {
            self.read_carried_by(from);
        }
        self.report_unreadable()
    }

    /// An attachment that was taken before was none.
    #[inline]
    pub(crate) fn report_unreadable(&mut self) -> Result<(), &'static str> {
        match self.unreadable.take() {
            None => Ok(()),
            Some(why) => Err(why),
        }
    }

    /// Reads all attachments of a rank that were taken.
    pub(crate) fn read_carried_by(&mut self, from: Rank) {
        if let Some(incoming) = &mut self.peers[from.index()].carried.incoming {
            let mut dropped = Row::default();
            let row = match self.has_stopped {
                true => &mut dropped,
                false => &mut self.held.entry(from).or_default().1,
            };
            let read = incoming.read(self.incarnation, row, &mut self.scratch);
            self.unreadable = self.unreadable.or(read.err());
        }
    }

    /// The batches that this rank holds of another.
    pub fn held_of(&self, rank: Rank) -> Cow<'_, Row> {
        let row = self.held.get(&rank).map(|(_, row)| Cow::Borrowed(row));
        let mut row = row.unwrap_or_default();
        let incoming = self.peers[rank.index()].carried.incoming.as_ref();
        if let Some(unread) = incoming.filter(|incoming| !incoming.is_read()) {
            // Those before the first that cannot be read.
            let mut scratch = Scratch::default();
            let _ = (unread.clone()).read(self.incarnation, row.to_mut(), &mut scratch);
        }
        row
    }

    /// Nothing arrives: reads what was carried here, and confirms what no message may confirm soon. CAUSAL-2
    pub(crate) fn confirm_carried(&mut self) {
        while let Some(peer) = self.unconfirmed.pop() {
            self.read_carried_by(peer);
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
        self.recent.confirm(end, by);
        self.settle();
    }

    /// Something waits for batches that no message carries: gives them to other ranks. CAUSAL-3
    pub(crate) fn give_unstable(&mut self) {
        self.store_recent(true);
        let begin = self.waiting.partition_point(|it| it.is_pressed);
        let Some(first) = self.waiting.get(begin).map(|it| it.place) else {
            return;
        };
        let own = core::mem::take(&mut self.own);
        let stable = self.holders.len() - self.waiting.len();
        for (at, batch) in (stable + begin..).zip(own.batches_from(first)) {
            self.give_to_missing(at, batch, self.next_rank());
        }
        self.own = own;
        for waiting in self.waiting.range_mut(begin..) {
            waiting.is_pressed = true;
        }
    }

    /// Whether a message may leave with the unstable batches, and with events that are in no batch yet: all holders
    /// that they need but one have confirmed them, and its receiver is that one. A rank that fails together with
    /// this one is no holder. CAUSAL-1
    #[inline]
    pub(crate) fn may_carry_to(&self, to: Rank, has_pending: impl FnOnce() -> bool) -> bool {
        !self.tolerance.are_together(self.rank, to)
            && (self.tolerance.failures() == 1 || !has_pending() && self.are_held_beside(to))
    }

    fn are_held_beside(&self, to: Rank) -> bool {
        let stable = self.holders.len() - self.waiting.len();
        let mut waiting = self.waiting.iter().enumerate();
        waiting.all(|(place, waiting)| {
            let holders = self.holders.of(stable + place).iter().enumerate();
            let others = holders.filter(|(at, holder)| {
                waiting.is_confirmed(*at) && !self.tolerance.are_together(**holder, to)
            });
            others.count() + 1 >= self.tolerance.failures()
        })
    }
}

/// The batches that an earlier life of a rank has left in its logs: what it has published may have left,
/// and depends on no others. CAUSAL-4
#[derive(Debug)]
pub struct LeftInLogs {
    row: Row,
    reader: Reader,
    scratch: Scratch,
}

impl Default for LeftInLogs {
    fn default() -> Self {
        Self {
            row: Row::default(),
            reader: Reader::new(),
            scratch: Scratch::default(),
        }
    }
}

impl LeftInLogs {
    /// What follows is from another log, or from behind a gap.
    pub fn begin_log(&mut self) {
        self.reader = Reader::new();
    }

    /// Takes the next attachment of the log, or what the next carrier holds. `life`: only if it is for this
    /// life of the receiver.
    ///
    /// # Errors
    /// When no rank carries that.
    pub fn take(
        &mut self,
        attachment: &[u8],
        life: Option<Incarnation>,
    ) -> Result<(), &'static str> {
        let taken = (self.reader).take(attachment, life, &mut self.row, &mut self.scratch);
        taken.map(drop)
    }

    /// All batches so far.
    pub fn row(&self) -> &Row {
        &self.row
    }

    /// As an answer for [`Collected::of`](crate::held::Collected::of).
    pub fn answer(&self) -> Vec<u8> {
        answer(Floor::default(), &self.row)
    }
}
