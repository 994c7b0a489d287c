//! The last looks before a server sleeps.

use super::host::Host;
use super::service::Service;
use core::time::Duration;

/// What is known when a server lies down.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// There is more to do at once.
    pub moved: bool,
    /// As [`Host::sleep_max`] says.
    pub sleep_max: Option<Duration>,
    /// Clients who write into rings were told to ring.
    told: bool,
}

impl<H: Host> Service<H> {
    /// Looks once more before the server sleeps. `moved`: what its last
    /// [turn](Service::turn) has said.
    pub fn lie_down(&mut self, moved: bool) -> Rest {
        let sleeps = !moved && self.logbook.is_settled();
        if sleeps {
            self.set_sleeps(true);
        }
        // Before the last look: it may take in what clients write, of which nothing
        // would wake the server then.
        let sleep_max = self.host.sleep_max();
        // Meanwhile a client may have placed something and not rung. EL-1
        let moved = moved || sleeps && self.drain();
        Rest {
            moved,
            sleep_max,
            told: sleeps,
        }
    }

    /// The server is awake again.
    pub fn get_up(&mut self, rest: &Rest) {
        if rest.told {
            self.set_sleeps(false);
        }
    }
}
