//! The server's rings that clients write into by RMA: opened when the
//! first client needs one, and again after they have failed.

use super::options::RemoteOptions;
use super::poll_interval::PollInterval;
use super::waits::{WAKE, Waits};
use crate::Level;
use crate::message::RemoteRing;
use crate::remote::{RemoteRings, RingKey, load_ahead};
use crate::ring::RingMemory;
use core::time::Duration;
use refrain_libfabric::Library;
use rustix::event::epoll::EventFlags;

/// Limit of the bytes of revoked rings that stay mapped while no client writes …
const REVOKED_BYTES_IDLE_MAX: usize = 4 << 20;
/// … and while a client writes.
const REVOKED_BYTES_MAX: usize = 256 << 20;

/// Takes messages for people.
type Report<'a> = &'a mut dyn FnMut(&str);

#[derive(Debug)]
pub(super) struct Remote {
    options: Option<RemoteOptions>,
    _library: Option<Library>,
    clients_max: usize,
    rings: Option<RemoteRings>,
    interval: PollInterval,
}

impl Remote {
    /// Must be called before other threads run.
    pub(super) fn new(options: Option<RemoteOptions>, clients_max: usize, level: Level) -> Self {
        let load = |it: &RemoteOptions| load_ahead(&it.provider, it.library.as_deref());
        Self {
            _library: options.as_ref().and_then(load),
            options,
            clients_max,
            rings: None,
            interval: PollInterval::new(level),
        }
    }

    /// Whether one-sided commits are offered to clients.
    pub(super) fn is_offered(&self) -> bool {
        self.options.is_some()
    }

    /// Gives a client access to a ring.
    pub(super) fn register(
        &mut self,
        waits: &Waits,
        memory: &RingMemory,
        report: Report<'_>,
    ) -> Result<(RingKey, RemoteRing), String> {
        self.give_back_revoked(waits, report);
        self.open(waits)?;
        let rings = self.rings.as_mut();
        let rings = rings.ok_or("it offers no writes into its memory")?;
        rings.register(memory).map_err(|error| error.to_string())
    }

    /// Closes the endpoint when the revoked rings exceed the limit: they stay mapped until
    /// then.
    fn give_back_revoked(&mut self, waits: &Waits, report: Report<'_>) {
        let Some(rings) = &self.rings else {
            return;
        };
        let bytes = rings.revoked_bytes();
        if !rings.has_clients() && bytes >= REVOKED_BYTES_IDLE_MAX {
            // No client is affected.
            self.close(waits, "", &mut |_: &str| {});
        } else if bytes >= REVOKED_BYTES_MAX {
            // Processes what has come until now.
            self.progress(waits, report);
            let why = format!("{bytes} bytes of revoked rings can be freed only in this way");
            self.close(waits, &why, report);
        }
    }

    fn open(&mut self, waits: &Waits) -> Result<(), String> {
        let Some(options) = self.options.as_ref().filter(|_| self.rings.is_none()) else {
            return Ok(());
        };
        let library = options.library.as_deref();
        let rings = RemoteRings::open(&options.provider, library, &options.port, self.clients_max)
            .map_err(|error| error.to_string())?;
        if let Some(descriptor) = rings.descriptor() {
            waits
                .add(descriptor, WAKE, EventFlags::IN)
                .map_err(|error| format!("waiting for {}: {error}", options.provider))?;
        }
        self.rings = Some(rings);
        Ok(())
    }

    /// When this returns, no client writes into that ring by RMA. FENCE-1
    pub(super) fn revoke(&mut self, waits: &Waits, key: RingKey, report: Report<'_>) {
        // Processes what has come until now.
        self.progress(waits, report);
        let Some(rings) = &mut self.rings else {
            return;
        };
        if let Err(error) = rings.revoke(key) {
            self.close(waits, &error.to_string(), report);
        }
    }

    /// Processes what clients write.
    pub(super) fn progress(&mut self, waits: &Waits, report: Report<'_>) {
        let Some(rings) = &mut self.rings else {
            return;
        };
        if let Err(error) = rings.progress() {
            self.close(waits, &error.to_string(), report);
        }
    }

    /// Closes the endpoint. Clients get errors, and join again.
    fn close(&mut self, waits: &Waits, why: &str, report: Report<'_>) {
        if let Some(rings) = self.rings.take() {
            if let Some(descriptor) = rings.descriptor() {
                let _ = waits.remove(descriptor);
            }
            report(&format!("{} is opened again: {why}", rings.provider()));
        }
    }

    /// As [`RemoteRings::sleep_max`].
    pub(super) fn sleep_max(&mut self) -> Option<Duration> {
        self.rings.as_mut()?.sleep_max()
    }

    /// Maximum time to sleep. `moved`: the server had work since the last call.
    pub(super) fn nap_ms(&mut self, sleep_max: Option<Duration>, moved: bool) -> Option<u32> {
        if sleep_max?.is_zero() {
            return Some(0);
        }
        if moved {
            self.interval.moved();
            return Some(0);
        }
        Some(self.interval.next_ms())
    }
}
