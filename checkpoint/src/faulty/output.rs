//! A file of the disk that is written.

use super::state::{State, UnderWay};
use super::{Kind, lock};
use crate::buffer::Strip;
use crate::disk::Output;
use std::io;
use std::sync::{Arc, Mutex};

/// Strips under way at once.
const UNDER_WAY_MAX: usize = 3;

#[derive(Debug)]
pub(super) struct FaultyOutput {
    state: Arc<Mutex<State>>,
    file: usize,
    /// How far the strips go that were given.
    end: u64,
}

impl FaultyOutput {
    pub fn new(state: Arc<Mutex<State>>, file: usize) -> Self {
        Self {
            state,
            file,
            end: 0,
        }
    }
}

impl Output for FaultyOutput {
    fn exchange(&mut self, place: u64, strip: &mut Strip, bytes: usize) -> io::Result<()> {
        assert_eq!(place, self.end, "strips come in order");
        self.end += bytes as u64;
        let mut state = lock(&self.state);
        while state.under_way.len() == UNDER_WAY_MAX
            || !state.under_way.is_empty() && state.percent(30)
        {
            state.end_one()?;
        }
        state.under_way.push(UnderWay {
            file: self.file,
            place: place as usize,
            bytes: strip.bytes()[..bytes].to_vec(),
        });
        // With any bytes in it.
        strip.bytes_mut().fill(0xa5);
        Ok(())
    }

    fn finish(&mut self, bytes: u64) -> io::Result<()> {
        assert_eq!(bytes, self.end, "all of it was given");
        let mut state = lock(&self.state);
        while !state.under_way.is_empty() {
            state.end_one()?;
        }
        let synced = state.step(Kind::Sync);
        let percent = if synced.is_ok() { 100 } else { 50 };
        let mut file = core::mem::take(&mut state.files[self.file]);
        if synced.is_ok() || state.stop_at.is_none() {
            file.flush(|| percent == 100 || state.percent(percent));
        }
        state.files[self.file] = file;
        synced
    }
}

impl Drop for FaultyOutput {
    fn drop(&mut self) {
        let mut state = lock(&self.state);
        // What is under way ends first, unless the process is dead.
        if state.stop_at.is_none() {
            state.under_way.retain(|write| write.file != self.file);
        }
    }
}
