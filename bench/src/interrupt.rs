//! Ctrl-C and requests to end: noted, and looked at where the driver waits.

use super::NetpipeError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether somebody asked the sweep to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Notes SIGINT, SIGTERM and SIGHUP from now on. The second one ends the
    /// process at once.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn install() -> Result<Self, NetpipeError> {
        let interrupt = Self::default();
        for signal in [
            signal_hook::consts::SIGINT,
            signal_hook::consts::SIGTERM,
            signal_hook::consts::SIGHUP,
        ] {
            // In this order: the first signal finds the flag not yet set.
            signal_hook::flag::register_conditional_shutdown(
                signal,
                128 + signal,
                Arc::clone(&interrupt.0),
            )
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt.0)))
            .map_err(NetpipeError::system("cannot listen for Ctrl-C"))?;
        }
        Ok(interrupt)
    }

    /// Has somebody asked?
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`NetpipeError::Interrupted`] when somebody has asked.
    pub fn check(&self) -> Result<(), NetpipeError> {
        if self.requested() {
            Err(NetpipeError::Interrupted)
        } else {
            Ok(())
        }
    }

    #[cfg(test)]
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
