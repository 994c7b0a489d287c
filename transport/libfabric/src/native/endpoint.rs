//! The contract of endpoints: [`MessageEndpoint`].
//!
//! Messages go from registered memory to a peer that is known by its address, whole,
//! in order while nothing breaks, into the receive that was posted first. Memory of peers
//! can be read and written if the fabric can do so. There are no connections in the
//! interface. All calls are dispatched statically.

use super::memory::{Access, MemoryId, Part, RemoteMemory};
use super::operation::{Completion, Refused};
use core::fmt::{Debug, Display};
use core::ptr::NonNull;
use refrain_ring::Region;
use std::os::fd::BorrowedFd;

/// The state of the operations with a peer that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// They complete later, as others do.
    Completing,
    /// They are over: no memory is touched for that peer any more, and only those complete
    /// whose completion was polled before.
    Over,
}

/// An error of an endpoint; displayed as what was attempted, and the words.
pub trait EndpointError: Clone + Debug + Display {
    /// What was attempted.
    fn attempted(&self) -> &str;
    /// The words of library, provider or device.
    fn words(&self) -> &str;
}

/// The end of an operation, with its token and its peer. The completion of an injected
/// message that failed has a token of its own and the peer, if that is known.
pub type CompletionOf<E> = Completion<<E as MessageEndpoint>::Peer, <E as MessageEndpoint>::Error>;

/// A reliable message endpoint without connections in its interface.
///
/// A completion reports only that the operation is over and its memory free again: the
/// protocols above acknowledge. A token comes back once, or never if the endpoint is
/// closed.
pub trait MessageEndpoint: Debug + Sized {
    /// Names a peer.
    type Peer: Copy + Debug + PartialEq;
    /// Its errors.
    type Error: EndpointError;

    /// Whether a message that its receiver has taken may be overwritten before its
    /// completion comes: the device may read it once more, for a receiver that drops it.
    const TAKEN_IS_FREE: bool;
    /// The number of completions of sends to one peer that may be delayed until more is
    /// sent.
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

    /// Removes a peer, which is never used again.
    ///
    /// # Errors
    /// When it cannot be removed: its operations may complete or not then, and touch
    /// memory until the endpoint is closed.
    fn remove(&mut self, peer: Self::Peer) -> Result<Removal, Self::Error>;

    /// The longest message that [`MessageEndpoint::inject`] takes.
    fn inject_bytes(&self) -> usize;

    /// Whether memory that is read into must be registered.
    fn reads_into_registered_only(&self) -> bool;

    /// Whether reads are over when the call that begins them returns, and errors do not
    /// name the read that failed.
    fn fails_namelessly(&self) -> bool;

    /// Sends a message that consists of `parts`, which may not be written until the
    /// completion brings `token` back.
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

    /// Posts memory for one message from any peer.
    ///
    /// # Errors
    /// [`Refused`].
    fn receive(&mut self, part: Part, token: u64) -> Result<(), Refused<Self::Error>>;

    /// Reads memory of a peer into `to`: an address, and the registered memory that
    /// contains it, if any.
    ///
    /// # Errors
    /// [`Refused`].
    ///
    /// # Safety
    /// The bytes at the address stay writable and are not accessed until the completion
    /// brings `token` back or the endpoint is closed; they lie within the registered
    /// memory, if one is given.
    #[expect(unsafe_code, reason = "declares what users must promise")]
    unsafe fn read(
        &mut self,
        from: Self::Peer,
        to: (NonNull<u8>, Option<MemoryId>),
        bytes: usize,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused<Self::Error>>;

    /// Writes a part to memory of a peer. When the completion brings `token` back, it lies
    /// there.
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

    /// Whether operations have a connection to a peer. The connection is made by polls,
    /// also when there is nothing else to do.
    fn is_connected(&self, _peer: Self::Peer) -> bool {
        true
    }

    /// Appends completions to `out`, and makes progress.
    ///
    /// # Errors
    /// The endpoint is of no use any more.
    fn poll(&mut self, out: &mut Vec<CompletionOf<Self>>) -> Result<(), Self::Error>;

    /// Whether everything that was injected has left this process, so that it may end. Call
    /// it repeatedly, with polls in between, until it is.
    fn has_sent_all(&mut self) -> bool;

    /// Whether nothing is left to do, so that a wait on the descriptor misses nothing.
    /// Otherwise poll again.
    fn may_sleep(&mut self) -> bool;

    /// The descriptor to wait on, if there is one.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Closes the endpoint: no memory is touched any more. Later calls fail; closing again
    /// does nothing.
    ///
    /// # Errors
    /// What could not be closed is leaked, with its memory.
    fn close(&mut self) -> Result<(), Self::Error>;
}
