//! Type maps in nested form: repetitions and sequences instead of a list of basics.

use crate::basic::Basic;
use crate::bounds::Bounds;
use crate::error::TypeError;
use crate::signature::Signature;
use std::sync::Arc;

/// A type map and what follows from it.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) map: Map,
    /// Bytes of the data in memory.
    pub(crate) bytes: i64,
    /// Bytes of the data in external32.
    pub(crate) external_bytes: i64,
    pub(crate) bounds: Bounds,
    pub(crate) signature: Signature,
    /// Levels of shapes below this one.
    depth: u32,
}

/// What a type is made of, in the order of the message.
#[derive(Debug)]
pub(crate) enum Map {
    Basic(Basic),
    Repeat {
        count: i64,
        stride: i64,
        of: Arc<Shape>,
    },
    List(Box<[Part]>),
}

/// `count` items of a shape, each an extent behind the previous one, the first at `offset`.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) offset: i64,
    pub(crate) count: i64,
    pub(crate) of: Arc<Shape>,
}

/// Walking a shape recurses: deeper ones would need too much stack.
const DEPTH_MAX: u32 = 512;

impl Shape {
    pub(crate) fn basic(basic: Basic) -> Self {
        let bytes = i64::from(basic.bytes);
        Self {
            map: Map::Basic(basic),
            bytes,
            external_bytes: basic.external_bytes.into(),
            bounds: Bounds::basic(bytes, basic.alignment_bytes().into()),
            signature: Signature::basic(basic),
            depth: 0,
        }
    }

    /// `count` items, each `stride` bytes behind the previous one.
    pub(crate) fn repeat(count: i64, stride: i64, of: Arc<Self>) -> Result<Self, TypeError> {
        let part = of.measure(0, count, stride).ok_or(TypeError::TooLarge)?;
        Self::above(of.depth, part, Map::Repeat { count, stride, of })
    }

    /// Parts, one behind the other in the message.
    pub(crate) fn list(parts: Box<[Part]>) -> Result<Self, TypeError> {
        let mut whole = Measure::EMPTY;
        for part in &parts {
            let stride = part.of.bounds.extent();
            let part = part.of.measure(part.offset, part.count, stride);
            let sum = part.and_then(|part| whole.then(part));
            whole = sum.ok_or(TypeError::TooLarge)?;
        }
        let depth = parts.iter().map(|part| part.of.depth).max();
        Self::above(depth.unwrap_or(0), whole, Map::List(parts))
    }

    /// The same data between other markers.
    pub(crate) fn resized(of: Arc<Self>, lb: i64, extent: i64) -> Result<Self, TypeError> {
        let bounds = of.bounds.resized(lb, extent).ok_or(TypeError::TooLarge)?;
        let shape = Self::repeat(1, 0, of)?;
        Ok(Self { bounds, ..shape })
    }

    fn above(depth: u32, measure: Measure, map: Map) -> Result<Self, TypeError> {
        if depth == DEPTH_MAX {
            return Err(TypeError::TooDeep(DEPTH_MAX));
        }
        let Measure {
            bytes,
            external_bytes,
            bounds,
            signature,
        } = measure;
        Ok(Self {
            map,
            bytes,
            external_bytes,
            bounds,
            signature,
            depth: depth + 1,
        })
    }

    /// What follows from `count` items at a stride, the first at `offset`. `None` when numbers
    /// exceed 64 bits.
    fn measure(&self, offset: i64, count: i64, stride: i64) -> Option<Measure> {
        if count == 0 {
            return Some(Measure::EMPTY);
        }
        Some(Measure {
            bytes: self.bytes.checked_mul(count)?,
            external_bytes: self.external_bytes.checked_mul(count)?,
            bounds: self.bounds.repeated(offset, count, stride)?,
            signature: self.signature.repeated(count)?,
        })
    }
}

/// What follows from a type map.
struct Measure {
    bytes: i64,
    external_bytes: i64,
    bounds: Bounds,
    signature: Signature,
}

impl Measure {
    const EMPTY: Self = Self {
        bytes: 0,
        external_bytes: 0,
        bounds: Bounds::EMPTY,
        signature: Signature::EMPTY,
    };

    fn then(self, next: Self) -> Option<Self> {
        Some(Self {
            bytes: self.bytes.checked_add(next.bytes)?,
            external_bytes: self.external_bytes.checked_add(next.external_bytes)?,
            bounds: self.bounds.union(next.bounds)?,
            signature: self.signature.then(next.signature)?,
        })
    }
}
