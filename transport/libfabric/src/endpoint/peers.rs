//! Addresses: the own one, and those of peers.

#![allow(unsafe_code, reason = "calls the provider's address functions")]

use super::{Endpoint, neighbours};
use crate::Error;
use crate::constants::{FI_ADDR_STR, FI_EOTHER, FI_ETOOSMALL};
use crate::sys::inline;

/// How this endpoint names a peer. Values are used again after
/// [`Endpoint::remove`]: what comes from a peer must say which incarnation it
/// comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerAddress(pub(super) u64);

/// Longer than the addresses of all providers.
const ADDRESS_BYTES_MAX: usize = 1024;

impl Endpoint {
    /// The own address, for peers to [`Endpoint::insert`]. Its length varies
    /// between providers, and with names also within one.
    ///
    /// # Errors
    /// The provider's.
    pub fn name(&self) -> Result<Vec<u8>, Error> {
        let endpoint = self.objects()?.endpoint.raw();
        let mut name = vec![0; 256];
        loop {
            let mut bytes = name.len();
            // SAFETY: the endpoint is open, the buffer as long as is said.
            let status =
                unsafe { inline::fi_getname(endpoint, name.as_mut_ptr().cast(), &mut bytes) };
            if status == -FI_ETOOSMALL && bytes > name.len() {
                name.resize(bytes, 0);
                continue;
            }
            self.info
                .library()
                .check("ask for the own address", status)?;
            name.truncate(bytes);
            return Ok(name);
        }
    }

    /// Makes a peer known by the address that it gave out.
    ///
    /// # Errors
    /// The provider's, or the address cannot be one of this provider.
    pub fn insert(&mut self, address: &[u8]) -> Result<PeerAddress, Error> {
        const ATTEMPTED: &str = "insert the address of a peer";
        if address.is_empty() || address.len() >= ADDRESS_BYTES_MAX {
            return Err(Error::invalid(
                ATTEMPTED,
                format!("no provider has addresses of {} bytes", address.len()),
            ));
        }
        if self.info.address_format() == FI_ADDR_STR && address.last() != Some(&0) {
            return Err(Error::invalid(
                ATTEMPTED,
                "addresses of this provider end in a zero byte",
            ));
        }
        // Providers take the length from the format: behind the bytes that came
        // there must be more, and all must be aligned for their structures.
        let mut aligned = [0_u64; ADDRESS_BYTES_MAX / 8];
        // SAFETY: shorter than the array, by the check above.
        unsafe {
            core::ptr::copy_nonoverlapping(
                address.as_ptr(),
                aligned.as_mut_ptr().cast(),
                address.len(),
            );
        }
        let mut handle = u64::MAX;
        // SAFETY: the vector is open, the address in a buffer that is long enough.
        let inserted = unsafe {
            inline::fi_av_insert(
                self.objects()?.vector.raw(),
                aligned.as_ptr().cast(),
                &mut handle,
            )
        };
        match inserted {
            1 => {
                self.greet(address, PeerAddress(handle));
                Ok(PeerAddress(handle))
            }
            status if status < 0 => Err(self.info.library().error(ATTEMPTED, status.into())),
            _ => Err(Error::new(
                ATTEMPTED,
                FI_EOTHER,
                "the provider does not take it",
            )),
        }
    }

    /// Greets a neighbour by an attempt to send. Before the first poll, and the
    /// first time, the provider cannot know the neighbour: nothing is sent.
    fn greet(&mut self, name: &[u8], peer: PeerAddress) {
        let may_greet = self.limits.has_neighbours
            && !self.has_polled
            && neighbours::include(name)
            && !self.greeted.iter().any(|greeted| greeted == name);
        if may_greet {
            self.greeted.push(name.to_vec());
            let result = self.inject(peer, &[]);
            debug_assert_eq!(result, Err(crate::Refused::Again));
        }
    }

    /// Forgets a peer: after it was started again it has another address.
    ///
    /// # Errors
    /// The provider's.
    pub fn remove(&mut self, peer: PeerAddress) -> Result<(), Error> {
        let mut handle = peer.0;
        // SAFETY: the vector is open; providers check the handle.
        let status = unsafe { inline::fi_av_remove(self.objects()?.vector.raw(), &mut handle) };
        self.info
            .library()
            .check("remove the address of a peer", status)
    }
}
