//! What a rank waits for that does nothing else, and how long it may sleep.

use super::Engine;
use crate::gate::Mark;
use crate::protocol::Protocol;
use core::time::Duration;

/// Sleep between two looks for the acknowledgement that a send waits for.
const COMMIT_NAP_MAX: Duration = Duration::from_micros(50);

impl<P: Protocol> Engine<P> {
    /// Whether something that would leave waits until events are stable.
    pub fn awaits_commit(&self) -> bool {
        self.gate.is_closed() && self.gate.pass_behind(self.wanted()).is_none()
    }

    /// What everything that would leave has to wait for.
    pub(super) fn wanted(&self) -> Mark {
        self.outbox.wanted().max(self.settling)
    }

    /// Moves commits on; whether everything that has happened is stable. For what
    /// tells others that this rank came so far, and does not pass the gate by
    /// itself: it waits from here on as an emission does. GATE-1
    pub fn is_settled(&mut self) -> bool {
        if self.gate.is_closed() {
            self.settling = self.gate.mark();
            self.advance_protocol(self.settling);
        }
        !self.gate.is_closed()
    }

    /// Blocks until something may have happened, or `timeout` is over. Not at all
    /// where there is more to be done that nothing announces: to pack, or to read
    /// of the log.
    pub fn wait(&mut self, timeout: Duration) {
        let has_read = core::mem::take(&mut self.has_read);
        if has_read || self.outbox.is_mid_burst() {
            return;
        }
        let timeout = self.spilling.sleep_max(timeout);
        // What makes events stable does not wake a sleeping rank. GATE-4
        self.fabric.wait(if self.awaits_commit() {
            timeout.min(COMMIT_NAP_MAX)
        } else {
            timeout
        });
    }
}
