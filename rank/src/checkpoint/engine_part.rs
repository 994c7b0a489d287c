//! Encodes the state of a rank's engine.

use refrain_ring::{Clock, Frontier, Rank, Ssn};
use refrain_transport::engine::{Beginning, Delivered, Undelivered};
use thiserror::Error;

/// Version of the engine part. A reader refuses every other version.
pub const ENGINE_VERSION: u8 = 3;

const MAGIC: [u8; 7] = *b"rfrneng";
const CHECKSUM_BYTES: usize = 4;

/// The bytes are not an engine part of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EnginePartError {
    /// The bytes end too early or too late.
    #[error("the engine part of a checkpoint has {0} bytes, which contradicts its header")]
    Length(usize),
    /// The magic number is wrong.
    #[error("not the engine part of a checkpoint")]
    Magic,
    /// The part was written by another version.
    #[error(
        "engine part of version {0}, this program reads version {ENGINE_VERSION}: use the refrain that wrote the checkpoint"
    )]
    Version(u8),
    /// The checksum is wrong.
    #[error("the engine part of a checkpoint is damaged: its checksum is wrong")]
    Checksum,
    /// The fields contradict each other.
    #[error("the engine part of a checkpoint contradicts itself: {0}")]
    Contradiction(&'static str),
}

/// Encodes the engine part of `rank`'s checkpoint.
pub fn encode_engine(rank: Rank, beginning: &Beginning) -> Vec<u8> {
    let mut out = Vec::new();
    out.extend_from_slice(&MAGIC);
    out.push(ENGINE_VERSION);
    // Place of the length, which is not known yet.
    put(&mut out, 0);
    out.extend_from_slice(&rank.0.to_le_bytes());
    out.extend_from_slice(&(beginning.next.len() as u32).to_le_bytes());
    put(&mut out, beginning.clock.0);
    for (next, delivered) in beginning.next.iter().zip(&beginning.delivered) {
        put_frontier(&mut out, next);
        put_frontier(&mut out, &delivered.until);
        put(&mut out, delivered.except.len() as u64);
        delivered.except.iter().for_each(|ssn| put(&mut out, ssn.0));
    }
    put(&mut out, beginning.undelivered.len() as u64);
    for message in &beginning.undelivered {
        put(&mut out, message.ssn.0);
        out.extend_from_slice(&message.source.0.to_le_bytes());
        out.extend_from_slice(&message.context.to_le_bytes());
        out.extend_from_slice(&message.tag.to_le_bytes());
        put(&mut out, message.payload.len() as u64);
        out.extend_from_slice(&message.payload);
    }
    let bytes = (out.len() + CHECKSUM_BYTES) as u64;
    out[8..16].copy_from_slice(&bytes.to_le_bytes());
    let checksum = crc32c::crc32c(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

/// Appends the number of streams, and the frontier's SSN of each.
pub(super) fn put_frontier(out: &mut Vec<u8>, frontier: &Frontier) {
    put(out, frontier.all().count() as u64);
    frontier.all().for_each(|ssn| put(out, ssn.0));
}

fn put(out: &mut Vec<u8>, word: u64) {
    out.extend_from_slice(&word.to_le_bytes());
}

/// Decodes the rank and state of an engine part.
///
/// # Errors
/// When this version cannot have written the bytes.
pub fn decode_engine(bytes: &[u8]) -> Result<(Rank, Beginning), EnginePartError> {
    let (body, checksum) = bytes
        .split_last_chunk::<CHECKSUM_BYTES>()
        .ok_or(EnginePartError::Length(bytes.len()))?;
    let mut fields = Fields {
        left: body,
        all: bytes.len(),
    };
    if fields.take()? != MAGIC {
        return Err(EnginePartError::Magic);
    }
    let [version] = fields.take()?;
    if version != ENGINE_VERSION {
        return Err(EnginePartError::Version(version));
    }
    if fields.u64()? != bytes.len() as u64 {
        return Err(EnginePartError::Length(bytes.len()));
    }
    if u32::from_le_bytes(*checksum) != crc32c::crc32c(body) {
        return Err(EnginePartError::Checksum);
    }
    let rank = Rank(fields.u32()?);
    let size = fields.u32()?;
    let clock = Clock(fields.u64()?);
    let mut beginning = Beginning {
        clock,
        ..Beginning::default()
    };
    for _ in 0..size {
        beginning.next.push(fields.frontier()?);
        beginning.delivered.push(fields.delivered()?);
    }
    for _ in 0..fields.u64()? {
        beginning.undelivered.push(fields.message()?);
    }
    if !fields.left.is_empty() {
        return Err(EnginePartError::Length(bytes.len()));
    }
    check(rank, &beginning).map_err(EnginePartError::Contradiction)?;
    Ok((rank, beginning))
}

/// Checks invariants of every checkpoint.
fn check(rank: Rank, beginning: &Beginning) -> Result<(), &'static str> {
    let own_next = beginning.next.get(rank.0 as usize);
    let own_next = own_next.ok_or("the job has no such rank")?;
    for delivered in &beginning.delivered {
        let except = &delivered.except;
        let were_sent = except.iter().all(|ssn| delivered.until.is_beyond(*ssn));
        if !except.is_sorted_by(|a, b| a < b) || !were_sent {
            return Err("a missing message is listed twice, or was never sent");
        }
    }
    let held = &beginning.undelivered;
    let has_arrived = |it: &Undelivered| match it.source == rank {
        true => own_next.is_beyond(it.ssn),
        false => (beginning.delivered.get(it.source.index()))
            .is_some_and(|of| of.until.is_beyond(it.ssn) && !of.except.contains(&it.ssn)),
    };
    let is_in_order = held.is_sorted_by(|a, b| (a.source, a.ssn) < (b.source, b.ssn));
    if !is_in_order || !held.iter().all(has_arrived) {
        return Err("messages that were not delivered are out of order, or never arrived");
    }
    Ok(())
}

/// The error of an invalid frontier.
pub(super) const STRANGE_STREAMS: &str = "its streams are not in their order";

/// The bytes that are not yet read, and the length of the part.
struct Fields<'a> {
    left: &'a [u8],
    all: usize,
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], EnginePartError> {
        let (field, left) = self
            .left
            .split_first_chunk()
            .ok_or(EnginePartError::Length(self.all))?;
        self.left = left;
        Ok(*field)
    }

    fn u32(&mut self) -> Result<u32, EnginePartError> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn u64(&mut self) -> Result<u64, EnginePartError> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn frontier(&mut self) -> Result<Frontier, EnginePartError> {
        let mut ssns = Vec::new();
        for _ in 0..self.u64()? {
            ssns.push(Ssn(self.u64()?));
        }
        let frontier = Frontier::of_all(&ssns);
        frontier.ok_or(EnginePartError::Contradiction(STRANGE_STREAMS))
    }

    fn delivered(&mut self) -> Result<Delivered, EnginePartError> {
        let mut delivered = Delivered {
            until: self.frontier()?,
            except: Vec::new(),
        };
        for _ in 0..self.u64()? {
            delivered.except.push(Ssn(self.u64()?));
        }
        Ok(delivered)
    }

    fn message(&mut self) -> Result<Undelivered, EnginePartError> {
        let ssn = Ssn(self.u64()?);
        let source = Rank(self.u32()?);
        let context = self.u32()?;
        let tag = i32::from_le_bytes(self.take()?);
        let bytes = usize::try_from(self.u64()?).ok();
        let (payload, left) = bytes
            .and_then(|bytes| self.left.split_at_checked(bytes))
            .ok_or(EnginePartError::Length(self.all))?;
        self.left = left;
        Ok(Undelivered {
            source,
            ssn,
            context,
            tag,
            payload: payload.into(),
        })
    }
}
