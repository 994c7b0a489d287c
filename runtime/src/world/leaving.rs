//! The end of a rank's part in its job.

use super::World;
use crate::Error;
use core::time::Duration;
use refrain_job::control::message::ToLauncher;
use refrain_transport::engine::EngineError;
use refrain_transport::protocol::Protocol as _;
use std::time::Instant;

/// How long a rank that leaves waits until its log is acknowledged.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Between two checks whether the event logger has all events.
const LEAVE_NAP: Duration = Duration::from_micros(100);

impl World {
    /// Leaves the job in order: waits until every rank has come here and all
    /// that this rank sent is on its way.
    ///
    /// # Errors
    /// As [`World::send`].
    pub fn finalize(mut self) -> Result<(), Error> {
        self.barrier()?;
        self.tell_recovered()?;
        self.drain()?;
        self.leave_protocol()?;
        if self.tells_statistics {
            let statistics = ToLauncher::Statistics(Box::new(self.statistics()));
            self.tell(|control| control.report(&statistics))?;
        }
        // Acknowledges what others have sent until all are drained: otherwise they would take
        // this rank for dead. A rank that is restarted now needs the logs of all others.
        //
        // GATE-1: its events are stable, or were given up: reaching the fence shows no more
        // than the barrier did.
        self.fence_while(true, Self::progress_to_the_end)
    }

    /// Waits until no frame has to leave this rank any more, but not for ever:
    /// all ranks were in the barrier, so every message that a rank waits for has arrived.
    fn drain(&mut self) -> Result<(), Error> {
        let give_up_at = Instant::now() + DRAIN_MAX;
        self.block_until(|world| {
            let is_done = !world.engine.has_unsent() || Instant::now() >= give_up_at;
            is_done.then_some(())
        })
    }

    /// Waits until the last events are stable, but not for ever: no message that another rank
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

    /// A peer that has passed the fence before this rank may be gone by now, which a
    /// provider may take for an error. Other peers still need answers, so this
    /// continues. A request that cannot be answered is an error here as everywhere: a
    /// later life that asks for freed messages would wait for ever. GC-1
    fn progress_to_the_end(&mut self) -> Result<(), Error> {
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
