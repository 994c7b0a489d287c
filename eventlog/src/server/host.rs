//! The environment of a [`Service`](super::service::Service).

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
    /// The handle with which a client of the same host opens a ring.
    type Handle: Debug;

    /// Whether a handle can be sent with a message.
    fn is_local(&self) -> bool;

    /// The next message, if one has come.
    ///
    /// # Errors
    /// The received bytes are not a message.
    fn next_message(&mut self) -> Result<Option<ToLogger>, WireError>;

    /// Queues a message.
    ///
    /// # Errors
    /// The message does not fit a frame; nothing is sent.
    fn say(&mut self, message: &ToClient, handle: Option<Self::Handle>) -> Result<(), FrameError>;

    /// Bytes that wait to be sent.
    fn unsent_bytes(&self) -> usize;

    /// Sends as much as the socket takes. Returns false, so that the connection is closed, if the
    /// other side is gone or has more than `bytes_max` unread bytes.
    fn send(&mut self, bytes_max: usize) -> bool;
}

/// A request to the other replicas. EL-3
#[derive(Clone, Debug)]
pub struct Wanted {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: Rank,
    /// The life that the log must fit.
    pub life: Beginning,
    /// The local log when the fetch began.
    pub row: RankLog,
}

/// A result of asking the other replicas.
#[derive(Debug)]
pub enum Fetched {
    /// The log of a replica that supplies batches; the next results are from that replica.
    Log(RankLog),
    /// Consecutive batches.
    Batches(Vec<u8>),
    /// The replica has sent everything that it supplies.
    Whole,
    /// A replica failed, for this reason.
    Failed(String),
}

/// All replicas have been asked.
#[derive(Debug)]
pub struct AllAsked;

/// A fetch from the other replicas, which runs while the service continues.
pub trait Fetch: Debug {
    /// The next result, if one has come.
    ///
    /// # Errors
    /// [`AllAsked`]: no result follows.
    fn next(&mut self) -> Result<Option<Fetched>, AllAsked>;
}

/// A new ring.
#[derive(Debug)]
pub struct MadeRing<T> {
    /// Its memory.
    pub memory: RingMemory,
    /// The handle that opens it, for [`CommitPath::SharedMemory`].
    pub handle: Option<T>,
    /// The remote address of the ring, for [`CommitPath::Libfabric`].
    pub remote: Option<RemoteRing>,
}

/// Connections, rings, and other replicas.
pub trait Host: Debug {
    /// Messages to and from one client.
    type Channel: Channel<Handle = Self::Handle>;
    /// The handle with which a client of the same host opens a ring.
    type Handle: Debug;
    /// A fetch from the other replicas.
    type Fetch: Fetch;

    /// Reports a message to people.
    fn report(&mut self, text: &str);

    /// Processes what clients write into rings, if the transport needs that.
    fn progress(&mut self);

    /// Maximum time that the server may sleep before it checks the rings for remote writes;
    /// `None`: until a write wakes it. This call may process writes, which then do not wake
    /// the server: check the rings once more.
    fn sleep_max(&mut self) -> Option<Duration>;

    /// Prepares reading from a connection; returns whether that is possible.
    fn begin_listening(&mut self, channel: &mut Self::Channel, id: u64) -> bool;

    /// Switches reading from a connection on or off; returns whether that is possible.
    fn set_listening(&mut self, channel: &mut Self::Channel, id: u64, listens: bool) -> bool;

    /// Whether clients may write by [`CommitPath::Libfabric`].
    fn is_remote_offered(&self) -> bool;

    /// Makes an empty ring for a connection. The ring outlives the
    /// process under its [name](RingName::of).
    ///
    /// # Errors
    /// The reason why the ring could not be made, for people.
    fn make_ring(
        &mut self,
        id: u64,
        identity: &RingIdentity,
        way: CommitPath,
    ) -> Result<MadeRing<Self::Handle>, String>;

    /// Disconnects the rank's ring: when this returns, no client writes into it by
    /// [`CommitPath::Libfabric`]. FENCE-1
    fn release_ring(&mut self, key: RankKey);

    /// Rings of an earlier server, earlier lives first.
    ///
    /// # Errors
    /// An error of the system.
    fn find_rings(&mut self) -> io::Result<Vec<RingName>>;

    /// Opens one of those rings, if its name and contents agree.
    ///
    /// # Errors
    /// The reason why it is damaged.
    fn open_ring(&mut self, name: RingName) -> io::Result<(RingMemory, RingIdentity)>;

    /// Removes a ring whose batches are all stored or fenced.
    fn remove_ring(&mut self, name: RingName);

    /// Moves a damaged ring aside, and reports it.
    fn set_aside(&mut self, name: RingName, why: &dyn Display);

    /// Begins to ask all other replicas.
    ///
    /// # Errors
    /// The reason why they cannot be asked, for people.
    fn fetch(&mut self, wanted: Wanted) -> Result<Self::Fetch, String>;
}
