//! Asynchronous events of a device.

#![allow(unsafe_code, reason = "reads the device's events")]

use super::Open;
use super::pair::{Pair, PairState};
use super::work_request::PairId;
use crate::Error;
use crate::sys::constants::*;
use crate::sys::types::{ibv_async_event, ibv_qp};
use core::mem::zeroed;

/// Most events read by one call: a device that never pauses must not keep this process in it.
const EVENTS_MAX: usize = 64;

impl Open {
    /// Reads the available events.
    ///
    /// # Errors
    /// When the device has failed.
    pub(super) fn read_events(&mut self) -> Result<(), Error> {
        let library = self.device.library().clone();
        for _ in 0..EVENTS_MAX {
            // SAFETY: zero is a value of every field.
            let mut event: ibv_async_event = unsafe { zeroed() };
            let context = self.device.context.raw();
            // SAFETY: the device is open, and its descriptor does not block.
            let status = unsafe { (library.functions().get_async_event)(context, &raw mut event) };
            if status != 0 {
                break;
            }
            self.happened_to_device(&event);
            // SAFETY: an event that was read, acknowledged once.
            unsafe { (library.functions().ack_async_event)(&raw mut event) };
        }
        self.progress.fatal.clone().map_or(Ok(()), Err)
    }

    fn happened_to_device(&mut self, event: &ibv_async_event) {
        self.counters.events += 1;
        match event.event_type {
            IBV_EVENT_PORT_ACTIVE | IBV_EVENT_PORT_ERR => self.counters.port_events += 1,
            IBV_EVENT_QP_LAST_WQE_REACHED => {
                let id = self.pair_of(event);
                if let Some(pair) = id.and_then(|id| self.pairs.get_mut(id)) {
                    if let PairState::Draining { is_last, .. } = &mut pair.state {
                        *is_last = true;
                    } else {
                        // The device has stopped the queue pair.
                        self.give_up_last(id);
                    }
                }
            }
            IBV_EVENT_QP_FATAL | IBV_EVENT_QP_REQ_ERR | IBV_EVENT_QP_ACCESS_ERR => {
                if let Some(id) = self.pair_of(event) {
                    self.give_up(id);
                }
            }
            IBV_EVENT_DEVICE_FATAL | IBV_EVENT_CQ_ERR | IBV_EVENT_SRQ_ERR => {
                let said = self.device.library().event_words(event.event_type);
                self.progress.fatal = Some(Error::invalid(
                    "use the device",
                    format!("{} failed: {said}", self.port.words),
                ));
            }
            _ => {}
        }
    }

    fn give_up_last(&mut self, id: Option<PairId>) {
        let Some(id) = id else {
            return;
        };
        self.give_up(id);
        if let Some(pair) = self.pairs.get_mut(id)
            && let PairState::Draining { is_last, .. } = &mut pair.state
        {
            *is_last = true;
        }
    }

    /// The queue pair of an event, if it belongs to a peer.
    fn pair_of(&self, event: &ibv_async_event) -> Option<PairId> {
        // SAFETY: events of these types have a queue pair.
        let about: *mut ibv_qp = unsafe { event.element.qp };
        let is_it = |pair: &&Pair| core::ptr::eq(pair.raw(), about);
        self.pairs.iter().find(is_it).map(|pair| pair.id)
    }
}
