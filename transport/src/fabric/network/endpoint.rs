//! What the fabric needs of a message endpoint: [`MessageEndpoint`].
//!
//! Messages go from registered memory to a peer that is known by its address, whole,
//! in order while nothing breaks, into whichever receive was posted first; memory
//! of peers can be read, perhaps. There are no connections that the fabric knows of.
//! All calls are dispatched statically.

use core::fmt::{Debug, Display};
use core::ptr::NonNull;
use refrain_ring::Region;
use std::os::fd::BorrowedFd;

/// Who may do what with registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Operations of this endpoint.
    Local,
    /// Also peers, who read it.
    ReadByPeers,
}

/// What peers need to read registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RemoteMemory {
    /// The key.
    pub key: u64,
    /// What an offset in the memory is added to.
    pub base: u64,
}

/// Why an operation was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused<E> {
    /// There is no room now, or no way to the peer yet: poll, then try again.
    Again,
    /// As many operations as the endpoint was opened for are under way.
    Full,
    /// It will not go.
    Failed(E),
}

/// What has become of the operations with a peer that was forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// They complete by and by, as others do.
    Completing,
    /// They are over: no memory is touched for that peer any more, and none of them
    /// completes, but those whose completion was polled before.
    Over,
}

/// An error of an endpoint. Displayed: what was attempted, and the words.
pub trait EndpointError: Clone + Debug + Display {
    /// What was attempted.
    fn attempted(&self) -> &str;
    /// The words of library, provider or device.
    fn words(&self) -> &str;
}

/// An operation that is over.
pub trait Completion: Debug {
    /// The endpoint's.
    type Error: EndpointError;
    /// The endpoint's.
    type Peer;
    /// What the operation was started with; what no token that was given equals is
    /// the failure of a message that was injected.
    fn token(&self) -> u64;
    /// Of a receive, the bytes that came.
    fn bytes(&self) -> usize;
    /// Whether it did what it should.
    fn outcome(&self) -> Result<(), &Self::Error>;
    /// Whom a message was for that was injected and failed, if that is known.
    fn peer(&self) -> Option<Self::Peer>;
}

/// A reliable message endpoint without connections in its interface.
///
/// A completion says no more than that the operation is over and its memory free
/// again: the fabric acknowledges by itself. Tokens come back once, those of an
/// endpoint that is closed never.
pub trait MessageEndpoint: Debug {
    /// Names registered memory.
    type Memory: Copy + Debug;
    /// Names a peer.
    type Peer: Copy + Debug + PartialEq;
    /// Some bytes of registered memory.
    type Part: Copy + Debug;
    /// Its errors.
    type Error: EndpointError;
    /// What [`MessageEndpoint::poll`] brings.
    type Completion: Completion<Error = Self::Error, Peer = Self::Peer>;

    /// A message that its addressee has taken may be overwritten though its
    /// completion has not come: should it still be read, to be sent once more, then
    /// for a receiver that drops it.
    const TAKEN_IS_FREE: bool;
    /// So many completions of sends to one peer may stay away until more is sent.
    const LATE_COMPLETIONS: usize;

    /// Registers the whole of `region`, whose memory stays mapped until the
    /// endpoint is closed.
    ///
    /// # Errors
    /// When the memory cannot be registered.
    fn register(&mut self, region: &Region, access: Access) -> Result<Self::Memory, Self::Error>;

    /// What peers need to read it.
    fn remote_memory(&self, memory: Self::Memory) -> RemoteMemory;

    /// `bytes` bytes of registered memory from `offset` on.
    fn part(memory: Self::Memory, offset: usize, bytes: usize) -> Self::Part;

    /// The own address, for peers to [`MessageEndpoint::insert`].
    ///
    /// # Errors
    /// When there is none.
    fn name(&self) -> Result<Vec<u8>, Self::Error>;

    /// Makes a peer known.
    ///
    /// # Errors
    /// When the bytes are no address.
    fn insert(&mut self, name: &[u8]) -> Result<Self::Peer, Self::Error>;

    /// Forgets a peer, which is never used again.
    ///
    /// # Errors
    /// When it cannot be forgotten: its operations may complete or not then, and
    /// touch memory until the endpoint is closed.
    fn remove(&mut self, peer: Self::Peer) -> Result<Removal, Self::Error>;

    /// The longest message that [`MessageEndpoint::inject`] takes.
    fn inject_bytes(&self) -> usize;

    /// Whether memory that is read into must be registered.
    fn reads_into_registered_only(&self) -> bool;

    /// Whether reads are over when the call that begins them returns, and errors
    /// are reported without saying of which one.
    fn fails_namelessly(&self) -> bool;

    /// Sends a message that is made of `parts`; nobody may write them until the
    /// completion has brought `token` back.
    ///
    /// # Errors
    /// [`Refused`]; nothing is sent then.
    fn send(
        &mut self,
        to: Self::Peer,
        parts: &[Self::Part],
        token: u64,
    ) -> Result<(), Refused<Self::Error>>;

    /// Sends a short message that is copied at once. No completion comes, unless it
    /// fails.
    ///
    /// # Errors
    /// [`Refused`]; nothing is sent then.
    fn inject(&mut self, to: Self::Peer, parts: &[Self::Part]) -> Result<(), Refused<Self::Error>>;

    /// Posts memory for one message, from whichever peer.
    ///
    /// # Errors
    /// [`Refused`].
    fn receive(&mut self, part: Self::Part, token: u64) -> Result<(), Refused<Self::Error>>;

    /// Reads memory of a peer. `local` names the registered memory that `to` lies
    /// in, if it does.
    ///
    /// # Errors
    /// [`Refused`].
    ///
    /// # Safety
    /// `to .. to + bytes` stays writable and is not touched by anybody until the
    /// completion has brought `token` back or the endpoint was closed; if `local` is
    /// given, it lies within that memory.
    #[expect(unsafe_code, reason = "declares what the fabric must promise")]
    unsafe fn read(
        &mut self,
        from: Self::Peer,
        to: (NonNull<u8>, Option<Self::Memory>),
        bytes: usize,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused<Self::Error>>;

    /// Appends what has completed, and moves everything along.
    ///
    /// # Errors
    /// The endpoint is of no use any more.
    fn poll(&mut self, out: &mut Vec<Self::Completion>) -> Result<(), Self::Error>;

    /// Whether all that was injected has left this process, so that it may end.
    /// Asked for again and again, with polls in between, it becomes so.
    fn has_sent_all(&mut self) -> bool;

    /// Whether nothing is left to do, so that waiting on the descriptor misses
    /// nothing. Else: poll again.
    fn may_sleep(&mut self) -> bool;

    /// What to wait on, if there is anything.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Ends everything: no memory is touched any more.
    ///
    /// # Errors
    /// What could not be closed is leaked, with its memory.
    fn close(&mut self) -> Result<(), Self::Error>;
}
