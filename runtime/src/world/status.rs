//! Reports a rank's status while it runs, and sends its checkpoint requests.

use super::World;
use super::checkpoint_requests::{Channel, Memory, Shortage};
use crate::Error;
use core::time::Duration;
use refrain_job::control::message::{StatusFigures, ToLauncher};
use refrain_transport::engine::Stall;
use std::time::Instant;

/// Longest wait in [`World::checkpoint_requested`] of a rank that is short of log memory, for the
/// checkpoints that it has requested. There it can take its own checkpoint, for which other ranks
/// may wait; inside a send it cannot. The time is short, since other ranks may need its next
/// messages.
const ROOM_WAIT: Duration = Duration::from_millis(100);

impl World {
    /// Reports the status of this rank.
    pub(super) fn tell_status(&mut self) -> Result<(), Error> {
        let statistics = self.engine.statistics();
        let (log_bytes, log_bytes_max) = self.engine.log_bytes();
        let waits = &self.engine.protocol().watch().waits;
        let before = self.checkpoints.traffic_before;
        let figures = StatusFigures {
            received_bytes: statistics.bytes_received - before.received_bytes,
            sent_bytes: statistics.bytes_sent - before.sent_bytes,
            log_bytes,
            log_bytes_max,
            disk_bytes: self.engine.log_bytes_on_disk().unwrap_or(0),
            gate_waits: waits.count(),
            gate_wait_us: waits.total_ns / 1000,
            heeds_requests: self.checkpoints.heeds_requests,
        };
        let status = ToLauncher::Status(Box::new(figures));
        self.tell(|control| control.report(&status))
    }

    /// The channels that hold log memory.
    fn log_channels(&self) -> Vec<Channel> {
        let channel = |to| {
            let (held_bytes, share_bytes) = self.engine.log_bytes_of(to);
            Channel {
                to,
                held_bytes,
                share_bytes,
                horizon: self.engine.log_horizon(to),
            }
        };
        self.engine.logs_in_memory().map(channel).collect()
    }

    fn log_memory(&self) -> Memory {
        let (used_bytes, budget_bytes) = self.engine.log_bytes();
        Memory {
            used_bytes,
            budget_bytes,
            stays_bytes: self.engine.log_bytes_kept().min(budget_bytes),
            is_writing: self.engine.is_spilling(),
            is_exhausted: self.engine.stall().is_some_and(Stall::is_of_memory),
        }
    }

    /// Whether the log may be short of memory.
    #[inline]
    pub(super) fn may_lack_room(&self) -> bool {
        let (used_bytes, budget_bytes) = self.engine.log_bytes();
        self.checkpoints.store.is_some() && used_bytes >= budget_bytes / 2
    }

    /// Requests the checkpoints that would free log memory, and returns the shortage. LOG-3
    #[cold]
    pub(super) fn request_room(&mut self) -> Result<Shortage, Error> {
        if self.checkpoints.store.is_none() || !self.engine.may_lack_log_memory() {
            return Ok(Shortage::None);
        }
        let (memory, channels) = (self.log_memory(), self.log_channels());
        let requests = &mut self.checkpoints.requests;
        for of in requests.next(Instant::now(), memory, &channels) {
            self.tell(|control| control.report(&ToLauncher::WantCheckpoint(of.0)))?;
        }
        Ok(memory.shortage(&channels))
    }

    /// Called between two steps of a program, where it can take a checkpoint: waits for checkpoints
    /// of other ranks if it would soon stall without them. LOG-3
    pub(super) fn wait_for_room(&mut self) -> Result<(), Error> {
        if !self.may_lack_room() || self.request_room()? < Shortage::Much {
            self.checkpoints.has_waited = false;
            return Ok(());
        }
        if core::mem::replace(&mut self.checkpoints.has_waited, true) {
            return Ok(());
        }
        let give_up_at = Instant::now() + ROOM_WAIT;
        self.block_until(|world| {
            let has_room = world.log_memory().shortage(&world.log_channels()) < Shortage::Much;
            if has_room {
                world.checkpoints.has_waited = false;
            }
            let is_over = has_room || world.checkpoints.is_wanted;
            (is_over || Instant::now() >= give_up_at).then_some(())
        })
    }
}
