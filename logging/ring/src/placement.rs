//! The part of the address space in which the library requests its mappings.
//!
//! The kernel places mappings without an address one below the other, for the
//! program and the library alike. A mapping that the library makes at a time that
//! depends on timing (the segment of a peer that was restarted) would shift all
//! later mappings of the program, so that its pointers differ from life to life.
//! The library therefore requests addresses in a region in which the kernel places nothing by
//! itself.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// 35 TiB: above the hints of allocators (mimalloc: 2 to 30 TiB), far below the mappings
/// that the kernel places from the top.
const BEGIN: usize = 0x2000_0000_0000;
const END: usize = 0x3000_0000_0000;
/// Alignment with which every mapping can use huge pages.
const STEP_BYTES: usize = 2 << 20;

static KERNEL_CHOOSES: AtomicBool = AtomicBool::new(false);

/// Makes [`next_address`] give no hints from now on.
pub fn let_kernel_choose() {
    KERNEL_CHOOSES.store(true, Ordering::Relaxed);
}

/// Address for the next mapping of `bytes` bytes: a hint for `mmap`. If it cannot be used
/// (the place is taken, the processor's addresses are shorter), the kernel
/// chooses.
pub fn next_address(bytes: usize) -> usize {
    static OFFSET: AtomicUsize = AtomicUsize::new(0);
    if KERNEL_CHOOSES.load(Ordering::Relaxed) {
        return 0;
    }
    let step = bytes.next_multiple_of(STEP_BYTES) + STEP_BYTES;
    let offset = OFFSET.fetch_add(step, Ordering::Relaxed) % (END - BEGIN);
    (BEGIN + offset).min(END.saturating_sub(step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_follow_each_other_and_stay_in_their_region() {
        let first = next_address(1);
        let second = next_address(5 << 20);
        let third = next_address(1);
        assert!(first >= BEGIN && second > first && third - second >= 5 << 20);
        assert!(second.is_multiple_of(STEP_BYTES));
        for _ in 0..100 {
            let address = next_address(1 << 40);
            assert!(address >= BEGIN && address + (1 << 40) < END);
        }
    }
}
