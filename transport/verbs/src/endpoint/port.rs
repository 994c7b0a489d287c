//! The local port of an endpoint, and routes from it.

#![allow(unsafe_code, reason = "fills structures of the library")]

use crate::greeting::Contact;
use crate::sys::types::ibv_ah_attr;
use crate::{Chosen, Error};
use core::mem::zeroed;

/// The local port.
pub(super) struct LocalPort {
    pub(super) number: u8,
    gid_index: Option<u8>,
    pub(super) contact: Contact,
    /// The description for messages.
    pub(super) words: String,
}

/// Maximum number of routers on a route.
const HOPS_MAX: u8 = 64;

/// Most reads of one queue pair at a time: more do not make it faster.
const READS_MAX: u8 = 16;

impl LocalPort {
    /// The port of `chosen`; the number of the queue pair for greetings is set later.
    ///
    /// # Errors
    /// When the MTU is not one of verbs.
    pub(super) fn new(chosen: &Chosen, qkey: u32) -> Result<Self, Error> {
        let mtu = match chosen.mtu_bytes {
            256 => 1,
            512 => 2,
            1024 => 3,
            2048 => 4,
            4096 => 5,
            bytes => {
                return Err(Error::invalid(
                    "open an endpoint",
                    format!("packets carry 256, 512, 1024, 2048 or 4096 bytes, not {bytes}"),
                ));
            }
        };
        Ok(Self {
            number: chosen.port,
            gid_index: chosen.gid_index,
            contact: Contact {
                gid: chosen.gid,
                lid: chosen.lid,
                qpn: 0,
                qkey,
                mtu,
                reads_served: chosen.limits.reads_answered.min(READS_MAX),
                reads_asked: chosen.limits.reads_begun.min(READS_MAX),
            },
            words: chosen.to_string(),
        })
    }

    /// The route from this port to another port.
    pub(super) fn route_to(&self, gid: &[u8; 16], lid: u16) -> ibv_ah_attr {
        // SAFETY: zero is a value of every field.
        let mut route: ibv_ah_attr = unsafe { zeroed() };
        route.port_num = self.number;
        route.dlid = lid;
        if let Some(index) = self.gid_index {
            route.is_global = 1;
            route.grh.dgid.raw = *gid;
            route.grh.sgid_index = index;
            route.grh.hop_limit = HOPS_MAX;
        }
        route
    }
}
