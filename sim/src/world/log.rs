//! The log of a rank: the disk under it, as a process has it that may die, and its part of a
//! checkpoint, on its way out of a process and into the next by the real code. LOG-5

use crate::crash_point::CrashPoint;
use crate::saved::EnginePart;
use core::fmt::Display;
use refrain_logging::store::faulty::MemoryStore;
use refrain_logging::store::{Completion, Operation, Store};
use refrain_rank::checkpoint::{LogLoading, LogSaving, Transfer, encode_engine};
use refrain_ring::{Frontier, Rank};
use refrain_transport::engine::{Beginning, Engine, Horizon};
use refrain_transport::protocol::Protocol;
use std::collections::VecDeque;

/// A store under a process. A dead process submits nothing and gets no completions.
#[derive(Debug)]
pub struct CrashingStore {
    /// The real store.
    pub inner: MemoryStore,
    /// The death of the process.
    pub crash_point: CrashPoint,
    /// As [`Planted::DiskLies`](crate::planted::Planted::DiskLies) has it.
    pub lies: bool,
    /// Writes that it reports and has not done.
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
            // What the dead would have submitted is dropped with its chunk.
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

/// Steps after which a log that is not loaded counts as stuck.
const STEPS_MAX: u32 = 100_000;

/// A checkpoint whose log is being read.
#[derive(Debug)]
pub struct Saving {
    /// Which.
    pub number: u32,
    /// What the program had got when it was taken.
    pub horizon: Horizon,
    rank: Rank,
    state: Beginning,
    logs: Vec<Vec<u8>>,
    /// The one that is being read, and what there is of it.
    open: Option<(LogSaving, Vec<u8>)>,
}

impl Saving {
    /// Of the engine of `rank` as it stands now.
    pub fn new(number: u32, rank: Rank, engine: &Engine<impl Protocol>, state: Beginning) -> Self {
        Self {
            number,
            horizon: engine.horizon(),
            rank,
            state,
            logs: Vec::new(),
            open: None,
        }
    }

    /// Reads on; all of it, when it is whole.
    ///
    /// # Errors
    /// When a log cannot be read.
    pub fn step(
        &mut self,
        engine: &mut Engine<impl Protocol>,
    ) -> Result<Option<EnginePart>, String> {
        while self.logs.len() < self.state.next.len() {
            let to = Rank(self.logs.len() as u32);
            if to == self.rank {
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
            logs: core::mem::take(&mut self.logs),
        }))
    }
}

/// Puts the logs of a checkpoint into an engine that begins with it. No peer is
/// connected: only its disk can make room.
///
/// # Errors
/// When they are not what they were, or there is no room for them.
pub fn load_logs(
    engine: &mut Engine<impl Protocol>,
    rank: Rank,
    next: &[Frontier],
    part: &EnginePart,
    crash_point: &CrashPoint,
) -> Result<(), String> {
    let others = (0..).map(Rank).zip(&part.logs);
    for (to, log) in others.filter(|(to, _)| *to != rank) {
        let mut from = &log[..];
        let until = &next[to.index()];
        let loading = LogLoading::begin(&mut from, (rank, to), until);
        let mut loading = loading.map_err(|error| broken(&error))?;
        let mut left = STEPS_MAX;
        loop {
            let loaded = loading.step(engine, &mut from);
            match loaded.map_err(|error| broken(&error))? {
                Transfer::Done => break,
                // The dead do not come to its end.
                _ if crash_point.is_dead() => return Ok(()),
                Transfer::More => {}
                Transfer::Waiting if left == 0 => return Err("no room for its log".into()),
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
