//! Shape of a message: the positions of its bytes in a buffer, computed independently of
//! [`Layout`].

use crate::workload::prng::Prng;
use refrain::Layout;
use std::sync::Arc;

/// Maximum number of pieces of a random shape.
const PIECES_MAX: usize = 4096;

/// Offset and length of a piece, in bytes.
pub type Piece = (usize, usize);

/// Shape of a message in a buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// One piece, passed to the library as a plain slice.
    Plain(usize),
    /// One piece, passed as a layout.
    Contiguous(usize),
    /// Equal blocks at equal distances.
    Vector {
        count: usize,
        block_bytes: usize,
        /// Distance from the beginning of a block to that of the next.
        stride_bytes: usize,
    },
    /// Pieces in any order.
    Indexed(Vec<Piece>),
    /// A group of pieces that repeats.
    Structure {
        fields: Vec<Piece>,
        /// Distance from one repetition to the next.
        extent_bytes: usize,
        /// Number of repetitions.
        count: usize,
    },
}

impl Shape {
    /// A random shape for a message of `bytes`.
    pub fn random(prng: &mut Prng, bytes: usize) -> Self {
        match prng.below(6) {
            0 | 1 => Self::Plain(bytes),
            2 => Self::Contiguous(bytes),
            3 => Self::vector(prng, bytes),
            4 => Self::Indexed(Self::fields(prng, bytes, 16)),
            _ => Self::structure(prng, bytes),
        }
    }

    fn vector(prng: &mut Prng, bytes: usize) -> Self {
        let blocks = [1, 2, 3, 4, 8, 24, 64, 100, 256, 1024, 4096, 8192, 12_345];
        let fits = |&block: &usize| bytes.is_multiple_of(block) && bytes / block <= PIECES_MAX;
        let fitting: Vec<usize> = blocks.into_iter().filter(fits).collect();
        if fitting.is_empty() {
            return Self::Indexed(Self::fields(prng, bytes, 16));
        }
        let block_bytes = prng.pick(&fitting);
        Self::Vector {
            count: bytes / block_bytes,
            block_bytes,
            stride_bytes: block_bytes + prng.below(block_bytes.min(64) + 1),
        }
    }

    fn structure(prng: &mut Prng, bytes: usize) -> Self {
        let divides = |&count: &usize| bytes.is_multiple_of(count);
        let counts: Vec<usize> = (1..=16).filter(divides).collect();
        let count = prng.pick(&counts);
        let fields = Self::fields(prng, bytes / count, 4);
        Self::Structure {
            extent_bytes: end(&fields) + prng.below(16),
            fields,
            count,
        }
    }

    /// Pieces that add up to `bytes`, with gaps; some are empty, and half of the time they are out
    /// of order.
    fn fields(prng: &mut Prng, bytes: usize, most: usize) -> Vec<Piece> {
        let count = prng.between(1, most);
        let mut cuts: Vec<usize> = (1..count).map(|_| prng.below(bytes + 1)).collect();
        cuts.extend([0, bytes]);
        cuts.sort_unstable();
        let mut offset = prng.below(9);
        let mut fields = Vec::with_capacity(count);
        for ends in cuts.windows(2) {
            fields.push((offset, ends[1] - ends[0]));
            offset += ends[1] - ends[0] + prng.below(9);
        }
        if prng.chance(2) {
            prng.shuffle(&mut fields);
        }
        fields
    }

    /// The pieces in the order of the message.
    #[must_use]
    pub fn pieces(&self) -> Vec<Piece> {
        let repeated = |fields: &[Piece], count: usize, extent: usize| {
            let at = |i: usize| {
                fields
                    .iter()
                    .map(move |&(offset, n)| (i * extent + offset, n))
            };
            (0..count).flat_map(at).collect()
        };
        match self {
            Self::Plain(bytes) | Self::Contiguous(bytes) => vec![(0, *bytes)],
            Self::Vector {
                count,
                block_bytes,
                stride_bytes,
            } => repeated(&[(0, *block_bytes)], *count, *stride_bytes),
            Self::Indexed(pieces) => pieces.clone(),
            Self::Structure {
                fields,
                extent_bytes,
                count,
            } => repeated(fields, *count, *extent_bytes),
        }
    }

    /// Bytes that a buffer of this shape needs.
    #[must_use]
    pub fn span_bytes(&self) -> usize {
        end(&self.pieces())
    }

    /// Writes a message, or its beginning, to the pieces.
    pub fn scatter(&self, mut message: &[u8], buffer: &mut [u8]) {
        for (offset, bytes) in self.pieces() {
            let (now, later) = message.split_at(bytes.min(message.len()));
            buffer[offset..offset + now.len()].copy_from_slice(now);
            message = later;
        }
    }

    /// The layout of the library; `None` for a plain slice.
    ///
    /// # Errors
    /// The library refuses a valid shape.
    pub fn layout(&self) -> Result<Option<Arc<Layout>>, refrain::Error> {
        let layout = match self {
            Self::Plain(_) => return Ok(None),
            Self::Contiguous(bytes) => Ok(Layout::contiguous(*bytes)),
            Self::Vector {
                count,
                block_bytes,
                stride_bytes,
            } => Layout::vector(*count, *block_bytes, *stride_bytes),
            Self::Indexed(pieces) => Layout::indexed(pieces),
            Self::Structure {
                fields,
                extent_bytes,
                count,
            } => Layout::structure(fields, *extent_bytes, *count),
        };
        let layout =
            layout.map_err(|error| refrain::Error::Argument(format!("{self:?}: {error}")))?;
        Ok(Some(Arc::new(layout)))
    }
}

fn end(pieces: &[Piece]) -> usize {
    let ends = pieces.iter().map(|&(offset, bytes)| offset + bytes);
    ends.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::payload;

    #[test]
    fn random_shapes_hold_their_message_without_overlap() {
        let mut prng = Prng::new(11);
        for case in 0..2000 {
            let bytes = prng.below(300);
            let shape = Shape::random(&mut prng, bytes);
            assert_eq!(message_bytes(&shape), bytes, "case {case}: {shape:?}");
            let mut used = vec![false; shape.span_bytes()];
            for (offset, bytes) in shape.pieces() {
                for byte in &mut used[offset..offset + bytes] {
                    assert!(!*byte, "case {case}: {shape:?} uses a byte twice");
                    *byte = true;
                }
            }
        }
    }

    /// Bytes of a message of this shape.
    fn message_bytes(shape: &Shape) -> usize {
        shape.pieces().iter().map(|&(_, bytes)| bytes).sum()
    }

    #[test]
    fn shapes_agree_with_layouts() {
        let mut prng = Prng::new(12);
        for case in 0..500 {
            let bytes = prng.below(5000);
            let shape = Shape::random(&mut prng, bytes);
            if let Some(layout) = shape.layout().unwrap() {
                assert_eq!(
                    layout.message_bytes(),
                    bytes as u64,
                    "case {case}: {shape:?}"
                );
                assert!(
                    layout.span_bytes() <= shape.span_bytes(),
                    "case {case}: {shape:?}"
                );
            }
        }
    }

    #[test]
    fn scatter_puts_a_message_and_its_beginning_in_order() {
        let shape = Shape::Indexed(vec![(6, 2), (0, 3), (4, 0)]);
        let mut buffer = vec![0; shape.span_bytes()];
        shape.scatter(&[1, 2, 3, 4, 5], &mut buffer);
        assert_eq!(buffer, [3, 4, 5, 0, 0, 0, 1, 2]);
        let mut buffer = vec![0; shape.span_bytes()];
        shape.scatter(&payload::make(1, 3), &mut buffer);
        assert_eq!(buffer[3..6], [0; 3]);
        assert_eq!(buffer[1..3], [0; 2]);
    }
}
