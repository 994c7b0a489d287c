//! Fetching from the other replicas of the shard what this one lacks. EL-3
//!
//! Each fetch has a thread, so that slow or dead replicas delay nothing else. The acceptor
//! checks what it brings.

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

/// Fetches at a time: a client that joins again and again does not pile up threads.
const FETCHES_MAX: usize = 64;

/// Starts the threads of fetches.
#[derive(Debug, Default)]
pub(super) struct CatchUps {
    /// Each thread has a clone.
    running: Arc<()>,
}

impl CatchUps {
    /// Begins to ask `peers`, one after the other. `wake` is rung when there is
    /// something to take.
    ///
    /// # Errors
    /// Why there is no thread, for people.
    pub(super) fn begin(
        &self,
        wanted: Wanted,
        peers: Vec<ServerAddress>,
        wake: Arc<OwnedFd>,
    ) -> Result<Receiver<Fetched>, String> {
        if Arc::strong_count(&self.running) > FETCHES_MAX {
            return Err(format!(
                "{FETCHES_MAX} ranks catch up already: join again later"
            ));
        }
        let running = self.running.clone();
        let (sender, pieces) = sync_channel(PIECES_HELD);
        let fetch = move || {
            ask_all(&wanted, &peers, &sender, &wake);
            drop((sender, running));
            ring(&wake);
        };
        let thread = std::thread::Builder::new().name("catch-up".into());
        match thread.spawn(fetch) {
            Ok(_) => Ok(pieces),
            Err(error) => Err(format!("no thread to catch up: {error}")),
        }
    }
}

impl Fetch for Receiver<Fetched> {
    fn next(&mut self) -> Result<Option<Fetched>, AllAsked> {
        match self.try_recv() {
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

/// Returns whether the server still listens.
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
