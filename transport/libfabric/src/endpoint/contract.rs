//! Implements the contract of endpoints, [`MessageEndpoint`].

#![allow(unsafe_code, reason = "calls the provider and hands memory to it")]

use super::message::out_of_bounds;
use super::peers::Name;
use super::remote_memory::{Transfer, must_register};
use super::{Endpoint, PeerAddress, closed};
use crate::endpoint::Completion;
use crate::error::{Error, Refused};
use crate::native::{
    Access, EndpointError, Kind, MemoryId, MessageEndpoint, Part, RemoteMemory, Removal,
};
use crate::sys::attributes::fi_cq_msg_entry;
use crate::sys::constants::*;
use crate::sys::inline;
use core::mem::MaybeUninit;
use core::ptr::{NonNull, null_mut};
use refrain_ring::Region;
use std::os::fd::BorrowedFd;

/// Completions read by one call of the provider.
const BATCH: usize = 32;
/// Most batches read by one poll: a peer that never pauses must not keep this process in it.
const BATCHES_MAX: usize = 16;

impl EndpointError for Error {
    fn attempted(&self) -> &str {
        self.attempted()
    }

    fn words(&self) -> &str {
        self.words()
    }
}

impl MessageEndpoint for Endpoint {
    type Peer = PeerAddress;
    type Error = Error;

    /// False: a provider may still read the memory.
    const TAKEN_IS_FREE: bool = false;
    /// Every send completes without a later send.
    const LATE_COMPLETIONS: usize = 0;

    fn register(&mut self, region: &Region, access: Access) -> Result<MemoryId, Error> {
        let key = self.registrations.len() as u64 + 1;
        self.register_with_key(region, access, key)
    }

    /// # Panics
    /// When the memory was registered with another endpoint.
    fn remote_key(&self, memory: MemoryId) -> RemoteMemory {
        self.registrations[memory.index()].remote_key(self.limits.adds_virtual_address)
    }

    /// The length of the name varies between providers, and within one provider if it has names.
    fn name(&self) -> Result<Vec<u8>, Error> {
        let endpoint = self.objects()?.endpoint.raw();
        let mut name = vec![0; 256];
        loop {
            let mut bytes = name.len();
            // SAFETY: the endpoint is open, the buffer has `bytes` bytes.
            let status =
                unsafe { inline::fi_getname(endpoint, name.as_mut_ptr().cast(), &mut bytes) };
            if status == -FI_ETOOSMALL && bytes > name.len() {
                name.resize(bytes, 0);
                continue;
            }
            let library = self.info.library();
            library.check("read the endpoint's own address", status)?;
            name.truncate(bytes);
            return Ok(name);
        }
    }

    fn insert(&mut self, name: &[u8]) -> Result<PeerAddress, Error> {
        const ATTEMPTED: &str = "insert the address of a peer";
        let ends_in_zero = self.info.address_format() == FI_ADDR_STR;
        let aligned =
            Name::new(name, ends_in_zero).map_err(|words| Error::invalid(ATTEMPTED, words))?;
        let vector = self.objects()?.vector.raw();
        let mut handle = u64::MAX;
        // SAFETY: the vector is open, the address in a buffer that is long enough.
        let inserted = unsafe { inline::fi_av_insert(vector, aligned.as_ptr(), &mut handle) };
        match inserted {
            1 => {
                self.greet(name, PeerAddress(handle));
                Ok(PeerAddress(handle))
            }
            status if status < 0 => Err(self.info.library().error(ATTEMPTED, status.into())),
            _ => Err(Error::new(ATTEMPTED, FI_EOTHER, "the provider refuses it")),
        }
    }

    /// Removes a peer. A later life of the peer has another address.
    fn remove(&mut self, peer: PeerAddress) -> Result<Removal, Error> {
        let mut handle = peer.0;
        // SAFETY: the vector is open; providers check the handle.
        let status = unsafe { inline::fi_av_remove(self.objects()?.vector.raw(), &mut handle) };
        let library = self.info.library();
        library.check("remove the address of a peer", status)?;
        Ok(Removal::Completing)
    }

    fn inject_bytes(&self) -> usize {
        self.limits.inject_bytes
    }

    fn reads_into_registered_only(&self) -> bool {
        self.limits.must_register
    }

    /// True for `shm`, in libfabric 1.17 and 2.5.
    fn fails_namelessly(&self) -> bool {
        self.info.provider() == "shm"
    }

    #[inline]
    fn send(&mut self, to: PeerAddress, parts: &[Part], token: u64) -> Result<(), Refused> {
        let mut gathered = self.gather(parts, self.limits.message_bytes)?;
        let begun = self.operations.begin(Kind::Send, token, gathered.bytes);
        let (index, context) = begun.ok_or(Refused::Full)?;
        let status = self.send_message(to, &mut gathered, context, FI_COMPLETION);
        self.started(Some(index), Kind::Send, status)
    }

    /// Checks the number of bytes, since providers do not.
    #[inline]
    fn inject(&mut self, to: PeerAddress, parts: &[Part]) -> Result<(), Refused> {
        let mut gathered = self.gather(parts, self.limits.inject_bytes)?;
        let context = self.operations.injected();
        let status = self.send_message(to, &mut gathered, context, FI_INJECT);
        self.started(None, Kind::Send, status)
    }

    /// Posts a receive. A longer message completes with an error (`FI_ETRUNC`); `ofi_rxm` of
    /// libfabric 1.17 also loses the connection then.
    #[inline]
    fn receive(&mut self, part: Part, token: u64) -> Result<(), Refused> {
        let (memory, descriptor) = self.locate(&part).ok_or_else(out_of_bounds)?;
        let objects = self.objects.as_ref().ok_or_else(closed)?;
        let endpoint = objects.endpoint.raw();
        let begun = self.operations.begin(Kind::Receive, token, part.bytes);
        let (index, context) = begun.ok_or(Refused::Full)?;
        // SAFETY: the endpoint is open; the part is within memory that stays
        // mapped until it is closed, and the context as well.
        let status = unsafe {
            inline::fi_recv(
                endpoint,
                memory.cast(),
                part.bytes,
                descriptor,
                u64::MAX, // from any peer
                context,
            )
        };
        self.started(Some(index), Kind::Receive, status)
    }

    // SAFETY: callers promise what the trait requires. With the `shm` provider, data of a read may
    // arrive after this endpoint was closed: the memory must stay valid until the peer has ended,
    // too.
    #[inline]
    unsafe fn read(
        &mut self,
        from: PeerAddress,
        (to, local): (NonNull<u8>, Option<MemoryId>),
        bytes: usize,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused> {
        let descriptor = match local {
            Some(memory) => self.descriptor(memory).ok_or_else(out_of_bounds)?,
            None if self.limits.must_register => return Err(must_register().into()),
            None => null_mut(),
        };
        let transfer = Transfer {
            peer: from,
            local: to.as_ptr().cast(),
            bytes,
            descriptor,
            remote,
        };
        self.transfer(&transfer, Kind::Read, FI_COMPLETION, token)
    }

    #[inline]
    fn write(
        &mut self,
        to: PeerAddress,
        part: Part,
        remote: RemoteMemory,
        token: u64,
    ) -> Result<(), Refused> {
        let (local, descriptor) = self.locate(&part).ok_or_else(out_of_bounds)?;
        let transfer = Transfer {
            peer: to,
            local: local.cast(),
            bytes: part.bytes,
            descriptor,
            remote,
        };
        let flags = FI_COMPLETION | FI_DELIVERY_COMPLETE;
        self.transfer(&transfer, Kind::Write, flags, token)
    }

    #[inline]
    fn poll(&mut self, out: &mut Vec<Completion>) -> Result<(), Error> {
        let queue = self.objects.as_ref().ok_or_else(closed)?.queue.raw();
        self.has_polled = true;
        let mut entries = [const { MaybeUninit::<fi_cq_msg_entry>::uninit() }; BATCH];
        for _ in 0..BATCHES_MAX {
            // SAFETY: the queue is open and has entries of this format; there is room for a batch.
            let count = unsafe { inline::fi_cq_read(queue, entries.as_mut_ptr().cast(), BATCH) };
            if count == -(FI_EAGAIN as isize) || count == 0 {
                return Ok(());
            }
            if count < 0 {
                self.poll_failed(count, out)?;
                continue;
            }
            let count = count as usize;
            for entry in &entries[..count] {
                // SAFETY: the queue has written `count` entries.
                let entry = unsafe { entry.assume_init_ref() };
                // An unknown context belongs to an injected message that was reported without a
                // request. The message succeeded.
                if let Some(operation) = self.operations.end(entry.op_context) {
                    out.push(operation.completed(entry.len));
                }
            }
            if count < BATCH {
                return Ok(());
            }
        }
        Ok(())
    }

    /// True: providers take over injected messages.
    fn has_sent_all(&mut self) -> bool {
        true
    }

    /// See fi_trywait(3).
    fn may_sleep(&mut self) -> bool {
        let objects = self.objects.as_ref();
        let Some(objects) = objects.filter(|objects| objects.wait_fd.is_some()) else {
            return false;
        };
        // SAFETY: the fabric and its queue are open.
        unsafe { inline::fi_trywait(objects.fabric.raw(), &mut [objects.queue.fid()]) == 0 }
    }

    fn wait_fd(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.objects.as_ref()?.wait_fd?;
        // SAFETY: the queue keeps the descriptor open, and stays open as long as the borrow.
        Some(unsafe { BorrowedFd::borrow_raw(fd) })
    }

    /// Closes children first. The `verbs` provider of libfabric 1.x may crash in a close: its
    /// endpoints stay open until the end of the process, with the memory that they may use.
    ///
    /// With the `shm` provider, a peer may still write the data of an earlier read after the close:
    /// let reads complete first.
    fn close(&mut self) -> Result<(), Error> {
        let Some(objects) = self.objects.take() else {
            return Ok(());
        };
        if self.limits.stays_open {
            self.leave_open(objects);
            return Ok(());
        }
        let result = self.close_objects(objects);
        if result.is_err() {
            core::mem::forget(core::mem::take(&mut self.registrations));
        }
        self.registrations.clear();
        result
    }
}
