//! Operations in flight: the provider's context and the local entry of each.
//!
//! A provider gets a pointer with every operation and returns it with the completion. Some
//! providers keep their own state in the memory behind it (`FI_CONTEXT2`: 64 bytes), so each
//! operation has a cache line at a fixed address. Its entry is in other memory, where no provider
//! writes.

#![allow(
    unsafe_code,
    reason = "memory that providers write while operations are in flight"
)]

use crate::native::Kind;
use core::cell::UnsafeCell;
use core::ffi::c_void;
use core::ptr::NonNull;

#[derive(Clone, Copy)]
pub(super) struct Operation {
    pub(super) token: u64,
    pub(super) bytes: usize,
    pub(super) kind: Kind,
    in_flight: bool,
}

#[repr(C, align(64))]
struct Context(UnsafeCell<[u64; 8]>);

const _: () = assert!(size_of::<Context>() == 64);

/// A fixed number of operations, and one context that all injected messages share: the provider has
/// finished with such a message when the call returns.
pub(super) struct Operations {
    // `count + 1` contexts, allocated by `Box`; the provider accesses them.
    contexts: NonNull<Context>,
    entries: Box<[Operation]>,
    free: Vec<u32>,
}

// SAFETY: the contexts are owned, and depend on no thread.
unsafe impl Send for Operations {}

impl Operations {
    pub(super) fn new(count: usize) -> Self {
        let contexts: Box<[Context]> = (0..=count)
            .map(|_| Context(UnsafeCell::new([0; 8])))
            .collect();
        let nothing = Operation {
            token: 0,
            bytes: 0,
            kind: Kind::Send,
            in_flight: false,
        };
        Self {
            contexts: NonNull::from(Box::leak(contexts)).cast(),
            entries: vec![nothing; count].into(),
            // The lowest index is taken first, so that the same few contexts stay in the cache.
            free: (0..u32::try_from(count).expect("fewer than 2^32 operations"))
                .rev()
                .collect(),
        }
    }

    pub(super) fn in_flight(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// Begins an operation; returns its index, and the context for the provider.
    #[inline]
    pub(super) fn begin(
        &mut self,
        kind: Kind,
        token: u64,
        bytes: usize,
    ) -> Option<(u32, *mut c_void)> {
        let index = self.free.pop()?;
        self.entries[index as usize] = Operation {
            token,
            bytes,
            kind,
            in_flight: true,
        };
        Some((index, self.context(index as usize)))
    }

    /// Frees an operation that the provider has refused.
    #[inline]
    pub(super) fn take_back(&mut self, index: u32) {
        self.entries[index as usize].in_flight = false;
        self.free.push(index);
    }

    /// The context of injected messages.
    #[inline]
    pub(super) fn injected(&self) -> *mut c_void {
        self.context(self.entries.len())
    }

    /// Ends the operation whose context came back. `None` if the context belongs to no operation in
    /// flight: to an injected message, or by a defect of the provider.
    #[inline]
    pub(super) fn end(&mut self, context: *mut c_void) -> Option<Operation> {
        let distance = context.addr().wrapping_sub(self.contexts.as_ptr().addr());
        if !distance.is_multiple_of(size_of::<Context>()) {
            return None;
        }
        let index = distance / size_of::<Context>();
        let entry = self.entries.get_mut(index)?;
        if !entry.in_flight {
            return None;
        }
        entry.in_flight = false;
        self.free.push(index as u32);
        Some(*entry)
    }

    #[inline]
    fn context(&self, index: usize) -> *mut c_void {
        self.contexts.as_ptr().wrapping_add(index).cast()
    }
}

impl Drop for Operations {
    fn drop(&mut self) {
        let contexts =
            core::ptr::slice_from_raw_parts_mut(self.contexts.as_ptr(), self.entries.len() + 1);
        // SAFETY: allocated by Box in `new`. The endpoint is closed (otherwise this value is
        // leaked), so no provider writes the contexts any more.
        drop(unsafe { Box::from_raw(contexts) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_lines_of_their_own_and_come_back_once() {
        let mut operations = Operations::new(3);
        let begun: Vec<_> = (0..3)
            .map(|token| operations.begin(Kind::Read, token, 7).unwrap().1)
            .collect();
        assert!(operations.begin(Kind::Send, 9, 0).is_none());
        assert_eq!(operations.in_flight(), 3);
        for context in &begun {
            assert!(context.addr().is_multiple_of(64));
        }
        let ended = operations.end(begun[1]).unwrap();
        assert_eq!((ended.token, ended.bytes, ended.kind), (1, 7, Kind::Read));
        assert!(operations.end(begun[1]).is_none());
        assert!(operations.begin(Kind::Send, 9, 0).is_some());
    }

    #[test]
    fn foreign_contexts_are_not_followed() {
        let mut operations = Operations::new(2);
        let (_, context) = operations.begin(Kind::Send, 1, 1).unwrap();
        for foreign in [
            core::ptr::null_mut(),
            context.wrapping_byte_add(8),
            context.wrapping_byte_sub(64),
            context.wrapping_byte_add(64 * 1000),
            operations.injected(),
        ] {
            assert!(operations.end(foreign).is_none());
        }
        assert_eq!(operations.in_flight(), 1);
    }
}
