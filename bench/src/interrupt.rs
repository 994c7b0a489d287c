//! Ctrl-C and other signals that end a measurement: noted, and checked while a measurement waits.

use crate::error::BenchError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a signal asked the measurement to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Notes SIGINT, SIGTERM and SIGHUP from now on. The second signal ends the process at once.
    ///
    /// # Errors
    /// A handler cannot be installed.
    pub fn install() -> Result<Self, BenchError> {
        let interrupt = Self::default();
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            // In this order, since the first signal must find the flag not yet set.
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&interrupt.0))
                .and_then(|_| flag::register(signal, Arc::clone(&interrupt.0)))
                .map_err(BenchError::system("cannot listen for Ctrl-C"))?;
        }
        Ok(interrupt)
    }

    /// Whether a signal has arrived.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`BenchError::Interrupted`] if a signal has arrived.
    pub fn check(&self) -> Result<(), BenchError> {
        match self.requested() {
            true => Err(BenchError::Interrupted),
            false => Ok(()),
        }
    }

    #[cfg(test)]
    pub(crate) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
