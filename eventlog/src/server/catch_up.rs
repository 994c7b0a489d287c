//! Fetching from the other replicas of the shard what this one lacks. EL-3
//!
//! In a thread of its own, so that slow or dead replicas hold nobody up. What it
//! brings is checked by the acceptor like everything else.

use super::host::{AllAsked, Fetch, Fetched, Wanted};
use super::inquiry::Inquiry;
use crate::client::ServerAddress;
use crate::message::PROTOCOL;
use core::time::Duration;
use refrain_wire::{Connection, WireError};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Instant;

/// How long a replica may take to answer, each time.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often a replica that does not answer is asked.
const ROUNDS: usize = 4;
/// Time between two rounds.
const PAUSE: Duration = Duration::from_millis(500);
/// Pieces that are held between the thread and the server.
const PIECES_HELD: usize = 4;

/// A fetch that is under way.
#[derive(Debug)]
pub(super) struct PeerFetch {
    pieces: Receiver<Fetched>,
}

impl PeerFetch {
    /// Begins to ask `peers`, one after the other. `wake` is rung when there is
    /// something to take.
    pub(super) fn begin(
        wanted: Wanted,
        peers: Vec<ServerAddress>,
        wake: Arc<OwnedFd>,
    ) -> io::Result<Self> {
        let (sender, pieces) = sync_channel(PIECES_HELD);
        std::thread::Builder::new()
            .name("catch-up".into())
            .spawn(move || {
                ask_all(&wanted, &peers, &sender, &wake);
                drop(sender);
                ring(&wake);
            })?;
        Ok(Self { pieces })
    }
}

impl Fetch for PeerFetch {
    fn next(&mut self) -> Result<Option<Fetched>, AllAsked> {
        match self.pieces.try_recv() {
            Ok(fetched) => Ok(Some(fetched)),
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(AllAsked),
        }
    }
}

/// Asks every replica, and those that could not answer once more.
fn ask_all(wanted: &Wanted, peers: &[ServerAddress], sender: &SyncSender<Fetched>, wake: &OwnedFd) {
    let mut unasked: Vec<&ServerAddress> = peers.iter().collect();
    for round in 0..ROUNDS {
        if round > 0 {
            // They may be starting, like this one.
            std::thread::sleep(PAUSE);
        }
        let mut failed = Vec::new();
        for peer in unasked {
            let said = match ask(peer, wanted, sender, wake) {
                Ok(()) => continue,
                Err(error) => {
                    failed.push(peer);
                    Fetched::Failed(format!("{peer}: {error}"))
                }
            };
            if !tell(sender, wake, said) {
                return;
            }
        }
        if failed.is_empty() {
            return;
        }
        unasked = failed;
    }
}

/// Says whether anybody still listens.
fn tell(sender: &SyncSender<Fetched>, wake: &OwnedFd, said: Fetched) -> bool {
    let is_heard = sender.send(said).is_ok();
    ring(wake);
    is_heard
}

fn ring(wake: &OwnedFd) {
    // Fails only when it was rung 2^64 times.
    let _ = rustix::io::write(wake, &1_u64.to_ne_bytes());
}

fn ask(
    peer: &ServerAddress,
    wanted: &Wanted,
    sender: &SyncSender<Fetched>,
    wake: &OwnedFd,
) -> Result<(), WireError> {
    let mut connection = Connection::connect(peer, &PROTOCOL, PATIENCE)?;
    let (mut inquiry, first) = Inquiry::begin(wanted.clone());
    let mut question = Some(first);
    loop {
        if let Some(question) = question.take() {
            connection.say(&question)?;
        }
        let answer = connection.wait_message(Some(Instant::now() + PATIENCE))?;
        let learned = inquiry.take(answer).map_err(io::Error::other)?;
        for said in learned.said {
            if !tell(sender, wake, said) {
                return Ok(());
            }
        }
        if learned.is_whole {
            return Ok(());
        }
        question = learned.question;
    }
}
