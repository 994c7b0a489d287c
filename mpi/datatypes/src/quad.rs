//! C's `long double` of x86-64 (80 bits) as binary128 of IEEE 754, which external32 has.
//!
//! Both have a sign, 15 bits of exponent and the same bias. The first has 64 bits of significand with
//! the integer bit, the second 112 bits without it.

/// The integer bit of the significand.
const INTEGER_BIT: u64 = 1 << 63;
/// Bits that the fraction of binary128 has more.
const SHIFT: u32 = 49;
const FRACTION_BITS: u32 = 112;
const EXPONENT_MAX: u16 = 0x7fff;

/// The number in 80 bits as binary128. Exact.
pub(crate) fn widened(significand: u64, sign_exponent: u16) -> u128 {
    let (sign, mut exponent) = (sign_exponent >> 15, sign_exponent & EXPONENT_MAX);
    // A denormal number with the integer bit is the least normal one.
    if exponent == 0 && significand & INTEGER_BIT != 0 {
        exponent = 1;
    }
    let is_finite = exponent < EXPONENT_MAX;
    let mut fraction = u128::from(significand & !INTEGER_BIT) << SHIFT;
    if exponent > 0 && significand & INTEGER_BIT == 0 {
        // The processor takes it for invalid: not a number.
        (exponent, fraction) = (EXPONENT_MAX, 1 << (FRACTION_BITS - 1));
    } else if !is_finite && fraction != 0 {
        fraction |= 1 << (FRACTION_BITS - 1);
    }
    u128::from(sign << 15 | exponent) << FRACTION_BITS | fraction
}

/// The binary128 as a number in 80 bits: significand, then sign and exponent. Rounds to the nearest,
/// ties to even.
pub(crate) fn narrowed(quad: u128) -> (u64, u16) {
    let sign_exponent = (quad >> FRACTION_BITS) as u16;
    let (sign, exponent) = (sign_exponent & 0x8000, sign_exponent & EXPONENT_MAX);
    let fraction = quad & ((1 << FRACTION_BITS) - 1);
    let high = (fraction >> SHIFT) as u64;
    if exponent == EXPONENT_MAX {
        let quiet = if fraction != 0 { INTEGER_BIT >> 1 } else { 0 };
        return (INTEGER_BIT | quiet | high, sign_exponent);
    }
    let normal = if exponent > 0 { INTEGER_BIT } else { 0 };
    let (rest, half) = (fraction & ((1 << SHIFT) - 1), 1_u128 << (SHIFT - 1));
    let rounds_up = rest > half || (rest == half && high & 1 == 1);
    match (normal | high).checked_add(rounds_up.into()) {
        // 2^64: the next power of two.
        None => (INTEGER_BIT, sign | (exponent + 1)),
        // The greatest denormal number may become the least normal one.
        Some(significand) if exponent == 0 && significand & INTEGER_BIT != 0 => {
            (significand, sign | 1)
        }
        Some(significand) => (significand, sign_exponent),
    }
}
