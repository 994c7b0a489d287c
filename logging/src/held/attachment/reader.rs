//! The readers of attachments.

use super::{
    CONFIRM_LATER, CONFIRM_SHIFT, FIRST_AND_ONES, FIRST_SHIFT, GAP_END, IS_BASE, IS_GAP, IS_OTHER,
    LISTED, LONGEST, NO_HEAD, ONES_MAX, Progress, SHAPE, Scratch, Taken, VERSION, encode,
};
use crate::determinant::batch::{COUNT_MAX, PAYLOAD_BYTES_MAX};
use crate::determinant::record::varint::Bytes;
use crate::determinant::record::{ALONE_BYTES_MAX, Decoder, match_alone};
use crate::determinant::{Determinant, EventIndex};
use crate::held::batch::Batch;
use crate::held::row::Row;
use refrain_ring::{Clock, Incarnation};

const TOO_HIGH: &str = "a number in an attachment is too high";

/// Reads the numbers of attachments, and not their determinants.
#[derive(Clone, Debug, Default, Hash)]
struct Numbers {
    /// `None`: no base has come.
    at: Option<Progress>,
}

/// What an attachment says beside its determinants.
struct Numbered<'a> {
    is_base: bool,
    /// The life that made the determinants, and the first one.
    incarnation: u32,
    first: u64,
    /// How many determinants before it count as like the last one.
    skipped: u64,
    taken: Taken,
    determinants: Bytes<'a>,
}

impl Numbers {
    /// Takes the next attachment; writes the number of determinants in each of its batches. `None`: it is for
    /// another life than `life`. After an error none is taken until the next base.
    #[inline]
    fn take<'a>(
        &mut self,
        attachment: &'a [u8],
        life: Option<Incarnation>,
        counts: &mut Vec<u16>,
    ) -> Result<Option<Numbered<'a>>, &'static str> {
        let mut rest = Bytes(attachment);
        // One byte is a determinant, behind the head of the last one.
        let head = match (attachment, &self.at) {
            ([_], Some(at)) => at.head,
            ([_], None) => NO_HEAD,
            _ => rest.byte()?,
        };
        let is_other = head & IS_OTHER != 0;
        let is_base = is_other && head & IS_BASE != 0;
        if is_base {
            self.at = None;
            if rest.number()? != VERSION {
                return Err("an attachment is of another version");
            }
            let for_life = Incarnation(rest.number_u32()?);
            if life.is_some_and(|life| life != for_life) {
                return Ok(None);
            }
            self.at = Some(Progress::new(rest.number_u32()?, rest.number()?));
        }
        let Some(mut at) = self.at.take() else {
            return match life {
                Some(_) => Ok(None),
                None => Err("an attachment has no base before it"),
            };
        };
        let (mut gap, mut is_skipped) = (0, false);
        if !is_other {
            (gap, is_skipped) = (u64::from(head) % GAP_END, true);
        } else if head & IS_GAP != 0 {
            let number = rest.number()?;
            (gap, is_skipped) = (number >> 1, number & 1 != 0);
        }
        at.next = at.next.checked_add(gap).ok_or(TOO_HIGH)?;
        let further = match head >> CONFIRM_SHIFT & CONFIRM_LATER {
            CONFIRM_LATER => rest.number()?,
            further => further.into(),
        };
        at.confirmed = at.confirmed.checked_add(further).ok_or(TOO_HIGH)?;
        counts.clear();
        match head & SHAPE {
            _ if !is_other => counts.push(1),
            LISTED => read_counts(&mut rest, counts)?,
            FIRST_AND_ONES => {
                let byte = rest.byte()?;
                match u16::from(byte >> FIRST_SHIFT) {
                    0 => return Err("a batch has no determinants"),
                    first => counts.push(first),
                }
                counts.resize(1 + usize::from(byte) % (ONES_MAX + 1), 1);
            }
            count @ ..=LONGEST => counts.push(count.into()),
            ones => counts.resize(usize::from(ones - LONGEST + 1), 1),
        }
        let first = at.next;
        let count: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        at.next = first.checked_add(count).ok_or(TOO_HIGH)?;
        at.head = if is_other { NO_HEAD } else { head };
        self.at = Some(at);
        Ok(Some(Numbered {
            is_base,
            incarnation: at.incarnation,
            first,
            skipped: if is_skipped { gap } else { 0 },
            taken: Taken {
                confirms: (further > 0).then_some(EventIndex(at.confirmed)),
                end: EventIndex(at.next),
            },
            determinants: rest,
        }))
    }
}

#[cold]
fn read_counts(rest: &mut Bytes<'_>, counts: &mut Vec<u16>) -> Result<(), &'static str> {
    let batches = rest.number()?;
    // Each batch has a determinant, each determinant a byte.
    if batches > rest.left() as u64 {
        return Err("an attachment is cut short");
    }
    for _ in 0..batches {
        counts.push(read_count(rest)?);
    }
    Ok(())
}

fn read_count(rest: &mut Bytes<'_>) -> Result<u16, &'static str> {
    let count = u16::try_from(rest.number()?).ok();
    let count = count.filter(|count| (1..=COUNT_MAX).contains(count));
    count.ok_or("a batch has a wrong number of determinants")
}

/// Reads the attachments of one lane.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Reader {
    numbers: Numbers,
    known: Decoder,
}

impl Reader {
    pub fn new() -> Self {
        Self {
            numbers: Numbers::default(),
            known: Decoder::new(),
        }
    }

    /// Takes the next attachment, and appends its batches to `row`. `None`: it is for another life than
    /// `life`.
    ///
    /// # Errors
    /// When it is none. Then none is taken until the next base.
    pub fn take(
        &mut self,
        attachment: &[u8],
        life: Option<Incarnation>,
        row: &mut Row,
        scratch: &mut Scratch,
    ) -> Result<Option<Taken>, &'static str> {
        let numbered = self.numbers.take(attachment, life, &mut scratch.counts)?;
        let Some(numbered) = numbered else {
            return Ok(None);
        };
        let taken = numbered.taken;
        let read = self.read(numbered, row, scratch);
        if read.is_err() {
            self.numbers = Numbers::default();
        }
        read.map(|()| Some(taken))
    }

    fn read(
        &mut self,
        numbered: Numbered<'_>,
        row: &mut Row,
        scratch: &mut Scratch,
    ) -> Result<(), &'static str> {
        if numbered.is_base {
            self.known.begin(Clock(0));
        }
        self.known.skip(numbered.skipped);
        let mut rest = numbered.determinants;
        let mut first = numbered.first;
        let incarnation = Incarnation(numbered.incarnation);
        for &count in &scratch.counts {
            let determinant = self.known.determinant(&mut rest)?;
            let first_clock = determinant.at();
            let (mut last_clock, mut alone) = (first_clock, [0; ALONE_BYTES_MAX]);
            let payload = match &determinant {
                Determinant::Match(matched) if count == 1 => {
                    let bytes = match_alone(&mut alone, matched);
                    &alone[..bytes]
                }
                _ => {
                    scratch.bytes.clear();
                    scratch.encoder.begin(first_clock);
                    encode(&mut scratch.encoder, &determinant, &mut scratch.bytes);
                    for _ in 1..count {
                        let determinant = self.known.determinant(&mut rest)?;
                        last_clock = determinant.at();
                        encode(&mut scratch.encoder, &determinant, &mut scratch.bytes);
                    }
                    &scratch.bytes
                }
            };
            if payload.len() > PAYLOAD_BYTES_MAX {
                return Err("a batch has a wrong length");
            }
            row.push(&Batch {
                incarnation,
                first: EventIndex(first),
                count,
                first_clock,
                last_clock,
                payload,
            });
            // The sum was checked.
            first += u64::from(count);
        }
        match rest.left() {
            0 => Ok(()),
            _ => Err("bytes follow the determinants of an attachment"),
        }
    }
}

/// Bytes of attachments from which on they are read at once.
const UNREAD_BYTES_MAX: usize = 4096;

/// What comes on one lane. An attachment is kept when it comes, and its numbers are read; its determinants are
/// read when there is time, or when they are needed.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Incoming {
    numbers: Numbers,
    /// Each behind two bytes with its length.
    unread: Vec<u8>,
    reader: Reader,
}

impl Incoming {
    pub fn new() -> Self {
        Self {
            numbers: Numbers::default(),
            unread: Vec::new(),
            reader: Reader::new(),
        }
    }

    /// Takes the next attachment, or what a carrier holds. `None`: it is for another life than `life`.
    ///
    /// # Errors
    /// When it is none, as far as its numbers show that.
    #[inline]
    pub fn take(
        &mut self,
        attachment: &[u8],
        life: Incarnation,
        scratch: &mut Scratch,
    ) -> Result<Option<Taken>, &'static str> {
        let numbered = (self.numbers).take(attachment, Some(life), &mut scratch.counts)?;
        let Some(numbered) = numbered else {
            return Ok(None);
        };
        match *attachment {
            // The common case, without a function call.
            [determinant] => self.unread.extend_from_slice(&[1, 0, determinant]),
            _ => {
                let bytes = u16::try_from(attachment.len()).ok();
                let bytes = bytes.ok_or("an attachment is too long")?;
                self.unread.extend_from_slice(&bytes.to_le_bytes());
                self.unread.extend_from_slice(attachment);
            }
        }
        Ok(Some(numbered.taken))
    }

    /// Whether it is time to read.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.unread.len() >= UNREAD_BYTES_MAX
    }

    /// Whether [`Incoming::read`] would read none.
    pub fn is_read(&self) -> bool {
        self.unread.is_empty()
    }

    /// Reads all that is not read, and appends the batches to `row`.
    ///
    /// # Errors
    /// As [`Reader::take`].
    pub fn read(
        &mut self,
        life: Incarnation,
        row: &mut Row,
        scratch: &mut Scratch,
    ) -> Result<(), &'static str> {
        let mut rest = &*self.unread;
        let mut read = Ok(());
        while let Some((bytes, behind)) = rest.split_first_chunk()
            && read.is_ok()
        {
            let (attachment, behind) = behind.split_at(u16::from_le_bytes(*bytes).into());
            rest = behind;
            let taken = self.reader.take(attachment, Some(life), row, scratch);
            read = taken.map(drop);
        }
        self.unread.clear();
        read
    }
}
