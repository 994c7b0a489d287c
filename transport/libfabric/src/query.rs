//! Queries the offers of providers that match hints.

#![allow(
    unsafe_code,
    reason = "hands structures to the library, and takes over what it allocated"
)]

use crate::error::Error;
use crate::hints::{EndpointType, Hints, MR_MODES_HANDLED};
use crate::info::Info;
use crate::library::{API, Library};
use crate::sys::attributes::*;
use crate::sys::constants::{FI_CONTEXT, FI_CONTEXT2, FI_SOURCE};
use core::ffi::c_char;
use core::ptr::{null, null_mut};
use std::ffi::CString;

impl Library {
    /// The installed offers that match `hints`, in the providers' order of preference.
    ///
    /// # Errors
    /// When nothing matches ([`Error::is_no_data`]), or a name has a zero byte.
    pub fn infos(&self, hints: &Hints) -> Result<Vec<Info>, Error> {
        let provider = c_string(hints.provider.as_deref())?;
        let node = c_string(hints.node.as_deref())?;
        let flags = if node.is_some() { FI_SOURCE } else { 0 };
        let wanted = Info::wanted(self, hints)?;
        let mut list = null_mut();
        // SAFETY: the hints are a complete fi_info, and all strings live during the call. The
        // provider's name is removed afterwards, since the library must not free it.
        let status = unsafe {
            let fabric = (*wanted.raw()).fabric_attr;
            (*fabric).prov_name = pointer(provider.as_ref()).cast_mut();
            let status = (self.functions().getinfo)(
                API.packed(),
                pointer(node.as_ref()),
                null(),
                flags,
                wanted.raw(),
                &raw mut list,
            );
            (*fabric).prov_name = null_mut();
            status
        };
        if status < 0 {
            return Err(self.error(attempted(hints), status.into()));
        }
        let mut infos = Ok(Vec::new());
        let mut next = list;
        while let (false, Ok(found)) = (next.is_null(), &mut infos) {
            // SAFETY: an element of the list that the library returned.
            let (info, behind) = unsafe { (Info::duplicate(self, next), (*next).next) };
            next = behind;
            match info {
                Ok(info) => found.push(info),
                Err(error) => infos = Err(error),
            }
        }
        // SAFETY: frees the whole list, once.
        unsafe { (self.functions().freeinfo)(list) };
        infos
    }
}

fn attempted(hints: &Hints) -> String {
    let provider = match &hints.provider {
        Some(name) => format!("provider `{name}`"),
        None => "any provider".to_owned(),
    };
    let node = match &hints.node {
        Some(node) => format!(", node {node}"),
        None => String::new(),
    };
    format!(
        "find an offer of {provider} (capabilities {:#x}{node})",
        hints.caps
    )
}

fn c_string(text: Option<&str>) -> Result<Option<CString>, Error> {
    text.map(CString::new)
        .transpose()
        .map_err(|_| Error::invalid("ask for providers", "a name in the hints has a zero byte"))
}

fn pointer(string: Option<&CString>) -> *const c_char {
    string.map_or(null(), |string| string.as_ptr())
}

impl Info {
    /// An `fi_info` with the hints, without their strings.
    fn wanted(library: &Library, hints: &Hints) -> Result<Self, Error> {
        // SAFETY: a null pointer requests a new structure (fi_allocinfo).
        let info = unsafe { Self::duplicate(library, null())? };
        // SAFETY: fi_dupinfo(NULL) allocates all attribute structures, filled with zeros.
        unsafe {
            let raw = &mut *info.raw();
            raw.caps = hints.caps;
            // `Endpoint` always provides contexts of 64 bytes.
            raw.mode = FI_CONTEXT | FI_CONTEXT2;
            (*raw.ep_attr).type_ = match hints.endpoint {
                EndpointType::Rdm => FI_EP_RDM,
                EndpointType::Any => FI_EP_UNSPEC,
            };
            let domain = &mut *raw.domain_attr;
            domain.mr_mode = MR_MODES_HANDLED as i32;
            domain.mode = raw.mode;
            // All objects of a domain belong to one `Endpoint`, whose methods exclude each other:
            // providers need no locks.
            domain.threading = FI_THREAD_DOMAIN;
            // Polls make all progress: threads of a provider would need a core of their own.
            domain.control_progress = FI_PROGRESS_MANUAL;
            domain.data_progress = FI_PROGRESS_MANUAL;
            (*raw.tx_attr).msg_order = hints.msg_order;
            (*raw.rx_attr).msg_order = hints.msg_order;
        }
        Ok(info)
    }
}
