//! Bytes of regions, accessed while no operation uses them.

#![allow(
    unsafe_code,
    reason = "memory that a device has given back is looked at"
)]

use refrain_ring::Region;

/// The byte at a position of a pattern.
fn expected(seed: u64, index: usize) -> u8 {
    let mixed = (seed ^ index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 56) as u8
}

/// Writes a pattern.
pub fn fill(region: &Region, offset: usize, bytes: usize, seed: u64) {
    assert!(offset + bytes <= region.bytes());
    for index in 0..bytes {
        // SAFETY: within the region, and no operation uses it now.
        unsafe {
            region
                .at(offset + index)
                .write_volatile(expected(seed, index))
        };
    }
}

/// Whether the region has the pattern.
pub fn holds(region: &Region, offset: usize, bytes: usize, seed: u64) -> bool {
    assert!(offset + bytes <= region.bytes());
    (0..bytes).all(|index| {
        // SAFETY: within the region. A device may write it at the same time, which volatile
        // accesses tolerate.
        unsafe { region.at(offset + index).read_volatile() == expected(seed, index) }
    })
}

/// A copy of some bytes.
pub fn copy(region: &Region, offset: usize, bytes: usize) -> Vec<u8> {
    assert!(offset + bytes <= region.bytes());
    (0..bytes)
        .map(|index| {
            // SAFETY: as in `holds`.
            unsafe { region.at(offset + index).read_volatile() }
        })
        .collect()
}

/// Writes a number.
pub fn put_word(region: &Region, offset: usize, word: u64) {
    assert!(offset + 8 <= region.bytes());
    for (index, byte) in word.to_le_bytes().into_iter().enumerate() {
        // SAFETY: as in `fill`.
        unsafe { region.at(offset + index).write_volatile(byte) };
    }
}

/// The number at a place.
pub fn word(region: &Region, offset: usize) -> u64 {
    let bytes = copy(region, offset, 8);
    u64::from_le_bytes(bytes.try_into().unwrap())
}
