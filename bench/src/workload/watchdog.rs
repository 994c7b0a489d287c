//! Ends the process when it makes no progress: a job that hangs must say where.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Exit status of a process that its watchdog ended.
pub const STATUS: i32 = 86;

#[derive(Debug, Default)]
struct Shared {
    beats: AtomicU64,
    place: Mutex<String>,
}

/// Watches one thread; it is dropped when there is nothing left to watch.
#[derive(Debug)]
pub struct Watchdog {
    shared: Arc<Shared>,
}

impl Watchdog {
    /// Watches from now on; `patience_seconds` of 0: never barks.
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

    /// Progress was made.
    pub fn beat(&self) {
        self.shared.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Progress was made, and this is the place to name if there is no more.
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
    // The launcher ends the other ranks with this one; their watchdogs are to
    // speak first.
    std::thread::sleep(Duration::from_secs(2));
    std::process::exit(STATUS)
}
