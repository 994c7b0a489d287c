//! An offer of a provider: one `fi_info`.

#![allow(unsafe_code, reason = "reads structures that the library allocated")]

use crate::error::Error;
use crate::library::{Library, Version};
use crate::native::text;
use crate::sys::attributes::*;
use crate::sys::constants::FI_ENOMEM;
use core::ptr::NonNull;

/// One offer of one provider: the fabric, domain and endpoint that can be opened, and their
/// properties. Owns its `fi_info`.
pub struct Info {
    library: Library,
    // Allocated by the library's fi_dupinfo, freed by its fi_freeinfo. All attribute structures
    // exist, as fi_getinfo(3) promises for its results.
    raw: NonNull<fi_info>,
}

// SAFETY: the structure depends on no thread, and `&Info` only reads it.
unsafe impl Send for Info {}
// SAFETY: as for Send.
unsafe impl Sync for Info {}

impl Drop for Info {
    fn drop(&mut self) {
        // SAFETY: allocated by the same library, freed once.
        unsafe { (self.library.functions().freeinfo)(self.raw.as_ptr()) }
    }
}

impl Clone for Info {
    fn clone(&self) -> Self {
        // SAFETY: `raw` is a complete fi_info.
        unsafe { Self::duplicate(&self.library, self.raw.as_ptr()) }
            .expect("no memory for another fi_info")
    }
}

impl core::fmt::Debug for Info {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Info")
            .field("provider", &self.provider())
            .field("fabric", &self.fabric_name())
            .field("domain", &self.domain_name())
            .finish_non_exhaustive()
    }
}

impl Info {
    /// # Safety
    /// `raw` is null or a complete `fi_info` of the same library.
    pub(crate) unsafe fn duplicate(library: &Library, raw: *const fi_info) -> Result<Self, Error> {
        // SAFETY: as the caller promises.
        let raw = unsafe { (library.functions().dupinfo)(raw) };
        Ok(Self {
            raw: NonNull::new(raw)
                .ok_or_else(|| library.error("copy a provider's offer", FI_ENOMEM.into()))?,
            library: library.clone(),
        })
    }

    pub(crate) fn raw(&self) -> *mut fi_info {
        self.raw.as_ptr()
    }

    fn info(&self) -> &fi_info {
        // SAFETY: complete as long as `self` lives; written only through `&mut self`.
        unsafe { self.raw.as_ref() }
    }

    fn fabric(&self) -> &fi_fabric_attr {
        // SAFETY: it exists as long as `self`.
        unsafe { &*self.info().fabric_attr }
    }

    fn domain(&self) -> &fi_domain_attr {
        // SAFETY: it exists as long as `self`.
        unsafe { &*self.info().domain_attr }
    }

    fn endpoint(&self) -> &fi_ep_attr {
        // SAFETY: it exists as long as `self`.
        unsafe { &*self.info().ep_attr }
    }

    fn transmit(&self) -> &fi_tx_attr {
        // SAFETY: it exists as long as `self`.
        unsafe { &*self.info().tx_attr }
    }

    fn receive(&self) -> &fi_rx_attr {
        // SAFETY: it exists as long as `self`.
        unsafe { &*self.info().rx_attr }
    }

    /// The library that made the offer.
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The name of the provider: `tcp`, `tcp;ofi_rxm`, `shm`, …
    pub fn provider(&self) -> String {
        // SAFETY: a C string of the structure.
        unsafe { text(self.fabric().prov_name) }
    }

    /// The version of the provider.
    pub fn provider_version(&self) -> Version {
        Version::from_packed(self.fabric().prov_version)
    }

    /// Name of the fabric.
    pub fn fabric_name(&self) -> String {
        // SAFETY: a C string of the structure.
        unsafe { text(self.fabric().name) }
    }

    /// Name of the domain.
    pub fn domain_name(&self) -> String {
        // SAFETY: a C string of the structure.
        unsafe { text(self.domain().name) }
    }

    /// Whether the endpoint is reliable and has no connections (`FI_EP_RDM`).
    pub(crate) fn is_rdm(&self) -> bool {
        self.endpoint().type_ == FI_EP_RDM
    }

    /// Capabilities, `FI_MSG`, …
    pub fn caps(&self) -> u64 {
        self.info().caps
    }

    /// Requirements on the application, `FI_CONTEXT`, …
    pub fn mode(&self) -> u64 {
        self.info().mode
    }

    /// Requirements on the application for registered memory, `FI_MR_LOCAL`, …
    pub fn mr_mode(&self) -> u64 {
        self.domain().mr_mode as u32 as u64
    }

    /// Bytes of a key of remote memory.
    pub fn mr_key_bytes(&self) -> usize {
        self.domain().mr_key_size
    }

    /// The own address, if the provider knows it before opening; may be empty.
    pub fn source_address(&self) -> &[u8] {
        let info = self.info();
        if info.src_addr.is_null() {
            return &[];
        }
        // SAFETY: the address has that many bytes, and exists as long as `self`.
        unsafe { core::slice::from_raw_parts(info.src_addr.cast(), info.src_addrlen) }
    }

    /// Format of addresses, `FI_SOCKADDR_IN`, …
    pub fn address_format(&self) -> u32 {
        self.info().addr_format
    }

    /// Bytes of the longest message that can be injected.
    pub fn inject_bytes(&self) -> usize {
        self.transmit().inject_size
    }

    /// Most parts from which a message can be gathered.
    pub fn tx_iov_max(&self) -> usize {
        self.transmit().iov_limit
    }

    /// Number of receives that can be posted.
    pub fn rx_depth(&self) -> usize {
        self.receive().size
    }

    /// Bytes of the longest message, read or write.
    pub fn message_bytes_max(&self) -> usize {
        self.endpoint().max_msg_size
    }

    /// The order of messages that both directions keep, `FI_ORDER_SAS`, …
    pub fn msg_order(&self) -> u64 {
        self.transmit().msg_order & self.receive().msg_order
    }

    /// The type of address vector; some providers do not accept "unspecified".
    pub(crate) fn av_type(&self) -> fi_av_type {
        match self.domain().av_type {
            FI_AV_MAP => FI_AV_MAP,
            _ => FI_AV_TABLE,
        }
    }
}
