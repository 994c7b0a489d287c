//! What users of an endpoint may expect: [`MessageEndpoint`].
//!
//! Messages go from registered memory to a peer that is known by its address, whole,
//! in order while nothing breaks, into whichever receive was posted first; memory
//! of peers can be read and written, perhaps. There are no connections in the
//! interface. All calls are dispatched statically.

use super::{Access, Completion, MemoryId, Part, Refused, RemoteMemory};
use core::fmt::{Debug, Display};
use core::ptr::NonNull;
use refrain_ring::Region;
use std::os::fd::BorrowedFd;

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

/// An operation that is over. Its token is what it was started with; one that no
/// operation was started with is of an injected message that failed, and the peer
/// then whom that was for, if it is known.
pub type CompletionOf<E> = Completion<<E as MessageEndpoint>::Peer, <E as MessageEndpoint>::Error>;

/// A reliable message endpoint without connections in its interface.
///
/// A completion says no more than that the operation is over and its memory free
/// again: the fabric acknowledges by itself. Tokens come back once, those of an
/// endpoint that is closed never.
pub trait MessageEndpoint: Debug + Sized {
    /// Names a peer.
    type Peer: Copy + Debug + PartialEq;
    /// Its errors.
    type Error: EndpointError;

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
    fn register(&mut self, region: &Region, access: Access) -> Result<MemoryId, Self::Error>;

    /// What peers need to read it.
    fn remote_key(&self, memory: MemoryId) -> RemoteMemory;

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
        parts: &[Part],
        token: u64,
    ) -> Result<(), Refused<Self::Error>>;

    /// Sends a short message that is copied at once. No completion comes, unless it
    /// fails.
    ///
    /// # Errors
    /// [`Refused`]; nothing is sent then.
    fn inject(&mut self, to: Self::Peer, parts: &[Part]) -> Result<(), Refused<Self::Error>>;

    /// Posts memory for one message, from whichever peer.
    ///
    /// # Errors
    /// [`Refused`].
    fn receive(&mut self, part: Part, token: u64) -> Result<(), Refused<Self::Error>>;

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
    #[expect(unsafe_code, reason = "declares what users must promise")]
    unsafe fn read(
        &mut self,
        from: Self::Peer,
        to: (NonNull<u8>, Option<MemoryId>),
        bytes: usize,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused<Self::Error>>;

    /// Writes a part to memory of a peer. The completion that brings `token` back says that
    /// it lies there.
    ///
    /// # Errors
    /// [`Refused`].
    fn write(
        &mut self,
        to: Self::Peer,
        part: Part,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused<Self::Error>>;

    /// Whether operations find a connection to a peer. Until then it is polled, also where
    /// there is nothing to do: only so does one come about.
    fn is_connected(&self, _peer: Self::Peer) -> bool {
        true
    }

    /// Appends what has completed, and moves everything along.
    ///
    /// # Errors
    /// The endpoint is of no use any more.
    fn poll(&mut self, out: &mut Vec<CompletionOf<Self>>) -> Result<(), Self::Error>;

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
