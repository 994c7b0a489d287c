//! Greetings as datagrams: one unreliable queue pair serves all peers.

#![allow(unsafe_code, reason = "hands buffers for datagrams to the device")]

use super::device::Device;
use super::pair::{Making, modify};
use super::port::LocalPort;
use super::registration::Registration;
use super::work_request::WorkRequest;
use crate::greeting::{Contact, GREETING_BYTES, Greeting};
use crate::objects::Owned;
use crate::sys::constants::*;
use crate::sys::inline;
use crate::sys::types::*;
use crate::{Access, Error};
use core::mem::zeroed;
use core::ptr::null_mut;
use core::time::Duration;
use refrain_ring::Region;

/// Bytes of the route header that the device puts before each datagram.
const ROUTE_BYTES: usize = 40;
/// Bytes of one buffer.
const BUFFER_BYTES: usize = 192;
const _: () = assert!(ROUTE_BYTES + GREETING_BYTES <= BUFFER_BYTES);

/// The queue pair for greetings, with its buffers: the first half is for receiving.
pub(super) struct Datagrams {
    pair: Owned<ibv_qp>,
    number: u32,
    /// A route to each port that was greeted.
    routes: Vec<Route>,
    /// A peer is silent, so its port may have another route by now.
    has_old_routes: bool,
    /// Buffers in each direction.
    each: usize,
    free: Vec<u32>,
    /// Number of restarts: completions from before a restart are ignored.
    epoch: u16,
    is_broken: bool,
    restart_at: Duration,
    memory: Registration,
    buffers: Region,
}

/// Time between two restarts of a queue pair that breaks again and again, for instance because its
/// port is down.
const RESTART_EVERY: Duration = Duration::from_millis(20);

struct Route {
    gid: [u8; 16],
    lid: u16,
    handle: Owned<ibv_ah>,
}

impl Datagrams {
    pub(super) fn open(making: &Making<'_>) -> Result<Self, Error> {
        let device = making.device;
        let each = making.sizes.greetings;
        let bytes = 2 * each * BUFFER_BYTES;
        let buffers = Region::heap(bytes);
        let library = device.library();
        let memory = Registration::new(library, &device.domain, &buffers, Access::LOCAL)?;
        let capacity = ibv_qp_cap {
            max_send_wr: each as u32,
            max_recv_wr: each as u32,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        };
        let (pair, _) = making.queue_pair(IBV_QPT_UD, capacity)?;
        // SAFETY: the queue pair is open.
        let number = unsafe { (*pair.raw()).qp_num };
        let mut datagrams = Self {
            pair,
            number,
            routes: Vec::new(),
            has_old_routes: false,
            each,
            free: Vec::new(),
            epoch: 0,
            is_broken: false,
            restart_at: Duration::ZERO,
            memory,
            buffers,
        };
        datagrams.start(device, making.port)?;
        Ok(datagrams)
    }

    /// The time of the next restart, if the queue pair is broken.
    pub(super) fn restart_at(&self) -> Option<Duration> {
        self.is_broken.then_some(self.restart_at)
    }

    /// Restarts the queue pair with the same number after the device has stopped it, for instance
    /// because its port went down.
    pub(super) fn restart(
        &mut self,
        now: Duration,
        device: &Device,
        port: &LocalPort,
    ) -> Result<(), Error> {
        self.restart_at = now + RESTART_EVERY;
        self.epoch = self.epoch.wrapping_add(1);
        self.start(device, port)?;
        self.is_broken = false;
        Ok(())
    }

    /// Makes the queue pair ready, and posts all buffers.
    fn start(&mut self, device: &Device, port: &LocalPort) -> Result<(), Error> {
        const ATTEMPTED: &str = "prepare the queue pair for greetings";
        let steps = [
            (IBV_QPS_RESET, 0),
            (IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
            (IBV_QPS_RTR, 0),
            (IBV_QPS_RTS, IBV_QP_SQ_PSN),
        ];
        for (state, mask) in steps {
            // SAFETY: zero is a value of every field.
            let mut attributes: ibv_qp_attr = unsafe { zeroed() };
            attributes.qp_state = state;
            attributes.port_num = port.number;
            attributes.qkey = port.contact.qkey;
            let mask = IBV_QP_STATE | mask;
            modify(
                device.library(),
                &self.pair,
                ATTEMPTED,
                &mut attributes,
                mask,
            )?;
        }
        self.free = (0..self.each as u32).rev().collect();
        (0..self.each as u32).try_for_each(|index| self.listen(index))
    }

    /// Number of greetings that can be sent now; unlimited while the queue pair is broken, since
    /// they are lost.
    pub(super) fn room(&self) -> usize {
        match self.is_broken {
            false => self.free.len(),
            true => usize::MAX,
        }
    }

    /// Makes the routes to peers be looked up again, as soon as no greeting uses one. A port keeps
    /// its address, but its route (the hardware address, on Ethernet) may change.
    pub(super) fn find_routes_anew(&mut self) {
        self.has_old_routes = true;
    }

    /// The number of a request in the present epoch.
    fn numbered(&self, index: u32) -> u32 {
        u32::from(self.epoch) << 16 | index
    }

    /// The buffer of a completion; `None` if the completion is from before a restart.
    fn buffer_of(&self, number: u32) -> Option<u32> {
        (number >> 16 == u32::from(self.epoch)).then_some(number & 0xffff)
    }

    /// The number of the queue pair.
    pub(super) fn number(&self) -> u32 {
        self.number
    }

    /// Sends a greeting, if a buffer is free and there is a route. A lost greeting does not matter,
    /// since greetings are repeated.
    pub(super) fn send(
        &mut self,
        device: &Device,
        port: &LocalPort,
        to: &Contact,
        greeting: &Greeting,
    ) -> Result<(), Error> {
        let handle = self.route_to(device, port, to)?;
        let Some(index) = self.free.pop() else {
            return Ok(());
        };
        let offset = (self.each + index as usize) * BUFFER_BYTES;
        let bytes = greeting.encode();
        // SAFETY: the buffer is long enough, and not in use, since it was free.
        unsafe {
            self.buffers
                .at(offset)
                .copy_from(bytes.as_ptr(), bytes.len())
        };
        let mut piece = self.piece(offset, bytes.len());
        // SAFETY: zero is a value of every field.
        let mut request: ibv_send_wr = unsafe { zeroed() };
        request.wr_id = WorkRequest::GreetingSent(self.numbered(index)).encode();
        request.sg_list = &raw mut piece;
        request.num_sge = 1;
        request.opcode = IBV_WR_SEND;
        request.send_flags = IBV_SEND_SIGNALED;
        request.wr.ud = ibv_send_wr__bindgen_ty_2__bindgen_ty_3 {
            ah: handle,
            remote_qpn: to.qpn,
            remote_qkey: to.qkey,
        };
        let mut refused = null_mut();
        // SAFETY: the queue pair and the route are open; the buffer is registered, and not written
        // before it is free again.
        let status =
            unsafe { inline::ibv_post_send(self.pair.raw(), &raw mut request, &raw mut refused) };
        if status != 0 {
            self.free.push(index);
            return Err(Error::system("send a greeting", status));
        }
        Ok(())
    }

    /// Handles the completion of a greeting that was sent or failed: its buffer is free.
    pub(super) fn sent(&mut self, number: u32, status: ibv_wc_status) {
        let Some(index) = self.buffer_of(number) else {
            return;
        };
        debug_assert!(!self.free.contains(&index));
        self.free.push(index);
        self.is_broken |= status != IBV_WC_SUCCESS;
    }

    /// Returns the greeting in a datagram of `bytes` bytes, which include the route header.
    pub(super) fn heard(
        &mut self,
        number: u32,
        status: ibv_wc_status,
        bytes: usize,
    ) -> Option<Greeting> {
        let index = self.buffer_of(number)?;
        if status != IBV_WC_SUCCESS {
            self.is_broken = true;
            return None;
        }
        let greeting = self.greeting_in(index, bytes);
        // Fails only when the queue pair does not work.
        self.is_broken |= self.listen(index).is_err();
        greeting
    }

    fn greeting_in(&self, index: u32, bytes: usize) -> Option<Greeting> {
        let mut greeting = [0_u8; GREETING_BYTES];
        if bytes.checked_sub(ROUTE_BYTES) != Some(GREETING_BYTES) {
            return None;
        }
        let from = self.buffers.at(index as usize * BUFFER_BYTES + ROUTE_BYTES);
        // SAFETY: within the buffer, which the device has returned.
        unsafe { greeting.as_mut_ptr().copy_from(from, GREETING_BYTES) };
        Greeting::decode(&greeting).ok()
    }

    /// Posts a buffer for a greeting.
    fn listen(&mut self, index: u32) -> Result<(), Error> {
        let mut piece = self.piece(index as usize * BUFFER_BYTES, BUFFER_BYTES);
        let mut request = ibv_recv_wr {
            wr_id: WorkRequest::GreetingHeard(self.numbered(index)).encode(),
            next: null_mut(),
            sg_list: &raw mut piece,
            num_sge: 1,
        };
        let mut refused = null_mut();
        // SAFETY: the queue pair is open; the buffer is registered, and not accessed before the
        // device returns it.
        let status =
            unsafe { inline::ibv_post_recv(self.pair.raw(), &raw mut request, &raw mut refused) };
        match status {
            0 => Ok(()),
            status => Err(Error::system("listen for greetings", status)),
        }
    }

    fn piece(&self, offset: usize, bytes: usize) -> ibv_sge {
        ibv_sge {
            addr: self.memory.address(offset),
            length: bytes as u32,
            lkey: self.memory.local_key(),
        }
    }

    fn route_to(
        &mut self,
        device: &Device,
        port: &LocalPort,
        to: &Contact,
    ) -> Result<*mut ibv_ah, Error> {
        if self.has_old_routes && self.free.len() == self.each {
            self.routes.clear();
            self.has_old_routes = false;
        }
        let known = |route: &&Route| route.gid == to.gid && route.lid == to.lid;
        if let Some(route) = self.routes.iter().find(known) {
            return Ok(route.handle.raw());
        }
        let functions = device.library().functions();
        let mut attributes = port.route_to(&to.gid, to.lid);
        // SAFETY: the domain is open and destroyed later; the attributes live during the call.
        let handle = unsafe {
            let handle = (functions.create_ah)(device.domain.raw(), &raw mut attributes);
            Owned::new("find the way to a peer", handle, functions.destroy_ah)?
        };
        let raw = handle.raw();
        self.routes.push(Route {
            gid: to.gid,
            lid: to.lid,
            handle,
        });
        Ok(raw)
    }

    /// Destroys all objects, children first; an object that cannot be destroyed is leaked.
    pub(super) fn close(self) -> Result<(), Error> {
        let mut result = self.pair.destroy("destroy the queue pair for greetings");
        for route in self.routes {
            result = result.and(route.handle.destroy("forget the way to a peer"));
        }
        if result.is_ok() {
            return self.memory.close();
        }
        core::mem::forget(self.memory);
        result
    }
}
