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

/// Between two looks whether the event logger has everything.
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
        let figures = self.tells_statistics.then(|| self.statistics());
        if let (Some(control), Some(figures)) = (&mut self.control, figures) {
            control.report(&ToLauncher::Statistics(Box::new(figures)))?;
        }
        self.linger()
    }

    /// Waits until nothing has to leave this rank any more, but not for ever:
    /// all ranks were in the barrier, so nothing that anybody waits for is
    /// missing.
    fn drain(&mut self) -> Result<(), Error> {
        let give_up_at = Instant::now() + DRAIN_MAX;
        self.block_until(|world| {
            let is_done = !world.engine.has_unsent() || Instant::now() >= give_up_at;
            is_done.then_some(())
        })
    }

    /// Sees to it that the last events are where they are to be, but not for
    /// ever: nothing that another rank has seen depends on them; what was printed
    /// may.
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

    /// Goes on acknowledging what others have sent until all are drained: who
    /// ended before would leave them unanswered, and they would take it for dead.
    /// One that is started again now needs what all others have in their logs.
    ///
    /// GATE-1: its events are stable, or were given up on when the protocol was
    /// left: that it is here tells nobody more than the barrier has.
    fn linger(&mut self) -> Result<(), Error> {
        self.fence_while(true, Self::progress_to_the_end)
    }

    /// Who has heard of the fence before this rank may be gone by now, which a
    /// provider may take for an error. Whoever has not still needs answers, so this
    /// goes on. What cannot be answered rightly is an error here as everywhere: a
    /// later life that asks for what was freed would wait for ever. GC-1
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
