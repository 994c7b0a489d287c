//! The last check of the rings before a server sleeps.

use super::host::Host;
use super::service::Service;
use core::time::Duration;

/// Whether and how long the server may sleep.
#[derive(Clone, Copy, Debug)]
pub struct BeforeSleep {
    /// There is more to do at once: do not sleep.
    pub moved: bool,
    /// The result of [`Host::sleep_max`].
    pub sleep_max: Option<Duration>,
    /// The rings show clients that they must wake the server.
    told: bool,
}

impl<H: Host> Service<H> {
    /// Checks the rings once more before the server sleeps. `moved`: the result of its last
    /// [turn](Service::turn).
    pub fn before_sleep(&mut self, moved: bool) -> BeforeSleep {
        let sleeps = !moved && self.logbook.is_settled();
        if sleeps {
            self.set_sleeps(true);
        }
        // Called before the last check: this call may process what clients write, and nothing would
        // wake the server for that.
        let sleep_max = self.host.sleep_max();
        // A client may have placed a batch meanwhile without waking the server. EL-1
        let moved = moved || sleeps && self.drain();
        BeforeSleep {
            moved,
            sleep_max,
            told: sleeps,
        }
    }

    /// Called when the server is awake again.
    pub fn after_sleep(&mut self, before: &BeforeSleep) {
        if before.told {
            self.set_sleeps(false);
        }
    }
}
