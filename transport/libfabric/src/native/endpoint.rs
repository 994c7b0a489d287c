//! The contract of endpoints: [`MessageEndpoint`].
//!
//! A message goes from registered memory to a peer, which is named by its address. It arrives
//! whole, in order as long as the connection does not break, in the receive that was posted first.
//! Memory of peers can be read and written if the fabric supports it. The interface has no
//! connections. All calls are dispatched statically.

use super::memory::{Access, MemoryId, Part, RemoteMemory};
use super::operation::{Completion, Refused};
use core::fmt::{Debug, Display};
use core::ptr::NonNull;
use refrain_ring::Region;
use std::os::fd::BorrowedFd;

/// The state of the operations with a removed peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removal {
    /// The operations complete later, as others do.
    Completing,
    /// The operations have ended: they use no memory any more, and only those complete
    /// whose completion was polled before.
    Over,
}

/// An error of an endpoint. It is displayed as the attempted operation and the error text.
pub trait EndpointError: Clone + Debug + Display {
    /// The operation that was attempted.
    fn attempted(&self) -> &str;
    /// The error text of the library, provider or device.
    fn words(&self) -> &str;
}

/// The end of an operation, with its token and its peer. The completion of an injected message that
/// failed has the token [`TOKEN_OF_INJECTED`](super::TOKEN_OF_INJECTED), and the peer if it is
/// known.
pub type CompletionOf<E> = Completion<<E as MessageEndpoint>::Peer, <E as MessageEndpoint>::Error>;

/// A reliable message endpoint without connections in its interface.
///
/// A completion reports only that the operation has ended and its memory is free again;
/// acknowledgements are up to the protocols above. A token comes back once, or never if the
/// endpoint is closed.
pub trait MessageEndpoint: Debug + Sized {
    /// The name of a peer.
    type Peer: Copy + Debug + PartialEq;
    /// The errors of the endpoint.
    type Error: EndpointError;

    /// Whether a message that its receiver has taken may be overwritten before its completion
    /// arrives. The device may then read the message once more, for a receiver that drops it.
    const TAKEN_IS_FREE: bool;
    /// Number of completions of sends to one peer that may be delayed until further sends.
    const LATE_COMPLETIONS: usize;

    /// Registers the whole of `region`, whose memory stays mapped until the
    /// endpoint is closed.
    ///
    /// # Errors
    /// When the memory cannot be registered.
    fn register(&mut self, region: &Region, access: Access) -> Result<MemoryId, Self::Error>;

    /// The key and address that peers need to read or write the memory.
    fn remote_key(&self, memory: MemoryId) -> RemoteMemory;

    /// The own address, for peers to [`MessageEndpoint::insert`].
    ///
    /// # Errors
    /// When the endpoint has no address.
    fn name(&self) -> Result<Vec<u8>, Self::Error>;

    /// Adds a peer by its address.
    ///
    /// # Errors
    /// When the bytes are no address.
    fn insert(&mut self, name: &[u8]) -> Result<Self::Peer, Self::Error>;

    /// Removes a peer, which must not be used afterwards.
    ///
    /// # Errors
    /// When the peer cannot be removed: its operations may then complete or not, and use memory
    /// until the endpoint is closed.
    fn remove(&mut self, peer: Self::Peer) -> Result<Removal, Self::Error>;

    /// Bytes of the longest message that [`MessageEndpoint::inject`] takes.
    fn inject_bytes(&self) -> usize;

    /// Whether memory that is read into must be registered.
    fn reads_into_registered_only(&self) -> bool;

    /// Whether a read has ended when the call that begins it returns, and errors do not name the
    /// read that failed.
    fn fails_namelessly(&self) -> bool;

    /// Sends a message that consists of `parts`. They must not be written until the completion
    /// returns `token`.
    ///
    /// # Errors
    /// [`Refused`]; nothing is sent then.
    fn send(
        &mut self,
        to: Self::Peer,
        parts: &[Part],
        token: u64,
    ) -> Result<(), Refused<Self::Error>>;

    /// Sends a short message that is copied at once. There is a completion only if the message
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

    /// Reads memory of a peer into `to`: an address, and the registered memory that contains it, if
    /// any.
    ///
    /// # Errors
    /// [`Refused`].
    ///
    /// # Safety
    /// The bytes at the address stay writable and are not accessed until the completion returns
    /// `token` or the endpoint is closed. They lie within the registered memory, if one is given.
    #[expect(unsafe_code, reason = "declares what users must promise")]
    unsafe fn read(
        &mut self,
        from: Self::Peer,
        to: (NonNull<u8>, Option<MemoryId>),
        bytes: usize,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused<Self::Error>>;

    /// Writes a part to memory of a peer. When the completion returns `token`, the data are in the
    /// peer's memory.
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

    /// Whether the endpoint has a connection to a peer. Polls make the connection, also without
    /// other operations.
    fn is_connected(&self, _peer: Self::Peer) -> bool {
        true
    }

    /// Appends completions to `out`, and makes progress.
    ///
    /// # Errors
    /// When the endpoint cannot be used any more.
    fn poll(&mut self, out: &mut Vec<CompletionOf<Self>>) -> Result<(), Self::Error>;

    /// Whether all injected messages have left this process, so that it may end. Call it
    /// repeatedly, with polls in between, until it returns true.
    fn has_sent_all(&mut self) -> bool;

    /// Whether a wait on the descriptor would miss nothing. If false, poll again first.
    fn may_sleep(&mut self) -> bool;

    /// The descriptor to wait on, if there is one.
    fn wait_fd(&self) -> Option<BorrowedFd<'_>>;

    /// Closes the endpoint: it uses no memory any more. Later calls fail; a second close does
    /// nothing.
    ///
    /// # Errors
    /// When an object cannot be closed: it is leaked, with its memory.
    fn close(&mut self) -> Result<(), Self::Error>;
}
