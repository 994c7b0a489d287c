//! The requests in the send queue of one queue pair, and which of them have ended. Pure.
//!
//! Requests are executed and end in order. Only some are *signalled*: their completion means that
//! all requests before them have ended, too. A request that fails, and each request after it,
//! completes with an error, signalled or not.

use crate::Kind;
use std::collections::VecDeque;

/// One of this number of requests is signalled.
pub(super) const SIGNALLED_EVERY: u32 = 16;

/// The purpose of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The caller gets a completion.
    Told(Kind),
    /// An injected message: the caller gets a completion only if it fails.
    Untold,
    /// The first half of an operation, which the next request ends.
    Half,
    /// A request of this crate, whose completion shows that all requests before it have ended. It
    /// has room of its own.
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

/// The position of a request, and how it must be posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct QueuePlace {
    /// The sequence number: counts all requests of the queue pair, modulo 2^32.
    pub(super) sequence: u32,
    pub(super) is_signalled: bool,
}

/// The requests of one queue pair that are not known to have ended, oldest first.
#[derive(Debug)]
pub(super) struct SendQueue {
    entries: VecDeque<Entry>,
    /// Sequence number of the oldest request.
    first: u32,
    room: usize,
    markers: usize,
    /// Number of requests after the last signalled one.
    unsignalled: u32,
    /// Number of those for which the caller awaits a completion.
    awaited: u32,
}

/// Most markers in a queue at a time: one for old requests, one at the end.
pub(super) const MARKERS_MAX: usize = 2;

impl SendQueue {
    /// A queue for `room` requests, and [`MARKERS_MAX`] markers beside them. The last request that
    /// fits is signalled, too.
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

    /// Number of requests that are not known to have ended, without markers.
    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.markers
    }

    /// Whether the queue has no requests and no markers.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether `count` further requests fit.
    #[inline]
    pub(super) fn has_room(&self, count: usize) -> bool {
        self.len() + count <= self.room
    }

    /// Appends a request. `must_signal`: it is signalled even if it is not its turn. `None` if
    /// there is no room: check [`SendQueue::has_room`] before.
    #[inline]
    pub(super) fn begin(
        &mut self,
        role: Role,
        token: u64,
        bytes: u32,
        must_signal: bool,
    ) -> Option<QueuePlace> {
        let is_marker = role == Role::Marker;
        let fits = match is_marker {
            true => self.markers < MARKERS_MAX,
            false => self.has_room(1),
        };
        if !fits {
            return None;
        }
        let is_last = !is_marker && !self.has_room(2);
        // A half never ends a queue: the other half, which follows, is signalled.
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
        Some(QueuePlace {
            sequence,
            is_signalled,
        })
    }

    /// Removes the last request, which the device has not taken.
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

    /// Whether the caller awaits a request after the last signalled one.
    pub(super) fn needs_marker(&self) -> bool {
        self.awaited > 0
    }

    /// Whether there are requests after the last signalled one.
    pub(super) fn has_unsignalled(&self) -> bool {
        self.unsignalled > 0
    }

    /// Sequence number of the next request.
    pub(super) fn next(&self) -> u32 {
        self.first.wrapping_add(self.entries.len() as u32)
    }

    /// Handles the completion of a request: it has ended, and all requests before it have
    /// succeeded. Passes them to `over`, oldest first, with whether it is the request of the
    /// completion. A completion of an unknown request is ignored.
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

    /// Removes the oldest request, which will not complete any more.
    pub(super) fn give_up(&mut self) -> Option<Entry> {
        self.pop()
    }

    #[inline]
    fn pop(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.first = self.first.wrapping_add(1);
        self.markers -= usize::from(entry.role == Role::Marker);
        // An unsignalled request has a completion of its own only if it failed.
        if (self.entries.len() as u32) < self.unsignalled {
            self.unsignalled -= 1;
            self.awaited -= u32::from(matches!(entry.role, Role::Told(_)));
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests;
