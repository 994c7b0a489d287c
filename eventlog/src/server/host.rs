//! What a [`Service`](super::service::Service) needs of its environment.

use super::ring_name::RingName;
use crate::acceptor::{Beginning, RankLog};
use crate::message::{CommitPath, RemoteRing, ToClient, ToLogger};
use crate::ring::{RingIdentity, RingMemory};
use core::fmt::{Debug, Display};
use core::time::Duration;
use refrain_ring::Rank;
use refrain_wire::{FrameError, WireError};
use std::io;

/// Job and rank.
pub type RankKey = (u64, Rank);

/// Messages to and from one client, in order.
pub trait Channel: Debug {
    /// What opens a ring, for a client of the same host.
    type Handle: Debug;

    /// Whether a handle can go with a message.
    fn is_local(&self) -> bool;

    /// The next message that has come.
    ///
    /// # Errors
    /// What came is no message.
    fn next_message(&mut self) -> Result<Option<ToLogger>, WireError>;

    /// Queues a message.
    ///
    /// # Errors
    /// It does not fit a frame; then nothing of it goes.
    fn say(&mut self, message: &ToClient, handle: Option<Self::Handle>) -> Result<(), FrameError>;

    /// Bytes that wait to be sent.
    fn unsent_bytes(&self) -> usize;

    /// Sends as much as is taken. Returns false, so that the connection is cut off, when the
    /// other side is gone or has more than `bytes_max` bytes unread.
    fn send(&mut self, bytes_max: usize) -> bool;
}

/// What is to be fetched from the other replicas. EL-3
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: Rank,
    /// For a life that begins so.
    pub life: Beginning,
    /// What is here already, as it was when the fetch began.
    pub row: RankLog,
}

/// What came of asking them.
#[derive(Debug)]
pub enum Fetched {
    /// One replica has this log and supplies it: what comes next is of it.
    Log(RankLog),
    /// Batches, one behind the other.
    Batches(Vec<u8>),
    /// One replica has given all that it supplies.
    Whole,
    /// One replica could not.
    Failed(String),
}

/// All replicas were asked.
#[derive(Debug)]
pub struct AllAsked;

/// Asks the other replicas, while the service continues.
pub trait Fetch: Debug {
    /// What has come.
    ///
    /// # Errors
    /// [`AllAsked`]: nothing more will.
    fn next(&mut self) -> Result<Option<Fetched>, AllAsked>;
}

/// A ring that was made.
#[derive(Debug)]
pub struct MadeRing<T> {
    /// Its memory.
    pub memory: RingMemory,
    /// What opens it, for [`CommitPath::SharedMemory`].
    pub handle: Option<T>,
    /// Where it is to be written, for [`CommitPath::Libfabric`].
    pub remote: Option<RemoteRing>,
}

/// Connections, rings, and other replicas.
pub trait Host: Debug {
    /// Messages to and from one client.
    type Channel: Channel<Handle = Self::Handle>;
    /// What opens a ring, for a client of the same host.
    type Handle: Debug;
    /// Other replicas being asked.
    type Fetch: Fetch;

    /// Reports a message to people.
    fn report(&mut self, text: &str);

    /// Takes in what clients write into rings, where that needs help.
    fn progress(&mut self);

    /// How long the server may sleep before it looks for what clients write into rings;
    /// `None`: until that wakes it. It may take some of it in, which then does not wake
    /// the server: look into the rings once more.
    fn sleep_max(&mut self) -> Option<Duration>;

    /// Prepares listening to a connection; returns whether that is possible.
    fn begin_listening(&mut self, channel: &mut Self::Channel, id: u64) -> bool;

    /// Returns whether a connection is to be listened to; whether that is possible.
    fn set_listening(&mut self, channel: &mut Self::Channel, id: u64, listens: bool) -> bool;

    /// Whether clients may write by [`CommitPath::Libfabric`].
    fn is_remote_offered(&self) -> bool;

    /// Makes a ring for a connection, in which nothing lies. It outlives the
    /// process under its [name](RingName::of).
    ///
    /// # Errors
    /// Why there is none, for people.
    fn make_ring(
        &mut self,
        id: u64,
        identity: &RingIdentity,
        way: CommitPath,
    ) -> Result<MadeRing<Self::Handle>, String>;

    /// The writer of that rank is cut off: no client writes into its ring by
    /// [`CommitPath::Libfabric`] when this returns. FENCE-1
    fn release_ring(&mut self, key: RankKey);

    /// Rings that an earlier server has left, earlier lives first.
    ///
    /// # Errors
    /// Of the system.
    fn find_rings(&mut self) -> io::Result<Vec<RingName>>;

    /// Opens one of those, if name and contents say the same.
    ///
    /// # Errors
    /// Why it is damaged.
    fn open_ring(&mut self, name: RingName) -> io::Result<(RingMemory, RingIdentity)>;

    /// Removes a ring of which everything is stored, or was fenced.
    fn remove_ring(&mut self, name: RingName);

    /// Moves a damaged ring aside, and reports it.
    fn set_aside(&mut self, name: RingName, why: &dyn Display);

    /// Begins to ask the other replicas, all of them.
    ///
    /// # Errors
    /// Why they cannot be asked, for people.
    fn fetch(&mut self, wanted: Wanted) -> Result<Self::Fetch, String>;
}
