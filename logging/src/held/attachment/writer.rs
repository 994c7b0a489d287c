//! The writer of attachments.

use super::{
    CONFIRM_LATER, CONFIRM_SHIFT, FIRST_AND_ONES, FIRST_MAX, FIRST_SHIFT, GAP_END, IS_BASE, IS_GAP,
    IS_OTHER, LISTED, LONGEST, NO_HEAD, ONES_MAX, Progress, SHAPE, Scratch, VERSION, encode,
};
use crate::determinant::record::varint::{Bytes, put};
use crate::determinant::record::{ALONE_BYTES_MAX, Encoder};
use crate::determinant::{EventIndex, Match};
use crate::held::batch::Batch;
use core::hash::{Hash, Hasher};
use refrain_ring::{Carriage, Clock, Incarnation};

/// A batch to carry.
pub(crate) struct ToCarry<'a> {
    pub batch: Batch<'a>,
    /// If it is known: its only determinant, a match.
    pub alone: Option<&'a Match>,
}

/// Writes the attachments of one lane.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    at: Progress,
    /// What was written last is not all on the lane: the next one is a base.
    is_open: bool,
    /// The coder is ahead of what was written last.
    is_cut: bool,
    known: Encoder,
}

impl Hash for Writer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.at, self.is_open, self.is_cut).hash(state);
        self.known.hash_known(state);
    }
}

/// What an attachment is to say.
pub(crate) struct Wanted<'a> {
    /// The life of the receiver.
    pub life: Incarnation,
    /// One past the last batch that came from the receiver, if that is not confirmed.
    pub confirms: Option<EventIndex>,
    /// Batches that make it longer, except the first, are left for the next.
    pub bytes_max: usize,
    /// Memory.
    pub scratch: &'a mut Scratch,
}

impl Writer {
    pub fn new() -> Self {
        Self {
            at: Progress::new(0, 0),
            is_open: true,
            is_cut: false,
            known: Encoder::new(),
        }
    }

    /// Writes the next attachment, with batches of this rank in their order. Returns one past its last
    /// determinant; `None` if there are none. `is_base`: it is to stand alone. It counts only once it is
    /// [`closed`](Self::close).
    #[inline]
    pub fn write<'b>(
        &mut self,
        is_base: bool,
        wanted: Wanted<'_>,
        batches: impl Iterator<Item = ToCarry<'b>>,
        out: &mut Vec<u8>,
    ) -> Option<EventIndex> {
        let Wanted {
            life,
            confirms,
            bytes_max,
            scratch,
        } = wanted;
        let mut batches = batches.peekable();
        let first = batches.peek()?.batch;
        let (clock, incarnation, first) = (first.first_clock, first.incarnation.0, first.first.0);
        let is_base = is_base || self.is_open || incarnation != self.at.incarnation;
        if is_base {
            self.at = Progress::new(incarnation, first);
            self.known.begin(Clock(0));
        }
        let gap = first.wrapping_sub(self.at.next);
        let is_skipped = self.known.skip(gap, clock);
        self.is_open = true;
        let mut end = first;
        scratch.counts.clear();
        scratch.bytes.clear();
        let mut is_cut = false;
        for ToCarry { batch, alone } in batches {
            if (batch.incarnation.0, batch.first.0) != (incarnation, end) {
                break;
            }
            let before = scratch.bytes.len();
            match alone {
                Some(alone) => self.known.matched(&mut scratch.bytes, alone),
                None => self.recode(&batch, scratch),
            }
            if scratch.bytes.len() > bytes_max && end > first {
                scratch.bytes.truncate(before);
                is_cut = true;
                break;
            }
            scratch.counts.push(batch.count);
            end = batch.end().0;
        }
        let begin = out.len();
        let further = confirms.map_or(0, |end| end.0.saturating_sub(self.at.confirmed));
        let confirm = (further.min(CONFIRM_LATER.into()) as u8) << CONFIRM_SHIFT;
        let counts = &scratch.counts[..];
        let is_usual = !is_base && is_skipped && gap < GAP_END && *counts == [1];
        let mut head = confirm | gap as u8;
        if is_usual {
            out.push(head);
        } else {
            let shape = shape_of(counts);
            let (base, is_gap) = (u8::from(is_base) * IS_BASE, u8::from(gap > 0) * IS_GAP);
            head = IS_OTHER | confirm | base | is_gap | shape;
            out.push(head);
            if is_base {
                for number in [VERSION, life.0.into(), incarnation.into(), first] {
                    put(out, number);
                }
            }
            if gap > 0 {
                // A gap above 2^63 is none that a rank can have.
                put(out, gap << 1 | u64::from(is_skipped));
            }
        }
        if further >= CONFIRM_LATER.into() {
            put(out, further);
        }
        if head & IS_OTHER != 0 {
            match (head & SHAPE, counts) {
                (LISTED, _) => {
                    put(out, counts.len() as u64);
                    counts.iter().for_each(|count| put(out, (*count).into()));
                }
                (FIRST_AND_ONES, [first, ones @ ..]) => {
                    out.push((*first as u8) << FIRST_SHIFT | ones.len() as u8);
                }
                _ => {}
            }
        }
        // As the last one, and one byte more: that byte says it all.
        if self.at.head == head && out.len() == begin + 1 && scratch.bytes.len() == 1 {
            out.truncate(begin);
        }
        out.extend_from_slice(&scratch.bytes);
        self.at = Progress {
            incarnation,
            next: end,
            confirmed: self.at.confirmed + further,
            head: if is_usual { head } else { NO_HEAD },
        };
        self.is_cut = is_cut;
        Some(EventIndex(end))
    }

    /// As [`Writer::write`], of one batch whose only determinant is this match: the common case. `from`: the
    /// life that made it, and its number. Returns whether it was written: a base is not.
    #[inline]
    pub fn write_alone(
        &mut self,
        carriage: Carriage,
        confirms: Option<EventIndex>,
        from: (Incarnation, EventIndex),
        alone: &Match,
        out: &mut Vec<u8>,
    ) -> bool {
        let (Incarnation(incarnation), EventIndex(first)) = from;
        let further = confirms.map_or(0, |end| end.0.saturating_sub(self.at.confirmed));
        let gap = first.wrapping_sub(self.at.next);
        let is_usual = !(carriage.may_be_first || self.is_open)
            && incarnation == self.at.incarnation
            && gap < GAP_END
            && further < CONFIRM_LATER.into()
            && carriage.bytes_max > ALONE_BYTES_MAX
            && self.known.skip(gap, alone.at);
        if !is_usual {
            return false;
        }
        self.is_open = true;
        self.is_cut = false;
        let head = (further as u8) << CONFIRM_SHIFT | gap as u8;
        let begin = out.len();
        out.push(head);
        self.known.matched(out, alone);
        // As the last one, and one byte more: that byte says it all.
        if head == self.at.head && out.len() == begin + 2 {
            out.swap_remove(begin);
        }
        self.at = Progress {
            incarnation,
            next: first + 1,
            confirmed: self.at.confirmed + further,
            head,
        };
        true
    }

    /// Writes the determinants of a batch, which are written against nothing there.
    fn recode(&mut self, batch: &Batch<'_>, scratch: &mut Scratch) {
        let mut payload = Bytes(batch.payload);
        scratch.decoder.begin(batch.first_clock);
        for _ in 0..batch.count {
            let read = scratch.decoder.determinant(&mut payload);
            let determinant = read.expect("a rank can read the batches that it has made");
            encode(&mut self.known, &determinant, &mut scratch.bytes);
        }
    }

    /// What was written last is on the lane.
    pub fn close(&mut self) {
        self.is_open = self.is_cut;
    }
}

/// The shape of batches with these numbers of determinants.
fn shape_of(counts: &[u16]) -> u8 {
    let most = usize::from(SHAPE - LONGEST + 1);
    match *counts {
        [count] if (2..=LONGEST.into()).contains(&count) => count as u8,
        [1, ref ones @ ..] if (1..most).contains(&ones.len()) && is_of_ones(ones) => {
            LONGEST + ones.len() as u8
        }
        [..=FIRST_MAX, ref ones @ ..] if ones.len() <= ONES_MAX && is_of_ones(ones) => {
            FIRST_AND_ONES
        }
        _ => LISTED,
    }
}

fn is_of_ones(counts: &[u16]) -> bool {
    counts.iter().all(|count| *count == 1)
}
