//! What a process of the job says by itself, to people.

use core::fmt::Display;
use core::time::Duration;
use refrain_rank::spilling::Surroundings;
use std::io::{Write as _, stderr};
use std::time::Instant;

/// A line on standard error. Nobody may be left to read it: the process goes on, where
/// `eprintln!` would end it.
pub(crate) fn tell(words: impl Display) {
    let _ = writeln!(stderr(), "refrain: {words}");
}

/// Where spilling is at work in a rank that is a process: a clock that began with it,
/// and standard error.
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
        tell(words);
    }
}
