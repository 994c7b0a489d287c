//! The representation "external32" (MPI-5.0, 14.5.2): big-endian, without padding, with lengths that
//! are the same on all machines.
//!
//! Converts between the dense form of data, whose elements lie one behind the other in the order of
//! the message, and external32. The layout of the type says where the dense form is in memory.

use crate::basic::{Basic, Class};
use crate::datatype::Datatype;
use crate::error::TypeError;
use crate::quad;
use crate::shape::{Map, Shape};

/// Which way to convert.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    Encode,
    Decode,
}

/// The dense form and the external one: one is read, the other written.
struct Conversion<'a> {
    direction: Direction,
    from: &'a [u8],
    to: &'a mut [u8],
}

impl Datatype {
    /// Bytes of one item in external32.
    pub fn external_size(&self) -> i64 {
        self.shape().external_bytes
    }

    /// Converts `count` items of the dense form to external32.
    ///
    /// # Errors
    /// [`TypeError::Buffer`] for buffers of other lengths; [`TypeError::Conversion`] for a value that
    /// external32 cannot have: a `long` beyond 32 bits, a wide character beyond 16 bits.
    pub fn encode(&self, count: i64, dense: &[u8], external: &mut [u8]) -> Result<(), TypeError> {
        self.check(count, self.size(), dense.len())?;
        self.check(count, self.external_size(), external.len())?;
        Conversion {
            direction: Direction::Encode,
            from: dense,
            to: external,
        }
        .items(self.shape(), count)
    }

    /// Converts `count` items in external32 to the dense form.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn decode(&self, count: i64, external: &[u8], dense: &mut [u8]) -> Result<(), TypeError> {
        self.check(count, self.external_size(), external.len())?;
        self.check(count, self.size(), dense.len())?;
        Conversion {
            direction: Direction::Decode,
            from: external,
            to: dense,
        }
        .items(self.shape(), count)
    }

    fn check(&self, count: i64, each: i64, bytes: usize) -> Result<(), TypeError> {
        let expected = each.checked_mul(count).ok_or(TypeError::TooLarge)?;
        match i64::try_from(bytes) == Ok(expected) {
            true => Ok(()),
            false => Err(TypeError::Buffer {
                count,
                expected,
                bytes,
            }),
        }
    }
}

impl Conversion<'_> {
    fn items(&mut self, shape: &Shape, count: i64) -> Result<(), TypeError> {
        if shape.bytes == 0 {
            return Ok(());
        }
        match &shape.map {
            Map::Basic(basic) => self.basics(*basic, count),
            Map::Repeat {
                count: each, of, ..
            } if matches!(of.map, Map::Basic(_)) => self.items(of, each * count),
            Map::Repeat {
                count: each, of, ..
            } => (0..count).try_for_each(|_| self.items(of, *each)),
            Map::List(parts) => (0..count)
                .flat_map(|_| parts)
                .try_for_each(|part| self.items(&part.of, part.count)),
        }
    }

    fn basics(&mut self, basic: Basic, count: i64) -> Result<(), TypeError> {
        let parts = basic.parts();
        let count = count as usize * usize::from(parts);
        let [native, external] = [basic.bytes, basic.external_bytes].map(|it| it / parts);
        let (from_bytes, to_bytes) = match self.direction {
            Direction::Encode => (native, external),
            Direction::Decode => (external, native),
        };
        // The lengths of both sides were checked.
        let (from, from_left) = self.from.split_at(count * usize::from(from_bytes));
        let (to, to_left) =
            core::mem::take(&mut self.to).split_at_mut(count * usize::from(to_bytes));
        (self.from, self.to) = (from_left, to_left);
        let direction = self.direction;
        let numbers =
            (from.chunks_exact(from_bytes.into())).zip(to.chunks_exact_mut(to_bytes.into()));
        for (from, to) in numbers {
            let is_converted = match (basic.class, direction) {
                (Class::LongDouble | Class::LongDoubleComplex, _) if HAS_80_BITS => {
                    long_double(direction, from, to);
                    true
                }
                _ => integer(basic.class, direction, from, to),
            };
            if !is_converted {
                return Err(TypeError::Conversion {
                    native_bytes: native,
                    external_bytes: external,
                });
            }
        }
        Ok(())
    }
}

/// Whether `long double` has 80 bits on this machine. Elsewhere it is taken for binary128.
const HAS_80_BITS: bool = cfg!(any(target_arch = "x86_64", target_arch = "x86"));

/// Converts a number by reversing its bytes if need be, and by extending or cutting it. Tells whether the value is
/// still the same.
fn integer(class: Class, direction: Direction, from: &[u8], to: &mut [u8]) -> bool {
    let is_little = |is_native| is_native && cfg!(target_endian = "little");
    let from_little = is_little(direction == Direction::Encode);
    let to_little = is_little(direction == Direction::Decode);
    if from.len() == to.len() {
        to.copy_from_slice(from);
        if from_little != to_little {
            to.reverse();
        }
        return true;
    }
    let mut wide = [0; 16];
    let least_first =
        |at: usize, bytes: usize, little: bool| if little { at } else { bytes - 1 - at };
    for at in 0..from.len() {
        wide[at] = from[least_first(at, from.len(), from_little)];
    }
    let is_signed = class == Class::Signed;
    extend(&mut wide, from.len(), is_signed);
    for at in 0..to.len() {
        to[least_first(at, to.len(), to_little)] = wide[at];
    }
    let value = wide;
    extend(&mut wide, to.len(), is_signed);
    wide == value
}

/// Extends a number of so many bytes, the least first, to all bytes.
fn extend(wide: &mut [u8; 16], bytes: usize, is_signed: bool) {
    let sign = if is_signed && wide[bytes - 1] > 0x7f {
        0xff
    } else {
        0
    };
    wide[bytes..].fill(sign);
}

fn long_double(direction: Direction, from: &[u8], to: &mut [u8]) {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(from);
    let number = match direction {
        Direction::Encode => {
            let number = u128::from_le_bytes(bytes);
            quad::widened(number as u64, (number >> 64) as u16).to_be_bytes()
        }
        Direction::Decode => {
            let (significand, sign_exponent) = quad::narrowed(u128::from_be_bytes(bytes));
            (u128::from(sign_exponent) << 64 | u128::from(significand)).to_le_bytes()
        }
    };
    to.copy_from_slice(&number);
}
