//! The last look before a server sleeps.

use super::host::Host;
use super::service::Service;
use core::time::Duration;

/// Whether and how long the server may sleep.
#[derive(Clone, Copy, Debug)]
pub struct BeforeSleep {
    /// There is more to do at once.
    pub moved: bool,
    /// As [`Host::sleep_max`] says.
    pub sleep_max: Option<Duration>,
    /// The rings tell their clients to ring the server.
    told: bool,
}

impl<H: Host> Service<H> {
    /// Looks once more before the server sleeps. `moved`: the result of its last
    /// [turn](Service::turn).
    pub fn before_sleep(&mut self, moved: bool) -> BeforeSleep {
        let sleeps = !moved && self.logbook.is_settled();
        if sleeps {
            self.set_sleeps(true);
        }
        // Before the last look: this may take in what clients write, and nothing would
        // wake the server for it.
        let sleep_max = self.host.sleep_max();
        // A client may have placed something meanwhile without ringing. EL-1
        let moved = moved || sleeps && self.drain();
        BeforeSleep {
            moved,
            sleep_max,
            told: sleeps,
        }
    }

    /// The server is awake again.
    pub fn after_sleep(&mut self, before: &BeforeSleep) {
        if before.told {
            self.set_sleeps(false);
        }
    }
}
