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

use super::Determinant;
use super::batch::{BatchHeader, PAYLOAD_BYTES_MAX};
use thiserror::Error;
use varint::{Bytes, PAIR_BYTES_MAX, VARINT_BYTES_MAX};

/// First byte of a match: bit 7. Then [`IS_COMPLETED`], [`WAY_SHIFT`] and the source.
const IS_MATCH: u8 = 0x80;
const IS_COMPLETED: u8 = 0x40;
/// How step of the clock and request are written, in two bits.
const WAY_SHIFT: u8 = 4;
/// Both are as predicted,
const AS_PREDICTED: u8 = 0;
/// or the step is, and the lag of the request;
const SAME_LAG: u8 = 1;
/// or only the lag: the step follows;
const OTHER_STEP: u8 = 2;
/// or a pair of step and lag follows.
const OTHER: u8 = 3;
/// Source and SSN, in four bits: a value below this is the place of a source in the order
/// in which sources were met, and its SSN is the predicted one.
const PLACES_SHORT: usize = 13;
/// The place follows.
const SOURCE_LATER: u8 = 13;
/// A pair follows: the place, and the difference of the SSN from the predicted one.
const SOURCE_UNEXPECTED: u8 = 14;
/// A source that has no place: rank and SSN follow.
const SOURCE_NEW: u8 = 15;

/// Before a match that is named if the last one was not, or the other way round.
const NAMED_CHANGES: u8 = 0x10;
/// Before a set that continues.
const SET_CONTINUES: u8 = 0x11;
/// A receive that was cancelled.
const TAG_CANCELLED: u8 = 0x12;
/// Bytes from outside.
const TAG_BYTES: u8 = 0x13;
/// A run of operations that found nothing: their number follows from their clocks.
const TAG_NOTHING: u8 = 0x14;
/// It does not.
const TAG_NOTHING_COUNTED: u8 = 0x15;
/// A successful probe, and the source in four bits.
const TAG_PROBE: u8 = 0x20;
/// A number from outside; its series in four bits.
const TAG_NUMBER: u8 = 0x30;
/// A set of completed requests. Then [`SET_OTHER`], [`SET_LISTED`], and in four bits their number if it is not 0
/// and fits.
const TAG_SET: u8 = 0x40;
/// Step and first request are not as predicted: a pair of step and lag follows.
const SET_OTHER: u8 = 0x20;
/// The requests do not follow each other directly: the distance of each from the one before follows.
const SET_LISTED: u8 = 0x10;
const SET_COUNT_MAX: u64 = 15;

/// The second byte of a probe: the step, in four bits, or that it follows;
const PROBE_STEP_SHIFT: u8 = 4;
const PROBE_STEP_LATER: u8 = 15;
/// the place of the tag among the last ones, in three bits, or that it follows;
const PROBE_TAG_SHIFT: u8 = 1;
const PROBE_TAG_LATER: u8 = 7;
/// the length is not that of the last probe, and follows.
const PROBE_LENGTH_LATER: u8 = 1;

/// Maximum length of a match or a probe in bytes: two of its own; rank and SSN; step, tag and length of a probe, which
/// are longer than a match's pair.
pub(super) const MATCH_BYTES_MAX: usize = 2 + (5 + VARINT_BYTES_MAX) + (5 + 2 * VARINT_BYTES_MAX);
/// Maximum length of a completion in bytes, without its requests.
pub(super) const COMPLETION_BYTES_MAX: usize = 2 + 1 + VARINT_BYTES_MAX + 2;
/// Maximum length of a completed request in bytes.
pub(super) const REQUEST_BYTES_MAX: usize = VARINT_BYTES_MAX;
/// Maximum length of a number from outside in bytes.
pub(super) const NUMBER_BYTES_MAX: usize = 1 + 2 * VARINT_BYTES_MAX;
/// Maximum length in bytes of a determinant with bytes from outside, without those bytes.
pub(super) const BYTES_HEAD_MAX: usize = 1 + VARINT_BYTES_MAX + 1;
/// Maximum length of any determinant in bytes.
pub(super) const DETERMINANT_BYTES_MAX: usize =
    COMPLETION_BYTES_MAX + Determinant::REQUESTS_MAX * REQUEST_BYTES_MAX;

// A match, and a run that found nothing.
const _: () = assert!(PAIR_BYTES_MAX <= 5 + 2 * VARINT_BYTES_MAX);
const _: () = assert!(1 + PAIR_BYTES_MAX + VARINT_BYTES_MAX <= MATCH_BYTES_MAX);
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
