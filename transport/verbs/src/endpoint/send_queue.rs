//! The requests in the send queue of one queue pair, and which of them are over.
//!
//! Requests are executed and end in order. Only some are *signalled*: their
//! completion means that all before them are over too. A request that fails, and
//! each behind it, completes with an error, signalled or not. Pure.

use crate::Kind;
use std::collections::VecDeque;

/// One of this number of requests is signalled.
pub(super) const SIGNALLED_EVERY: u32 = 16;

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The caller gets a completion.
    Told(Kind),
    /// An injected message: the caller gets no completion.
    Untold,
    /// The first half of what the request behind it ends.
    Half,
    /// Of this crate: it makes those before it known to be over. It has room of
    /// its own.
    Marker,
}

/// A request in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) role: Role,
    pub(super) token: u64,
    pub(super) bytes: u32,
    is_signalled: bool,
}

/// Where a request stands, and how it is to be posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Counts all requests of the queue pair, modulo 2^32.
    pub(super) sequence: u32,
    pub(super) is_signalled: bool,
}

/// The requests of one queue pair that are not known to be over, oldest first.
#[derive(Debug)]
pub(super) struct SendQueue {
    entries: VecDeque<Entry>,
    /// Sequence number of the oldest.
    first: u32,
    room: usize,
    markers: usize,
    /// Requests behind the last signalled one.
    unsignalled: u32,
    /// Those of them that the caller waits for.
    awaited: u32,
}

/// Markers that can be in a queue at the same time: one to look, one at the end.
pub(super) const MARKERS_MAX: usize = 2;

impl SendQueue {
    /// For `room` requests, and [`MARKERS_MAX`] markers beside them. With room for
    /// fewer than [`SIGNALLED_EVERY`] the last that fits is signalled.
    pub(super) fn new(room: usize) -> Self {
        Self {
            entries: VecDeque::with_capacity(room + MARKERS_MAX),
            first: 0,
            room,
            markers: 0,
            unsignalled: 0,
            awaited: 0,
        }
    }

    /// Requests that are not known to be over, without markers.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.markers
    }

    /// Whether nothing at all is left.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether `count` more requests fit.
    #[inline]
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.len() + count <= self.room
    }

    /// Puts a request at the end. `must_signal`: it is signalled whether or not it
    /// is its turn. The caller has asked [`SendQueue::has_room`]; `None` otherwise.
    #[inline]
    pub(super) fn begin(
        &mut self,
        role: Role,
        token: u64,
        bytes: u32,
        must_signal: bool,
    ) -> Option<Place> {
        let is_marker = role == Role::Marker;
        let fits = match is_marker {
            true => self.markers < MARKERS_MAX,
            false => self.has_room(1),
        };
        if !fits {
            return None;
        }
        let is_last = !is_marker && !self.has_room(2);
        // A half never ends a queue: its other half is signalled.
        let is_turn = self.unsignalled + 1 >= SIGNALLED_EVERY || is_last;
        let is_signalled = is_marker || must_signal || (is_turn && role != Role::Half);
        let sequence = self.next();
        self.entries.push_back(Entry {
            role,
            token,
            bytes,
            is_signalled,
        });
        self.markers += usize::from(is_marker);
        if is_signalled {
            self.unsignalled = 0;
            self.awaited = 0;
        } else {
            self.unsignalled += 1;
            self.awaited += u32::from(matches!(role, Role::Told(_)));
        }
        Some(Place {
            sequence,
            is_signalled,
        })
    }

    /// Takes the last request back: the device did not take it.
    #[cold]
    pub(super) fn take_back(&mut self) {
        let Some(entry) = self.entries.pop_back() else {
            return;
        };
        self.markers -= usize::from(entry.role == Role::Marker);
        let tail = || {
            self.entries
                .iter()
                .rev()
                .take_while(|one| !one.is_signalled)
        };
        self.unsignalled = tail().count() as u32;
        self.awaited = tail()
            .filter(|one| matches!(one.role, Role::Told(_)))
            .count() as u32;
    }

    /// Whether the caller waits for a request without a completion of the device.
    pub(super) fn needs_marker(&self) -> bool {
        self.awaited > 0
    }

    /// Whether there are requests without a completion of the device.
    pub(super) fn has_unsignalled(&self) -> bool {
        self.unsignalled > 0
    }

    /// Sequence number of the next request.
    pub(super) fn next(&self) -> u32 {
        self.first.wrapping_add(self.entries.len() as u32)
    }

    /// Takes in a completion for this request: it is over, and all before it have
    /// succeeded. Oldest first, they are passed to `over`, with whether it is the request
    /// of the completion. A completion of an unknown request is ignored.
    #[inline]
    pub(super) fn end(&mut self, sequence: u32, mut over: impl FnMut(Entry, bool)) {
        let distance = sequence.wrapping_sub(self.first) as usize;
        if distance >= self.entries.len() {
            return;
        }
        for index in 0..=distance {
            if let Some(entry) = self.pop() {
                over(entry, index == distance);
            }
        }
    }

    /// Nothing of it will complete any more: the oldest that is left.
    pub(super) fn give_up(&mut self) -> Option<Entry> {
        self.pop()
    }

    #[inline]
    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.first = self.first.wrapping_add(1);
        self.markers -= usize::from(entry.role == Role::Marker);
        // An unsignalled one has a completion of its own only when it failed.
        if (self.entries.len() as u32) < self.unsignalled {
            self.unsignalled -= 1;
            self.awaited -= u32::from(matches!(entry.role, Role::Told(_)));
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
