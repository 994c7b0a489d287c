//! Ctrl-C and requests to end: noted, and looked at where a measurement waits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thiserror::Error;

/// What a shell expects of a program that Ctrl-C ended.
pub const STATUS_INTERRUPTED: u8 = 130;

/// Somebody asked the measurement to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("interrupted")]
pub struct Interrupted;

/// Whether somebody asked the measurement to end.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Notes SIGINT, SIGTERM and SIGHUP from now on. The second one ends the
    /// process at once.
    ///
    /// # Errors
    /// When the system refuses a handler.
    pub fn install() -> io::Result<Self> {
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
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(&interrupt.0)))?;
        }
        Ok(interrupt)
    }

    /// Has somebody asked?
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// # Errors
    /// [`Interrupted`] when somebody has asked.
    pub fn check(&self) -> Result<(), Interrupted> {
        if self.requested() {
            Err(Interrupted)
        } else {
            Ok(())
        }
    }

    #[cfg(test)]
    pub(crate) fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
