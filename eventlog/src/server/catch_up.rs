//! Fetches missing determinants from the other replicas of the shard. EL-3
//!
//! Each fetch has a thread, so that slow or dead replicas delay nothing else. The acceptor
//! checks the fetched batches.

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

/// Maximum time for each answer of a replica.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum number of rounds for replicas that do not answer.
const ROUNDS: usize = 4;
/// Time between two rounds.
const PAUSE: Duration = Duration::from_millis(500);
/// Capacity of the channel from the thread to the server.
const PIECES_HELD: usize = 4;

/// Maximum number of fetches at a time: twice the ranks that a server serves by default, which
/// may all catch up at once. It limits the threads of clients that join repeatedly.
const FETCHES_MAX: usize = 2048;

/// Starts the threads of fetches.
#[derive(Debug, Default)]
pub(super) struct CatchUps {
    /// Counts threads: each holds a clone.
    running: Arc<()>,
}

impl CatchUps {
    /// Begins to ask `peers`, one after the other. `wake` is signalled when there is
    /// something to take.
    ///
    /// # Errors
    /// The reason why no thread could be started, for people.
    pub(super) fn begin(
        &self,
        wanted: Wanted,
        peers: Vec<ServerAddress>,
        wake: Arc<OwnedFd>,
    ) -> Result<Receiver<Fetched>, String> {
        if Arc::strong_count(&self.running) > FETCHES_MAX {
            return Err(format!(
                "{FETCHES_MAX} ranks already catch up: join again later"
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

/// Asks every replica; asks those that failed again in later rounds.
fn ask_all(wanted: &Wanted, peers: &[ServerAddress], sender: &SyncSender<Fetched>, wake: &OwnedFd) {
    let mut unasked: Vec<&ServerAddress> = peers.iter().collect();
    for round in 0..ROUNDS {
        if round > 0 {
            // The replicas may be starting, like this one.
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

/// Sends to the server; returns whether the server still receives.
fn tell(sender: &SyncSender<Fetched>, wake: &OwnedFd, said: Fetched) -> bool {
    let is_heard = sender.send(said).is_ok();
    ring(wake);
    is_heard
}

fn ring(wake: &OwnedFd) {
    // Fails only when the counter is full.
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
