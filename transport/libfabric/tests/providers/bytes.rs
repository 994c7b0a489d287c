//! Writes and checks bytes of regions.

#![allow(unsafe_code, reason = "the tests look at memory that providers write")]

use refrain_ring::Region;

/// Writes a pattern that depends on `seed` and on the position.
pub fn fill(region: &Region, offset: usize, bytes: usize, seed: u8) {
    assert!(offset + bytes <= region.bytes());
    for index in 0..bytes {
        // SAFETY: in bounds; no operation on these bytes is in flight.
        unsafe {
            region
                .at(offset + index)
                .write_volatile(pattern(seed, index))
        }
    }
}

/// Overwrites bytes with a constant.
pub fn clear(region: &Region, offset: usize, bytes: usize) {
    assert!(offset + bytes <= region.bytes());
    // SAFETY: in bounds; no operation on these bytes is in flight.
    unsafe { region.at(offset).write_bytes(0xee, bytes) }
}

/// Whether the region has the pattern of `seed`. Bytes may arrive at any time.
pub fn holds(region: &Region, offset: usize, bytes: usize, seed: u8) -> bool {
    assert!(offset + bytes <= region.bytes());
    // Backwards, since the last bytes usually arrive last.
    (0..bytes).rev().all(|index| {
        // SAFETY: in bounds; volatile, since a provider may be writing it.
        unsafe { region.at(offset + index).read_volatile() == pattern(seed, index) }
    })
}

fn pattern(seed: u8, index: usize) -> u8 {
    (index as u8)
        .wrapping_mul(31)
        .wrapping_add((index >> 8) as u8)
        .wrapping_add(seed)
}
