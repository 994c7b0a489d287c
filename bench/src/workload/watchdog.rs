//! Ends the process when it makes no progress, and prints the place where it hangs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Exit status of a process that its watchdog has ended.
pub const STATUS: i32 = 86;

#[derive(Debug, Default)]
struct Shared {
    beats: AtomicU64,
    place: Mutex<String>,
}

/// Watches one thread until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    shared: Arc<Shared>,
}

impl Watchdog {
    /// Starts to watch; with a `patience_seconds` of 0 it never ends the process.
    #[must_use]
    pub fn start(patience_seconds: u64) -> Self {
        let shared = Arc::new(Shared::default());
        if patience_seconds > 0 {
            let watched = Arc::downgrade(&shared);
            std::thread::spawn(move || {
                let mut seen = u64::MAX;
                let mut quiet_seconds = 0;
                while let Some(shared) = watched.upgrade() {
                    let beats = shared.beats.load(Ordering::Relaxed);
                    quiet_seconds = if beats == seen { quiet_seconds + 1 } else { 0 };
                    seen = beats;
                    if quiet_seconds > patience_seconds {
                        bark(&shared, patience_seconds);
                    }
                    drop(shared);
                    std::thread::sleep(Duration::from_secs(1));
                }
            });
        }
        Self { shared }
    }

    /// Notes progress.
    pub fn beat(&self) {
        self.shared.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes progress, and the current place, which is printed if no progress follows.
    pub fn place(&self, place: String) {
        *self
            .shared
            .place
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = place;
        self.beat();
    }
}

fn bark(shared: &Shared, patience_seconds: u64) -> ! {
    let place = shared.place.lock().unwrap_or_else(PoisonError::into_inner);
    eprintln!(
        "refrain-workload: no progress for {patience_seconds} s at {place}; giving up (--patience)"
    );
    // The launcher ends the other ranks with this one; the delay lets their watchdogs print first.
    std::thread::sleep(Duration::from_secs(2));
    std::process::exit(STATUS)
}
