//! Where spilling is at work in a rank that is a process.

use core::time::Duration;
use refrain_rank::spilling::Surroundings;
use std::time::Instant;

/// A clock that began with it, and standard error: the job goes on.
#[derive(Debug)]
pub(crate) struct Voice {
    begin: Instant,
}

impl Voice {
    pub(crate) fn new() -> Self {
        Self {
            begin: Instant::now(),
        }
    }
}

impl Surroundings for Voice {
    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    fn tell(&mut self, words: &str) {
        eprintln!("refrain: {words}");
    }
}
