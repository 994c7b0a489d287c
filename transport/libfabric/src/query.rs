//! What a library's providers offer that fits hints.

#![allow(
    unsafe_code,
    reason = "hands structures to the library, and takes over what it allocated"
)]

use crate::constants::FI_SOURCE;
use crate::library::API;
use crate::sys::attributes::*;
use crate::{EndpointType, Error, Hints, Info, Library};
use core::ptr::{null, null_mut};
use std::ffi::CString;

impl Library {
    /// What is installed and fits `hints`, in the order of the providers' own
    /// preference.
    ///
    /// # Errors
    /// Nothing fits ([`Error::is_no_data`]), or the hints are contradictory.
    pub fn infos(&self, hints: &Hints) -> Result<Vec<Info>, Error> {
        let strings = Strings::of(hints)?;
        let wanted = Info::allocate(self, hints)?;
        strings.lend_to(&wanted, hints);
        let mut list = null_mut();
        // SAFETY: the hints are a whole fi_info; all strings live during the call.
        let status = unsafe {
            (self.functions().getinfo)(
                API.packed(),
                pointer(strings.node.as_ref()),
                pointer(strings.service.as_ref()),
                source_flag(hints),
                wanted.raw(),
                &raw mut list,
            )
        };
        Strings::take_back_from(&wanted);
        if status < 0 {
            return Err(self.error(attempted(hints), status.into()));
        }
        let mut infos = Vec::new();
        let mut next = list;
        while !next.is_null() {
            // SAFETY: an element of the list that the library returned.
            let result = unsafe { Info::duplicate(self, next) };
            // SAFETY: as above.
            next = unsafe { (*next).next };
            match result {
                Ok(info) => infos.push(info),
                Err(error) => {
                    // SAFETY: the whole list, once.
                    unsafe { (self.functions().freeinfo)(list) };
                    return Err(error);
                }
            }
        }
        // SAFETY: the whole list, once.
        unsafe { (self.functions().freeinfo)(list) };
        Ok(infos)
    }
}

/// Without node and service the flag would exclude every offer.
fn source_flag(hints: &Hints) -> u64 {
    let names_a_side = hints.node.is_some() || hints.service.is_some();
    if hints.source && names_a_side {
        FI_SOURCE
    } else {
        0
    }
}

fn attempted(hints: &Hints) -> String {
    format!(
        "find an offer of {} (fabric {}, domain {}, capabilities {:#x}{})",
        hints
            .provider
            .as_deref()
            .map_or("any provider".to_owned(), |name| format!(
                "provider `{name}`"
            )),
        hints.fabric.as_deref().unwrap_or("any"),
        hints.domain.as_deref().unwrap_or("any"),
        hints.caps,
        hints
            .node
            .as_deref()
            .map_or(String::new(), |node| format!(", node {node}")),
    )
}

/// The strings of hints. The library must not free them with the structure.
struct Strings {
    provider: Option<CString>,
    fabric: Option<CString>,
    domain: Option<CString>,
    node: Option<CString>,
    service: Option<CString>,
}

fn pointer(string: Option<&CString>) -> *const core::ffi::c_char {
    string.map_or(null(), |string| string.as_ptr())
}

impl Strings {
    fn of(hints: &Hints) -> Result<Self, Error> {
        let string = |text: &Option<String>| {
            text.as_deref().map(CString::new).transpose().map_err(|_| {
                Error::invalid("ask for providers", "a name in the hints has a zero byte")
            })
        };
        Ok(Self {
            provider: string(&hints.provider)?,
            fabric: string(&hints.fabric)?,
            domain: string(&hints.domain)?,
            node: string(&hints.node)?,
            service: string(&hints.service)?,
        })
    }

    fn lend_to(&self, wanted: &Info, hints: &Hints) {
        // SAFETY: fi_dupinfo(NULL) makes all attribute structures.
        unsafe {
            let info = &mut *wanted.raw();
            (*info.fabric_attr).prov_name = pointer(self.provider.as_ref()).cast_mut();
            (*info.fabric_attr).name = pointer(self.fabric.as_ref()).cast_mut();
            (*info.domain_attr).name = pointer(self.domain.as_ref()).cast_mut();
        }
        debug_assert_eq!(self.provider.is_some(), hints.provider.is_some());
    }

    fn take_back_from(wanted: &Info) {
        // SAFETY: as in `lend_to`.
        unsafe {
            let info = &mut *wanted.raw();
            (*info.fabric_attr).prov_name = null_mut();
            (*info.fabric_attr).name = null_mut();
            (*info.domain_attr).name = null_mut();
        }
    }
}

impl Info {
    /// An `fi_info` with the hints, but for their strings.
    fn allocate(library: &Library, hints: &Hints) -> Result<Self, Error> {
        // SAFETY: null asks for a new one (fi_allocinfo).
        let info = unsafe { Self::duplicate(library, null())? };
        // SAFETY: fi_dupinfo(NULL) makes all attribute structures.
        unsafe {
            let raw = &mut *info.raw();
            raw.caps = hints.caps;
            raw.mode = hints.mode;
            raw.addr_format = hints.address_format;
            (*raw.ep_attr).type_ = match hints.endpoint {
                EndpointType::Rdm => FI_EP_RDM,
                EndpointType::Msg => FI_EP_MSG,
                EndpointType::Datagram => FI_EP_DGRAM,
                EndpointType::Any => FI_EP_UNSPEC,
            };
            let domain = &mut *raw.domain_attr;
            domain.mr_mode = hints.mr_mode as i32;
            domain.mode = hints.mode;
            // All objects of a domain belong to one `Endpoint`, whose methods
            // exclude each other: providers may leave their locks out.
            domain.threading = FI_THREAD_DOMAIN;
            // Whoever polls moves everything along: threads of a provider
            // (`sockets` has some) would need a core of their own.
            domain.control_progress = FI_PROGRESS_MANUAL;
            domain.data_progress = FI_PROGRESS_MANUAL;
            let transmit = &mut *raw.tx_attr;
            transmit.msg_order = hints.msg_order;
            transmit.op_flags = hints.tx_op_flags;
            transmit.size = hints.tx_depth;
            transmit.inject_size = hints.inject_bytes;
            let receive = &mut *raw.rx_attr;
            receive.msg_order = hints.msg_order;
            receive.size = hints.rx_depth;
        }
        Ok(info)
    }
}
