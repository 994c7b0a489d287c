//! The first page of a checkpoint.

use super::{FORMAT_VERSION, Flaw, IncarnationNumber, RankNumber, is_zero, u32_at, u64_at};
use refrain_ring::{Incarnation, Rank};
use serde::{Deserialize, Serialize};

/// Bytes of the page: direct I/O requires multiples of it.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of the page that contain fields.
const HEADER_BYTES: usize = 64;
const MAGIC: [u8; 8] = *b"rfrnckpt";

const _: () = assert!(size_of::<u64>() * 5 + 24 == HEADER_BYTES && HEADER_BYTES < PAGE_BYTES);

/// The header of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The job.
    pub job: u64,
    /// The rank.
    #[serde(with = "RankNumber")]
    pub rank: Rank,
    /// The life of the rank that wrote it.
    #[serde(with = "IncarnationNumber")]
    pub incarnation: Incarnation,
    /// The number of the rank's checkpoint, from 1; it grows from life to life.
    pub number: u64,
    /// A random number that is part of the checksums of all pieces: a piece of another checkpoint
    /// in the same place is detected.
    pub salt: u64,
}

impl Header {
    /// Writes the header into its page.
    ///
    /// # Panics
    /// When `page` is shorter than a page.
    pub fn encode(&self, page: &mut [u8]) {
        let page = &mut page[..PAGE_BYTES];
        page.fill(0);
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        page[12..16].copy_from_slice(&self.rank.0.to_le_bytes());
        page[16..20].copy_from_slice(&self.incarnation.0.to_le_bytes());
        page[24..32].copy_from_slice(&self.job.to_le_bytes());
        page[32..40].copy_from_slice(&self.number.to_le_bytes());
        page[40..48].copy_from_slice(&self.salt.to_le_bytes());
        let checksum = crc32fast::hash(&page[..HEADER_BYTES - 4]);
        page[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    }

    /// Reads the header from a page.
    ///
    /// # Errors
    /// When this version cannot have written the bytes.
    pub fn decode(page: &[u8]) -> Result<Self, Flaw> {
        let page: &[u8; PAGE_BYTES] = page.first_chunk().ok_or(Flaw::Short)?;
        if page[..8] != MAGIC {
            return Err(Flaw::Magic);
        }
        // Checked before the checksum, whose place depends on the version.
        let version = u32_at(page, 8);
        if version != FORMAT_VERSION {
            return Err(Flaw::Version(version));
        }
        let (hashed, checksum) = page[..HEADER_BYTES].split_at(HEADER_BYTES - 4);
        let unused = [&page[20..24], &page[48..60], &page[HEADER_BYTES..]];
        let number = u64_at(page, 32);
        if crc32fast::hash(hashed) != u32_at(checksum, 0)
            || !unused.into_iter().all(is_zero)
            || number == 0
        {
            return Err(Flaw::Header);
        }
        Ok(Self {
            job: u64_at(page, 24),
            rank: Rank(u32_at(page, 12)),
            incarnation: Incarnation(u32_at(page, 16)),
            number,
            salt: u64_at(page, 40),
        })
    }
}
