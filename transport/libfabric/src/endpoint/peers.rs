//! Addresses of peers.

use super::{Endpoint, neighbours};
use crate::error::Refused;
use crate::native::MessageEndpoint;

/// Names a peer of this endpoint. Values are reused after a peer was removed, so messages must
/// carry the incarnation of their sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerAddress(pub(super) u64);

/// More bytes than the addresses of all providers have.
const ADDRESS_BYTES_MAX: usize = 1024;

/// An address in the form that providers read: aligned for their structures, and followed by spare
/// bytes, since they derive the length from the format.
pub(super) struct Name([u64; ADDRESS_BYTES_MAX / 8]);

impl Name {
    /// # Errors
    /// The reason, as text, why no provider has such an address.
    pub(super) fn new(address: &[u8], ends_in_zero: bool) -> Result<Self, String> {
        if address.is_empty() || address.len() >= ADDRESS_BYTES_MAX {
            return Err(format!(
                "no provider has addresses of {} bytes",
                address.len()
            ));
        }
        if ends_in_zero && address.last() != Some(&0) {
            return Err("addresses of this provider end in a zero byte".into());
        }
        let mut aligned = [0; ADDRESS_BYTES_MAX / 8];
        for (word, bytes) in aligned.iter_mut().zip(address.chunks(8)) {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(padded);
        }
        Ok(Self(aligned))
    }

    pub(super) fn as_ptr(&self) -> *const core::ffi::c_void {
        self.0.as_ptr().cast()
    }
}

impl Endpoint {
    /// Greets a neighbour by an attempt to send. Before its first poll, the provider does not know
    /// the neighbour, so nothing is sent.
    pub(super) fn greet(&mut self, name: &[u8], peer: PeerAddress) {
        let may_greet = self.limits.has_neighbours
            && !self.has_polled
            && neighbours::include(name)
            && !self.greeted.iter().any(|greeted| greeted == name);
        if may_greet {
            self.greeted.push(name.to_vec());
            let result = self.inject(peer, &[]);
            debug_assert_eq!(result, Err(Refused::Again));
        }
    }
}
