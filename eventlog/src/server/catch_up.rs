//! Fetching from the other replicas of the shard what this one lacks. EL-3
//!
//! In a thread of its own, so that slow or dead replicas hold nobody up. What it
//! brings is checked by the acceptor like everything else.

use super::host::{AllAsked, Fetch, Fetched, Wanted};
use super::inquiry::Inquiry;
use crate::client::{PURPOSE, ServerAddress};
use crate::framing::{self, FrameReader};
use crate::message::ToLogger;
use core::time::Duration;
use refrain_wire::{SealedStream, unix};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

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
) -> io::Result<()> {
    match peer {
        ServerAddress::Unix(path) => {
            let stream = unix::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            receive(stream, wanted, sender, wake)
        }
        ServerAddress::Tcp(address) => receive(connect(address)?, wanted, sender, wake),
        ServerAddress::Sealed { address, secret } => {
            let stream = SealedStream::call(connect(address)?, secret, PURPOSE)?;
            receive(stream, wanted, sender, wake)
        }
    }
}

fn connect(address: &str) -> io::Result<TcpStream> {
    let address = address.to_socket_addrs()?.next();
    let address = address.ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

fn receive(
    mut stream: impl Read + Write,
    wanted: &Wanted,
    sender: &SyncSender<Fetched>,
    wake: &OwnedFd,
) -> io::Result<()> {
    let broken = |reason: String| io::Error::new(ErrorKind::InvalidData, reason);
    let (mut inquiry, question) = Inquiry::begin(wanted.clone());
    let ask = |stream: &mut dyn Write, question: &ToLogger| {
        let mut frame = Vec::new();
        framing::encode(question, &mut frame).map_err(|error| broken(error.to_string()))?;
        stream.write_all(&frame)
    };
    ask(&mut stream, &question)?;
    let mut frames = FrameReader::default();
    let mut bytes = vec![0; 64 << 10];
    loop {
        while let Some(message) = frames
            .next_message()
            .map_err(|error| broken(error.to_string()))?
        {
            let learned = inquiry.take(message).map_err(io::Error::other)?;
            for said in learned.said {
                if !tell(sender, wake, said) {
                    return Ok(());
                }
            }
            if learned.is_whole {
                return Ok(());
            }
            if let Some(question) = learned.question {
                ask(&mut stream, &question)?;
            }
        }
        match stream.read(&mut bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => frames.extend(&bytes[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
