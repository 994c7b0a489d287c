//! The payload log of a rank: its disk, cut off at the death of the process, and its part of a
//! checkpoint, which the real code saves and loads. LOG-5

use crate::crash_point::CrashPoint;
use crate::saved::EnginePart;
use core::fmt::Display;
use refrain_logging::store::faulty::MemoryStore;
use refrain_logging::store::{Completion, Operation, Store};
use refrain_rank::checkpoint::{LogLoading, LogSaving, Transfer, encode_engine};
use refrain_rank::collective::{Covers, WholePart};
use refrain_ring::{Frontier, Rank};
use refrain_transport::engine::{Beginning, Engine, Horizon};
use refrain_transport::protocol::Protocol;
use std::collections::VecDeque;

/// The store of a process. A dead process submits nothing and gets no completions.
#[derive(Debug)]
pub struct CrashingStore {
    /// The real store.
    pub inner: MemoryStore,
    /// The death of the process.
    pub crash_point: CrashPoint,
    /// Whether it reports writes that it has not done
    /// ([`Planted::DiskLies`](crate::planted::Planted::DiskLies)).
    pub lies: bool,
    /// Reports of writes that were not done.
    pub lied: VecDeque<Completion>,
}

impl Store for CrashingStore {
    fn submit(&mut self, operation: Operation) {
        match operation {
            Operation::Write { file, chunk, .. } if self.lies => {
                let result = Ok(());
                self.lied.push_back(Completion::Written {
                    file,
                    chunk,
                    result,
                });
            }
            // Operations of a dead process are dropped with their chunks.
            operation => drop(self.crash_point.act(|| self.inner.submit(operation))),
        }
    }

    fn poll(&mut self) -> Option<Completion> {
        match self.crash_point.is_dead() {
            true => None,
            false => self.lied.pop_front().or_else(|| self.inner.poll()),
        }
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// Number of waiting steps after which loading a log counts as stuck.
const STEPS_MAX: u32 = 100_000;

/// A checkpoint whose log is being read.
#[derive(Debug)]
pub struct Saving {
    /// Number of the checkpoint.
    pub number: u32,
    /// What the program had received when the checkpoint was taken.
    pub horizon: Horizon,
    /// As `horizon`, of collectives whose results are kept.
    pub covers: Option<Covers>,
    rank: Rank,
    state: Beginning,
    whole: WholePart,
    logs: Vec<Vec<u8>>,
    /// The log that is being read, with the bytes so far.
    open: Option<(LogSaving, Vec<u8>)>,
}

impl Saving {
    /// Begins to read the logs of the engine of `rank`.
    pub fn new(
        (number, rank): (u32, Rank),
        engine: &Engine<impl Protocol>,
        state: Beginning,
        (whole, covers): (WholePart, Option<Covers>),
    ) -> Self {
        Self {
            number,
            horizon: engine.horizon(),
            covers,
            rank,
            state,
            whole,
            logs: Vec::new(),
            open: None,
        }
    }

    /// Reads more; returns the engine's part once it is complete.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub fn step(
        &mut self,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<Option<EnginePart>, String> {
        while self.logs.len() < self.state.next.len() {
            let to = Rank(self.logs.len() as u32);
            if to == self.rank && !engine.keeps_results() {
                self.logs.push(Vec::new());
                continue;
            }
            let (mut log, mut bytes) = match self.open.take() {
                Some(open) => open,
                None => {
                    let mut bytes = Vec::new();
                    let channel = (self.rank, to);
                    let log = LogSaving::begin(engine, channel, &self.state, &mut bytes);
                    (log.map_err(|error| broken(&error))?, bytes)
                }
            };
            match log
                .step(engine, &mut bytes)
                .map_err(|error| broken(&error))?
            {
                Transfer::Done => self.logs.push(bytes),
                Transfer::More => self.open = Some((log, bytes)),
                Transfer::Waiting => {
                    self.open = Some((log, bytes));
                    return Ok(None);
                }
            }
        }
        Ok(Some(EnginePart {
            state: encode_engine(self.rank, &self.state),
            whole: self.whole.clone(),
            logs: core::mem::take(&mut self.logs),
        }))
    }
}

/// Loads the logs of a checkpoint into the engine of a life that begins with it. No peer is
/// connected: only the disk can make room.
///
/// # Errors
/// When the logs are damaged, or there is no room for them.
pub fn load_logs(
    engine: &mut Engine<impl Protocol>,
    rank: Rank,
    next: &[Frontier],
    part: &EnginePart,
    crash_point: &CrashPoint,
) -> Result<(), String> {
    let logs = (0..).map(Rank).zip(&part.logs);
    for (to, log) in logs.filter(|(_, log)| !log.is_empty()) {
        let mut from = &log[..];
        let until = &next[to.index()];
        let loading = LogLoading::begin(&mut from, (rank, to), until);
        let mut loading = loading.map_err(|error| broken(&error))?;
        let mut left = STEPS_MAX;
        loop {
            let loaded = loading.step(engine, &mut from);
            match loaded.map_err(|error| broken(&error))? {
                Transfer::Done => break,
                // A dead process does not finish loading.
                _ if crash_point.is_dead() => return Ok(()),
                Transfer::More => {}
                Transfer::Waiting if left == 0 => {
                    return Err("no room for the log of the checkpoint".into());
                }
                Transfer::Waiting => {
                    left -= 1;
                    engine.progress().map_err(|error| broken(&error))?;
                }
            }
        }
    }
    Ok(())
}

fn broken(error: &dyn Display) -> String {
    format!("the log of a checkpoint: {error}")
}
