//! The data of a ring as memory that a provider registers.

#![allow(
    unsafe_code,
    reason = "hands the memory of rings to a provider, which registers it"
)]

use crate::ring::{DATA_BYTES, RingMemory};
use core::ptr::NonNull;
use refrain_ring::Region;
use std::sync::Arc;

/// The data of a ring (not its control page) as a region, which keeps the ring
/// mapped.
pub(super) fn region_of(ring: &RingMemory) -> Region {
    let data = NonNull::new(ring.data()).expect("a mapping does not begin at address 0");
    // SAFETY: the `DATA_BYTES` bytes behind the control page, which begin on a line and stay mapped
    // as long as the owner lives. No reference to them exists: processes touch them as atomic words
    // (see `RingMemory`), and the provider as another process would.
    unsafe { Region::from_raw(data, DATA_BYTES, Arc::new(ring.clone())) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LoggerId;
    use crate::ring::{Cursor, RING_BYTES, RingIdentity};
    use refrain_logging::determinant::EventIndex;
    use refrain_ring::{Incarnation, Rank};

    /// The region is exactly the data: no byte of the control page before it, no byte behind it.
    #[test]
    fn the_region_is_the_data_and_keeps_it_mapped() {
        let file = tempfile::tempfile().unwrap();
        let identity = RingIdentity {
            job: 1,
            rank: Rank(2),
            incarnation: Incarnation(3),
            logger: LoggerId(4),
            start: EventIndex(5),
        };
        let ring = RingMemory::create(&file, &identity).unwrap();
        let other = RingMemory::open(&file).unwrap();
        let region = region_of(&ring);
        assert_eq!(region.at(0), ring.data());
        assert_eq!(region.bytes(), DATA_BYTES);
        drop(ring);
        // SAFETY: mapped by the region's owner; nothing else writes.
        unsafe { region.at(DATA_BYTES - 1).write_volatile(7) };
        let last = other.data().wrapping_add(DATA_BYTES - 1);
        // SAFETY: the last byte of a mapping of the same file.
        assert_eq!(unsafe { last.read_volatile() }, 7);
        assert_eq!(file.metadata().unwrap().len(), RING_BYTES as u64);
        assert_eq!(Cursor::default().offset(), 0);
        assert_eq!(other.identity(), identity);
    }
}
