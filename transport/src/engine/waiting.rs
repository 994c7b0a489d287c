//! How long a waiting rank may sleep.

use super::Engine;
use crate::gate::Mark;
use crate::protocol::Protocol;
use core::time::Duration;

/// Maximum sleep between two polls for the acknowledgement that a send waits for.
const COMMIT_NAP_MAX: Duration = Duration::from_micros(50);

impl<P: Protocol> Engine<P> {
    /// Whether an emission waits until events are stable.
    pub fn awaits_commit(&self) -> bool {
        self.gate.is_closed() && self.gate.pass_behind(self.wanted()).is_none()
    }

    /// The events that all waiting emissions need to be stable.
    pub(super) fn wanted(&self) -> Mark {
        self.outbox.wanted().max(self.settling)
    }

    /// Advances commits; returns whether all events are stable. For an emission that does not pass
    /// the gate by itself: from this call on it waits like others. GATE-1
    pub fn is_settled(&mut self) -> bool {
        if self.gate.is_closed() {
            self.settling = self.gate.mark();
            self.advance_protocol(self.settling);
        }
        !self.gate.is_closed()
    }

    /// Blocks until something may have happened, or `timeout` is over. Does not block while
    /// a send burst or a log read is pending.
    pub fn wait(&mut self, timeout: Duration) {
        let has_read = core::mem::take(&mut self.has_read);
        if has_read || self.outbox.is_mid_burst() {
            return;
        }
        let timeout = self.spilling.sleep_max(timeout);
        // A report that events are stable does not wake a sleeping rank. GATE-4
        self.fabric.wait(if self.awaits_commit() {
            timeout.min(COMMIT_NAP_MAX)
        } else {
            timeout
        });
    }
}
