//! Work that is due: acknowledgements, frames to send again, frames that had to wait, questions,
//! and receives for the provider.

use super::lane::{Owed, Step};
use super::operation::Operation;
use super::transmit::{Body, Outgoing};
use super::wire::Kind;
use super::{Network, data, native};
use core::time::Duration;
use refrain_libfabric::native::{MessageEndpoint, Refused};
use refrain_ring::Rank;

impl<E: MessageEndpoint> Network<E> {
    #[inline]
    pub(super) fn note_attention(&mut self, rank: Rank) {
        if let Some(peer) = &mut self.peers[rank.index()]
            && !peer.has_attention
        {
            peer.has_attention = true;
            self.attention.push(rank);
        }
    }

    /// Gives empty slots to the provider.
    #[inline]
    pub(super) fn post_receives(&mut self) {
        while let Some(slot) = self.to_post.last().copied() {
            let whole = self.slots.whole(slot);
            match self
                .endpoint
                .receive(whole, Operation::Receive(slot).token())
            {
                Ok(()) => {
                    self.to_post.pop();
                }
                Err(Refused::Again | Refused::Full) => return,
                Err(Refused::Failed(error)) => {
                    self.failures.get_or_insert(native(&error));
                    return;
                }
            }
        }
    }

    /// Does the work that is due: sends again, sends control frames that had to wait,
    /// acknowledges.
    #[inline]
    pub(super) fn attend(&mut self, at_least: Owed) {
        let mut index = 0;
        while let Some(rank) = self.attention.get(index).copied() {
            if self.attend_to(rank, at_least) {
                index += 1;
            } else {
                self.attention.swap_remove(index);
                if let Some(peer) = &mut self.peers[rank.index()] {
                    peer.has_attention = false;
                }
            }
        }
    }

    /// Attends to one peer. Returns whether the peer needs attention again.
    #[inline]
    pub(super) fn attend_to(&mut self, rank: Rank, at_least: Owed) -> bool {
        let peer = self.peers[rank.index()].as_ref();
        let Some(peer) = peer.filter(|peer| !peer.is_lost) else {
            return false;
        };
        let must_wait = peer.patience.holds_back()
            || peer.sending.has_backlog() && !self.pump_backlog(rank)
            || !self.prove(rank);
        if must_wait {
            return true;
        }
        let Some(peer) = &self.peers[rank.index()] else {
            return false;
        };
        let owed = peer.receiving.owed();
        if owed == Owed::Nothing {
            return false;
        }
        if owed < at_least {
            return true;
        }
        let kind = match peer.receiving.misses() {
            true => Kind::Again,
            false => Kind::Acknowledge,
        };
        !self.send_bare(rank, kind)
    }

    /// Asks a peer after an error if no operation is in flight that would show that the error
    /// is over. Returns false if the provider did not take the question.
    #[inline]
    fn prove(&mut self, rank: Rank) -> bool {
        let peer = self.peers[rank.index()].as_ref();
        !peer.is_some_and(|peer| peer.patience.wants_proof()) || self.send_bare(rank, Kind::Ask)
    }

    /// Sends the waiting frames of one peer; returns whether all were sent.
    #[cold]
    pub(super) fn pump_backlog(&mut self, rank: Rank) -> bool {
        let Some(peer) = &mut self.peers[rank.index()] else {
            return true;
        };
        while let Some((sequence, sent)) = peer.sending.to_resend() {
            let outgoing = data(sequence, &sent);
            let transmitter = &mut self.transmitter;
            match transmitter.transmit(&mut self.endpoint, peer, &outgoing) {
                Some(under_way) => peer.sending.resent(under_way),
                None => return false,
            }
        }
        while let Some((sequence, words)) = peer.sending.next_control() {
            let outgoing = Outgoing {
                kind: Kind::Control,
                sequence,
                offset: 0,
                body: Body::Words(words),
            };
            let transmitter = &mut self.transmitter;
            match transmitter.transmit(&mut self.endpoint, peer, &outgoing) {
                Some(_) => peer.sending.control_sent(),
                None => return false,
            }
        }
        true
    }

    /// Does what is due by the timers of all peers.
    #[cold]
    pub(super) fn look_at_clocks(&mut self) {
        let now = self.now();
        for index in 0..self.peers.len() {
            let peer = self.peers[index].as_mut();
            let Some(peer) = peer.filter(|peer| !peer.is_lost) else {
                continue;
            };
            let (rank, unanswered) = (peer.rank, peer.sending.is_unanswered());
            match peer.patience.step(now, unanswered) {
                Step::Nothing => {}
                Step::Ask => {
                    self.send_bare(rank, Kind::Ask);
                }
                Step::Resend => {
                    peer.sending.go_back();
                    self.note_attention(rank);
                }
                Step::Lost(lasted) => {
                    let words = peer.last_error.as_deref().unwrap_or("unknown");
                    peer.last_error = Some(format!(
                        "errors of its provider lasted for {} s, the last one: {words}",
                        lasted.as_secs()
                    ));
                    self.note_lost(rank);
                }
                Step::Silent(silent) => {
                    peer.last_error = Some(format!("it was silent for {} s", silent.as_secs()));
                    self.note_lost(rank);
                }
            }
        }
    }

    pub(super) fn note_lost(&mut self, rank: Rank) {
        let Some(peer) = &mut self.peers[rank.index()] else {
            return;
        };
        peer.is_lost = true;
        let connection = peer.connection;
        self.lost.push(rank);
        self.fetching.disconnected(connection);
    }

    #[inline]
    pub(super) fn pump_fetches(&mut self) {
        let started = self.transmitter.started;
        self.fetching
            .pump(&mut self.endpoint, &mut self.peers, started);
    }

    pub(super) fn next_clock_at(&self) -> Option<Duration> {
        let peers = self.peers.iter().flatten();
        let present = peers.filter(|peer| !peer.is_lost);
        present
            .filter_map(|peer| peer.patience.next_step_at())
            .min()
    }
}
