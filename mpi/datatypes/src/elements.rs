//! How many basic elements a number of bytes holds (MPI-5.0, MPI_Get_elements).

use crate::datatype::Datatype;
use crate::shape::{Map, Shape};

/// Basic elements in the first bytes of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Elements {
    /// Whole elements.
    pub whole: i64,
    /// Bytes of an element that is not whole.
    pub left_bytes: i64,
}

impl Datatype {
    /// The elements in `bytes` bytes of a message of items of this type. `None` when a message cannot
    /// have so many bytes: the type has no data, or the number is negative.
    pub fn elements(&self, bytes: i64) -> Option<Elements> {
        let shape = self.shape();
        match (bytes, shape.bytes) {
            (0, _) => Some(Elements::default()),
            (_, 0) | (..0, _) => None,
            _ => elements_of(shape, bytes),
        }
    }

    /// Bytes of the first `elements` basic elements of a message of items of this type (the inverse
    /// of [`elements`](Self::elements), for MPI_Status_set_elements). `None` when there are no such
    /// bytes or they exceed 64 bits.
    pub fn bytes_of_elements(&self, elements: i64) -> Option<i64> {
        let each = self.signature().elements;
        if elements <= 0 || each == 0 {
            return (elements == 0).then_some(0);
        }
        let items = self.size().checked_mul(elements / each)?;
        items.checked_add(bytes_of(self.shape(), elements % each))
    }
}

/// The elements in `bytes` bytes of items, which have data.
fn elements_of(shape: &Shape, bytes: i64) -> Option<Elements> {
    let items = bytes / shape.bytes;
    let whole = shape.signature.elements.checked_mul(items)?;
    let within = elements_within(shape, bytes - items * shape.bytes)?;
    Some(Elements {
        whole: whole.checked_add(within.whole)?,
        ..within
    })
}

/// The elements in `bytes` bytes of one item, which has more.
fn elements_within(shape: &Shape, bytes: i64) -> Option<Elements> {
    if bytes == 0 {
        return Some(Elements::default());
    }
    match &shape.map {
        Map::Basic(_) => Some(Elements {
            whole: 0,
            left_bytes: bytes,
        }),
        Map::Repeat { of, .. } => elements_of(of, bytes),
        Map::List(parts) => {
            let (mut whole, mut left) = (0, bytes);
            for part in parts.iter().filter(|part| part.of.bytes > 0) {
                let part_bytes = part.of.bytes * part.count;
                if left < part_bytes {
                    let last = elements_of(&part.of, left)?;
                    return Some(Elements {
                        whole: whole + last.whole,
                        ..last
                    });
                }
                whole += part.of.signature.elements * part.count;
                left -= part_bytes;
            }
            None
        }
    }
}

/// Bytes of the first elements of one item, which has more.
fn bytes_of(shape: &Shape, elements: i64) -> i64 {
    match &shape.map {
        Map::Basic(_) => 0,
        Map::Repeat { of, .. } => bytes_of_items(of, elements),
        Map::List(parts) => {
            let (mut bytes, mut left) = (0, elements);
            for part in parts {
                let in_part = part.of.signature.elements * part.count;
                if left < in_part {
                    return bytes + bytes_of_items(&part.of, left);
                }
                bytes += part.of.bytes * part.count;
                left -= in_part;
            }
            bytes
        }
    }
}

fn bytes_of_items(of: &Shape, elements: i64) -> i64 {
    let each = of.signature.elements.max(1);
    elements / each * of.bytes + bytes_of(of, elements % each)
}
