//! How a rank leaves its job.

use super::World;
use crate::Error;
use core::time::Duration;
use refrain_job::control::ControlPlane;
use refrain_job::control::message::ToLauncher;
use refrain_ring::Rank;
use refrain_transport::engine::EngineError;
use refrain_transport::protocol::Protocol as _;
use rustix::fs::{MemfdFlags, memfd_create};
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileExt as _;
use std::time::Instant;

/// How long a leaving rank waits until its log is acknowledged.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Time between two checks whether the event loggers have all events.
const LEAVE_NAP: Duration = Duration::from_micros(100);

impl World {
    /// Leaves the job in order: waits until every rank has called it and everything that this rank
    /// sent has left it.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn finalize(mut self) -> Result<(), Error> {
        self.barrier()?;
        self.tell_recovered()?;
        self.drain()?;
        self.leave_protocol()?;
        self.leave_own_events()?;
        if self.tells_statistics {
            let statistics = ToLauncher::Statistics(Box::new(self.statistics()));
            self.tell(|control| control.report(&statistics))?;
        }
        // Acknowledges the messages of other ranks until all ranks are drained; otherwise they
        // would take this rank for dead. A rank that is restarted now needs the logs of all others.
        //
        // GATE-1: this rank's events are stable, or were given up. Reaching the fence shows other
        // ranks no more than the barrier did.
        self.fence_while(true, Self::progress_to_the_end)
    }

    /// Waits, for a limited time, until no frame has to leave this rank, and results of neighbours are
    /// kept. All ranks were in the
    /// barrier, so every message that a rank waits for has arrived.
    fn drain(&mut self) -> Result<(), Error> {
        let give_up_at = Instant::now() + DRAIN_MAX;
        self.block_until(|world| {
            let is_over = !world.engine.has_unsent() && !world.under_way.is_sharing();
            (is_over || Instant::now() >= give_up_at).then_some(())
        })
    }

    /// Waits, for a limited time, until the last events are stable. No message that another rank
    /// has seen depends on them; output may.
    fn leave_protocol(&mut self) -> Result<(), Error> {
        let began = Instant::now();
        let longest = if self.gates_output {
            self.patience.events_wait
        } else {
            DRAIN_MAX
        };
        while !self.engine.protocol_mut().leave() {
            if began.elapsed() >= longest {
                return match self.gates_output {
                    true => Err(Error::EventsNotStable {
                        waited: began.elapsed(),
                        why: self.engine.protocol().explain().unwrap_or_default(),
                    }),
                    false => Ok(()),
                };
            }
            self.look_for_news()?;
            self.progress_to_the_end()?;
            std::thread::sleep(LEAVE_NAP);
        }
        Ok(())
    }

    /// Leaves the events of this rank with the launcher, where other ranks hold them: they end with
    /// this one, and it may be restarted after the last fence. TICKET-2
    fn leave_own_events(&mut self) -> Result<(), Error> {
        let Some(holdings) = self.holdings() else {
            return Ok(());
        };
        let own = holdings.own_answer();
        let failed = |error: std::io::Error| {
            Error::Config(format!(
                "leaving the events of this rank with the launcher: {error}"
            ))
        };
        let file = memfd_create("refrain-events", MemfdFlags::CLOEXEC);
        let mut file = File::from(file.map_err(|error| failed(error.into()))?);
        file.write_all(&own).map_err(failed)?;
        self.tell(|control| control.put(&own_events_key(control.rank()), &[], Some(file.as_fd())))
    }

    /// Waits for all ranks before the first event, if ranks hold events for each other: from then on
    /// each answers what it holds. TICKET-2
    pub(super) fn meet_holders(&mut self) -> Result<(), Error> {
        if self.holdings().is_none() {
            return Ok(());
        }
        let Some(control) = &mut self.control else {
            return Ok(());
        };
        if control.fences_passed() == 0 {
            control.fence()?;
        }
        // Before it polls for the first time, since it holds nothing before. TICKET-2
        control.tell_joined()?;
        self.tell_restored()
    }

    /// Makes progress and ignores errors of the fabric. A peer that has passed the fence before
    /// this rank may have ended by now, and a provider may report that as an error, while other
    /// peers still need answers. A request that cannot be answered stays an error: a later life
    /// that asks for freed messages would wait forever. GC-1
    fn progress_to_the_end(&mut self) -> Result<(), Error> {
        self.under_way.advance(&mut self.engine)?;
        self.meet_peers()?;
        match self.engine.progress() {
            Ok(_) | Err(EngineError::Fabric(_)) => Ok(()),
            Err(lost @ EngineError::PeerLost { .. }) => match self.attention.peers_may_return {
                true => self.bear(lost).map(drop),
                false => Ok(()),
            },
            Err(error) => Err(error.into()),
        }
    }
}

/// The key under which a rank leaves its events.
fn own_events_key(rank: Rank) -> String {
    format!("events/{rank}")
}

/// The events that an earlier life of this rank has left, as an answer of a rank that holds them.
pub(super) fn read_own_events(control: &mut ControlPlane) -> Result<Vec<u8>, Error> {
    let rank = control.rank();
    let (_, file) = control.get(&own_events_key(rank))?;
    let failed = |why: &dyn core::fmt::Display| {
        Error::Config(format!(
            "rank {rank} cannot replay, the events that it left cannot be read: {why}"
        ))
    };
    let file = File::from(file.ok_or_else(|| failed(&"there is no memory"))?);
    let bytes = file.metadata().map_err(|error| failed(&error))?.len();
    let mut own = vec![0; bytes as usize];
    file.read_exact_at(&mut own, 0)
        .map_err(|error| failed(&error))?;
    Ok(own)
}
