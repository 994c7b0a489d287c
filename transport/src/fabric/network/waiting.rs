//! How a rank sleeps, and how ranks greet each other at the start.

use super::Network;
use super::lane::Owed;
use super::operation::Operation;
use super::transmit::{Body, Outgoing};
use super::wire::{Kind, WireHeader};
use crate::fabric::{Fabric as _, FabricError};
use core::time::Duration;
use refrain_libfabric::native::{CompletionOf, MessageEndpoint};
use refrain_ring::Rank;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::{BorrowedFd, OwnedFd};

/// The first and the longest nap of a rank whose provider cannot wake it.
const NAP_FIRST: Duration = Duration::from_micros(20);
const NAP_LAST: Duration = Duration::from_millis(1);
/// Interval between two greetings.
const GREET_AGAIN: Duration = Duration::from_millis(500);

impl<E: MessageEndpoint> Network<E> {
    /// Makes waits end, too, when this descriptor is readable: at once if the provider can wake a
    /// sleeper, else within 1 ms. The caller of `wait` reads the descriptor.
    pub fn wake_by(&mut self, descriptor: OwnedFd) {
        self.alarm = Some(descriptor);
    }

    /// Whether the descriptor of [`wake_by`](Self::wake_by) is readable.
    fn is_called(&self) -> bool {
        let Some(alarm) = &self.alarm else {
            return false;
        };
        let mut wanted = [PollFd::new(alarm, PollFlags::IN)];
        poll(&mut wanted, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Sleeps until something may have arrived. The provider's descriptor wakes the rank if there
    /// is one; else the rank naps, longer each time.
    pub(super) fn sleep(&mut self, timeout: Duration) {
        let begin = self.now();
        self.look_at_clocks();
        let was_refused = core::mem::take(&mut self.was_refused);
        let mut nap = NAP_FIRST;
        loop {
            self.post_receives();
            self.pump_fetches();
            self.attend(Owed::WhenIdle);
            if self.batch.is_empty()
                && let Err(error) = self.endpoint.poll(&mut self.batch)
            {
                self.failures.get_or_insert(super::native(&error));
            }
            let has_news = !self.batch.is_empty()
                || !self.lost.is_empty()
                || self.fetching.has_ended()
                || self.failures.is_some();
            let now = self.now();
            let left = timeout.saturating_sub(now.saturating_sub(begin));
            let due = self.next_clock_at();
            let left = due.map_or(left, |due| left.min(due.saturating_sub(now)));
            if has_news || left.is_zero() {
                return;
            }
            // An operation that the provider refused has to be tried again: no sleep.
            let can_sleep = self.attention.is_empty()
                && self.to_post.is_empty()
                && !self.fetching.waits()
                && !was_refused
                && self.endpoint.may_sleep();
            if let Some(descriptor) = self.endpoint.wait_fd().filter(|_| can_sleep) {
                if wait_for(descriptor, self.alarm.as_ref(), left) {
                    return;
                }
            } else {
                std::thread::sleep(nap.min(left));
                if was_refused || self.is_called() {
                    return;
                }
                nap = (nap * 2).min(NAP_LAST);
            }
        }
    }

    /// Exchanges greetings with other ranks, so that an address that does not answer is found at
    /// the start. Sends a greeting to `to`, waits for its answer, and answers the greetings of
    /// `from`. All ranks of the job call this at about the same time, after they have connected; a
    /// rank is in `from` of the rank that it greets. A rank that `is_gone` has died, or nothing is to be
    /// waited for any more.
    ///
    /// # Errors
    /// [`FabricError::Silent`] after `timeout`.
    pub fn greet(
        &mut self,
        to: Option<Rank>,
        from: &[Rank],
        timeout: Duration,
        is_gone: &mut dyn FnMut(Rank) -> bool,
    ) -> Result<(), FabricError> {
        let begin = self.now();
        let mut greet_at = begin;
        let mut deferred = Vec::new();
        loop {
            let now = self.now();
            let unanswered = to.filter(|to| !self.has_answered(*to) && !is_gone(*to));
            let mut has_not_greeted = |rank: &Rank| {
                let peer = self.peers[rank.index()].as_ref();
                !peer.is_some_and(|peer| peer.was_answered) && !is_gone(*rank)
            };
            let mut from = from.iter().copied();
            let Some(silent) = unanswered.or_else(|| from.find(&mut has_not_greeted)) else {
                break;
            };
            if now.saturating_sub(begin) >= timeout {
                return Err(self.silent(silent, timeout));
            }
            if let Some(to) = unanswered.filter(|_| now >= greet_at) {
                let is_sent = self.send_bare(to, Kind::Hello);
                greet_at = now + if is_sent { GREET_AGAIN } else { NAP_FIRST };
            }
            self.look_at_clocks();
            if self.batch.is_empty() {
                let left = timeout.saturating_sub(now.saturating_sub(begin));
                self.wait(left.min(NAP_LAST));
            }
            self.take_greetings(&mut deferred)?;
        }
        // The next poll hands the other messages over.
        deferred.append(&mut self.batch);
        self.batch = deferred;
        Ok(())
    }

    /// Answers greetings among the completions, and sets other messages aside.
    fn take_greetings(&mut self, deferred: &mut Vec<CompletionOf<E>>) -> Result<(), FabricError> {
        for completion in core::mem::take(&mut self.batch) {
            match Operation::of(completion.token) {
                Operation::Receive(slot) if !self.is_greeting(slot, &completion) => {
                    deferred.push(completion);
                }
                _ => {
                    self.complete(completion, None);
                }
            }
        }
        self.failures.take().map_or(Ok(()), Err)
    }

    fn is_greeting(&self, slot: usize, completion: &CompletionOf<E>) -> bool {
        completion.outcome.is_ok()
            && WireHeader::decode(self.slots.arrived(slot, completion.bytes))
                .is_ok_and(|header| matches!(header.kind, Kind::Hello | Kind::HelloAnswer))
    }

    /// Handles a greeting, or the answer to one.
    #[cold]
    pub(super) fn greeted(&mut self, by: Rank, kind: Kind) {
        let answers = kind == Kind::Hello && self.send_bare(by, Kind::HelloAnswer);
        if let Some(peer) = &mut self.peers[by.index()] {
            peer.was_answered |= answers;
            peer.has_answered |= kind == Kind::HelloAnswer;
        }
    }

    /// Greets a peer without waiting for its answer.
    #[cfg(any(test, feature = "test-doubles"))]
    pub fn greet_once(&mut self, to: Rank) {
        self.send_bare(to, Kind::Hello);
    }

    /// Whether a peer has answered a greeting.
    pub fn has_answered(&self, rank: Rank) -> bool {
        let peer = self.peers[rank.index()].as_ref();
        peer.is_some_and(|peer| peer.has_answered)
    }

    fn silent(&self, peer: Rank, waited: Duration) -> FabricError {
        let state = self.peers[peer.index()].as_ref();
        let address = state.map_or_else(String::new, |state| state.published.readable());
        let words = state.and_then(|state| state.last_error.clone());
        FabricError::Silent {
            peer,
            address: words.map_or(address.clone(), |words| format!("{address} ({words})")),
            waited_s: waited.as_secs(),
        }
    }

    /// Sends a message without a body; returns whether the provider took it.
    pub(super) fn send_bare(&mut self, to: Rank, kind: Kind) -> bool {
        let Some(peer) = &mut self.peers[to.index()] else {
            return false;
        };
        if !peer.can_be_sent_to() {
            return false;
        }
        let (sequence, offset) = match kind {
            Kind::Ask => peer.sending.next_numbers(),
            _ => (0, 0),
        };
        let outgoing = Outgoing {
            kind,
            sequence,
            offset,
            body: Body::Nothing,
        };
        self.transmitter
            .transmit(&mut self.endpoint, peer, &outgoing)
            .is_some()
    }
}

/// Waits until a descriptor is readable, or the time is over. An interrupted wait returns
/// early. Returns whether the alarm is readable.
fn wait_for(descriptor: BorrowedFd<'_>, alarm: Option<&OwnedFd>, left: Duration) -> bool {
    let left = Timespec::try_from(left).ok();
    let own = PollFd::new(&descriptor, PollFlags::IN);
    let Some(alarm) = alarm else {
        let _ = poll(&mut [own], left.as_ref());
        return false;
    };
    let mut wanted = [own, PollFd::new(alarm, PollFlags::IN)];
    let _ = poll(&mut wanted, left.as_ref());
    !wanted[1].revents().is_empty()
}
