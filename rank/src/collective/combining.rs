//! Combines operands in the memory of a collective, and messages where they arrive.

#![allow(
    unsafe_code,
    reason = "works on the caller's memory while the collective is under way"
)]

use core::ops::Range;
use core::slice::{from_raw_parts, from_raw_parts_mut};
use refrain_collectives::Side;
use refrain_collectives::reduction::{Operands, Reduction};

/// A reduction of a message with memory of a collective.
pub(super) struct Combining {
    pub reduction: Reduction,
    pub message: Side,
    pub with: *const u8,
    pub into: *mut u8,
}

// SAFETY: the memory is the collective's until it is complete, in whichever thread it is advanced.
unsafe impl Send for Combining {}
// SAFETY: as above; parts are combined one after the other.
unsafe impl Sync for Combining {}

impl Combining {
    /// Combines `data`, the part of the message from `offset` on.
    ///
    /// # Safety
    /// The part must be inside of both memories, which are the collective's.
    pub unsafe fn combine(&self, offset: usize, data: &[u8]) {
        let (with, into) = (
            self.with.wrapping_add(offset),
            self.into.wrapping_add(offset),
        );
        let (left, right) = match self.message {
            Side::Left => (data.as_ptr(), with),
            Side::Right => (with, data.as_ptr()),
        };
        // SAFETY: the caller's promise; a message lies apart from the collective's memory.
        unsafe { combine(&self.reduction, left, right, into, data.len()) };
    }
}

/// `into` = `left` ∘ `right`.
///
/// # Safety
/// All have `bytes` bytes; an operand is `into` itself, or apart from it.
pub(super) unsafe fn combine(
    reduction: &Reduction,
    left: *const u8,
    right: *const u8,
    into: *mut u8,
    bytes: usize,
) {
    // SAFETY: an operand that is the result is not read by a slice of its own; else the caller's
    // promise.
    let operands = unsafe {
        let operand = |base| from_raw_parts(base, bytes);
        let result = from_raw_parts_mut(into, bytes);
        if left == into.cast_const() {
            let right = operand(right);
            Operands::IntoLeft {
                into: result,
                right,
            }
        } else if right == into.cast_const() {
            let left = operand(left);
            Operands::IntoRight { left, into: result }
        } else {
            let (left, right) = (operand(left), operand(right));
            Operands::Apart {
                left,
                right,
                into: result,
            }
        }
    };
    reduction.apply(operands);
}

/// The parts of `wanted` that are in none of `done`, which may overlap.
pub(super) fn not_in(done: &[Range<u64>], wanted: Range<u64>) -> Vec<Range<u64>> {
    let mut left = vec![wanted];
    for done in done {
        let rest = left.iter().flat_map(|it| {
            let before = it.start..it.end.min(done.start).max(it.start);
            let behind = it.start.max(done.end).min(it.end)..it.end;
            [before, behind]
        });
        left = rest.filter(|it| !it.is_empty()).collect();
    }
    left
}

#[cfg(test)]
mod tests {
    use super::not_in;

    /// Of two lists of parts, each element is in exactly one.
    #[test]
    fn parts_are_taken_once() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..500 {
            let mut range = || {
                let start = rng.u64(..20);
                start..start + rng.u64(..8)
            };
            let done: Vec<_> = (0..4).map(|_| range()).collect();
            let wanted = range();
            let left = not_in(&done, wanted.clone());
            for element in 0..30 {
                let is_new =
                    wanted.contains(&element) && !done.iter().any(|it| it.contains(&element));
                let times = left.iter().filter(|it| it.contains(&element)).count();
                assert_eq!(
                    times,
                    usize::from(is_new),
                    "{element}: {wanted:?} without {done:?}"
                );
            }
        }
    }
}
