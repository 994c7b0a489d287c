//! The payload of a batch: each determinant is encoded as its difference from a prediction
//! made from those before it in the batch (docs/formats/event-format.md).

mod alone;
mod decoder;
mod encoder;
mod prediction;
pub(crate) mod varint;

pub(crate) use alone::{ALONE_BYTES_MAX, match_alone};
pub(crate) use decoder::Decoder;
pub(crate) use encoder::Encoder;

use super::batch::{BatchHeader, PAYLOAD_BYTES_MAX};
use super::{Determinant, Match};
use thiserror::Error;
use varint::{Bytes, VARINT_BYTES_MAX};

/// First byte of a match: bit 7. Then [`STEP_SHIFT`], [`OTHER`] and the source.
const IS_MATCH: u8 = 0x80;
/// The step of the clock, in two bits: 0 the same as the last step of its kind, 1 and 2
/// the step itself, 3 a number that follows.
const STEP_SHIFT: u8 = 5;
const STEPS_MAX: u64 = 2;
const STEP_LATER: u8 = 3;
/// The request of a match, or the length of a probe, is not the predicted one.
const OTHER: u8 = 0x10;
/// Source and SSN, in four bits: a value below this is the place of a source in the order
/// in which sources were met, and its SSN is the predicted one.
const PLACES_SHORT: usize = 13;
/// The place follows.
const SOURCE_LATER: u8 = 13;
/// The place follows, then the difference of the SSN from the predicted one.
const SOURCE_UNEXPECTED: u8 = 14;
/// A source that has no place: rank and SSN follow.
const SOURCE_NEW: u8 = 15;

/// Before a match whose flags differ from those of the last.
const TAG_MODE: u8 = 0x10;
const MODE_COMPLETED: u8 = 1;
const MODE_NAMED: u8 = 2;
/// Before the byte of a successful probe, in which bit 7 is [`TAG_OTHER`].
const TAG_PROBE: u8 = 0x20;
/// The tag is not that of the last probe.
const TAG_OTHER: u8 = 0x80;
/// A set of completed requests: their number, in three bits if it fits.
const TAG_COMPLETION: u8 = 0x30;
const SET_CONTINUES: u8 = 8;
const SET_COUNT_MAX: u64 = 7;
const COUNT_LATER: u8 = 0;
/// A run of operations that found nothing.
const TAG_NOTHING: u8 = 0x40;
/// The number of the operations does not follow from their clocks.
const NOTHING_COUNT: u8 = 1;
/// A receive that was cancelled.
const TAG_CANCELLED: u8 = 0x50;
/// A number from outside; its series in four bits.
const TAG_NUMBER: u8 = 0x60;
/// Bytes from outside.
const TAG_BYTES: u8 = 0x70;

#[inline]
fn mode_of(matched: &Match) -> u8 {
    let completed = if matched.is_completed {
        MODE_COMPLETED
    } else {
        0
    };
    completed | if matched.is_named { MODE_NAMED } else { 0 }
}

/// The kinds of determinants with their own steps of the clock.
#[derive(Clone, Copy)]
enum Stepping {
    Match,
    Probe,
}

/// Maximum length of a match or a probe in bytes: two of its own; step, length or
/// request, SSN; place or rank; tag.
pub(super) const MATCH_BYTES_MAX: usize = 2 + 3 * VARINT_BYTES_MAX + 5 + 5;
/// Maximum length of a completion in bytes, without its requests.
pub(super) const COMPLETION_BYTES_MAX: usize = 1 + VARINT_BYTES_MAX + 2;
/// Maximum length of a completed request in bytes.
pub(super) const REQUEST_BYTES_MAX: usize = VARINT_BYTES_MAX;
/// Maximum length of a number from outside in bytes.
pub(super) const NUMBER_BYTES_MAX: usize = 1 + 2 * VARINT_BYTES_MAX;
/// Maximum length in bytes of a determinant with bytes from outside, without those bytes.
pub(super) const BYTES_HEAD_MAX: usize = 1 + VARINT_BYTES_MAX + 1;
/// Maximum length of any determinant in bytes.
pub(super) const DETERMINANT_BYTES_MAX: usize =
    COMPLETION_BYTES_MAX + Determinant::REQUESTS_MAX * REQUEST_BYTES_MAX;

const _: () = assert!(MATCH_BYTES_MAX <= DETERMINANT_BYTES_MAX);
const _: () = assert!(BYTES_HEAD_MAX + Determinant::BYTES_MAX <= DETERMINANT_BYTES_MAX);
const _: () = assert!(DETERMINANT_BYTES_MAX <= PAYLOAD_BYTES_MAX);

/// Why a payload is not a sequence of determinants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("determinant {index} of the batch cannot be read: {reason}")]
pub struct RecordError {
    /// Index of the determinant in the batch, from 0.
    pub index: u16,
    /// The problem.
    pub reason: &'static str,
}

/// The payload of a batch of these determinants. It can be decoded only if a
/// [`Recorder`](super::recorder::Recorder) gave the determinants: within the
/// limits of a batch, with clocks that never decrease.
pub fn encode(determinants: &[Determinant]) -> Vec<u8> {
    let mut payload = Vec::new();
    let mut encoder = Encoder::new();
    if let Some(first) = determinants.first() {
        encoder.begin(first.at());
    }
    for determinant in determinants {
        encoder.determinant(
            &mut payload,
            determinant,
            |requests| requests.iter().copied(),
            |bytes| bytes.iter().copied(),
        );
    }
    payload
}

/// The determinants of a batch whose checksum is correct.
///
/// # Errors
/// When the payload is not exactly what this version writes, or does not
/// match the header (length, count, first and last clock).
pub fn decode(header: &BatchHeader, payload: &[u8]) -> Result<Vec<Determinant>, RecordError> {
    let malformed = |index, reason| RecordError { index, reason };
    if payload.len() != header.payload_bytes as usize {
        return Err(malformed(
            0,
            "the payload is not as long as its header says",
        ));
    }
    if usize::from(header.count) > payload.len() {
        return Err(malformed(0, "the batch has fewer bytes than determinants"));
    }
    let (mut decoder, mut bytes) = (Decoder::new(), Bytes(payload));
    decoder.begin(header.first_clock);
    let mut determinants: Vec<Determinant> = Vec::with_capacity(header.count.into());
    for index in 0..header.count {
        let determinant = decoder
            .determinant(&mut bytes)
            .map_err(|reason| malformed(index, reason))?;
        if let Some(before) = determinants.last()
            && !may_follow(before, &determinant)
        {
            return Err(malformed(index, "it does not continue the unfinished set"));
        }
        determinants.push(determinant);
    }
    let last = header.count.saturating_sub(1);
    if bytes.left() > 0 {
        return Err(malformed(last, "bytes follow the last determinant"));
    }
    let clocks = |at: Option<&Determinant>| at.map(Determinant::at);
    if clocks(determinants.first()) != Some(header.first_clock) {
        return Err(malformed(0, "its clock is not the header's first clock"));
    }
    if clocks(determinants.last()) != Some(header.last_clock) {
        return Err(malformed(last, "its clock is not the header's last clock"));
    }
    // Every sequence has one encoding only: any other readable payload was not
    // written by this version.
    if encode(&determinants) != payload {
        return Err(malformed(
            0,
            "the payload is not encoded as this version encodes it",
        ));
    }
    Ok(determinants)
}

/// Whether `next` may follow: a set that continues does so at the same clock.
fn may_follow(before: &Determinant, next: &Determinant) -> bool {
    match before {
        Determinant::Completion {
            continues: true,
            at: set,
            ..
        } => matches!(next, Determinant::Completion { at, .. } if at == set),
        _ => true,
    }
}
