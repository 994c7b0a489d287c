//! Process management interfaces: what a resource manager or another launcher offers to the tasks
//! that it has started. Each task has a number, and writes values that the others read after a
//! fence.
//!
//! | file | subject |
//! |---|---|
//! | `error` | why the server cannot be used |
//! | `line` | PMI-1 over an inherited socket: Slurm (`--mpi=pmi2`), Hydra, Flux |
//! | `pmix` | PMIx, by libpmix, loaded at run time: Slurm (`--mpi=pmix`), PRRTE |
//!
//! Must never know: jobs of Refrain, ranks, hosts.

mod error;
mod line;
mod pmix;

pub use error::PmiError;
use std::thread;
use std::time::Duration;

/// The connection of this task to its server.
#[derive(Debug)]
pub struct Server {
    interface: Interface,
    fences: u32,
}

#[derive(Debug)]
enum Interface {
    Line(line::Client),
    Pmix(Box<pmix::Client>),
}

impl Server {
    /// Whether the environment names a server.
    pub fn is_named() -> bool {
        line::is_named() || pmix::is_named()
    }

    /// Connects to the server that the environment names. `None`: it names none.
    ///
    /// # Errors
    /// [`PmiError::Unusable`].
    pub fn of_environment() -> Result<Option<Self>, PmiError> {
        let interface = if line::is_named() {
            Interface::Line(line::Client::begin()?)
        } else if pmix::is_named() {
            Interface::Pmix(Box::new(pmix::Client::begin()?))
        } else {
            return Ok(None);
        };
        Ok(Some(Self {
            interface,
            fences: 0,
        }))
    }

    /// The number of this task.
    pub fn rank(&self) -> u32 {
        match &self.interface {
            Interface::Line(client) => client.rank,
            Interface::Pmix(client) => client.rank(),
        }
    }

    /// Number of tasks.
    pub fn size(&self) -> u32 {
        match &self.interface {
            Interface::Line(client) => client.size,
            Interface::Pmix(client) => client.size(),
        }
    }

    /// Writes a value of this task. It has no blank, and at most [`VALUE_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// [`PmiError::Unusable`].
    pub fn put(&mut self, key: &str, value: &str) -> Result<(), PmiError> {
        match &mut self.interface {
            Interface::Line(client) => client.put(key, value),
            Interface::Pmix(client) => client.put(key, value),
        }
    }

    /// Waits until all tasks have called this.
    ///
    /// # Errors
    /// [`PmiError::Unusable`].
    pub fn fence(&mut self) -> Result<(), PmiError> {
        match &mut self.interface {
            Interface::Line(client) => client.fence(),
            Interface::Pmix(client) => client.fence(),
        }?;
        self.fences += 1;
        Ok(())
    }

    /// Number of fences that this task has passed.
    pub fn fences(&self) -> u32 {
        self.fences
    }

    /// A value that a task has written before the last fence.
    ///
    /// # Errors
    /// [`PmiError::Unusable`].
    pub fn get(&mut self, rank: u32, key: &str) -> Result<String, PmiError> {
        match &mut self.interface {
            Interface::Line(client) => client.get(rank, key),
            Interface::Pmix(client) => client.get(rank, key),
        }
    }

    /// Waits until all tasks have called this, and leaves the server: the end of this task is then
    /// no failure. After the limit, the process ends with this status instead: no server reports
    /// that a task has died and will not call this.
    ///
    /// # Errors
    /// [`PmiError::Unusable`].
    pub fn leave(mut self, limit: Option<Duration>, status: u8) -> Result<(), PmiError> {
        if let Some(limit) = limit {
            thread::spawn(move || {
                thread::sleep(limit);
                std::process::exit(status.into());
            });
        }
        self.fence()?;
        match self.interface {
            Interface::Line(client) => client.finish(),
            Interface::Pmix(client) => client.finish(),
        }
    }
}

/// With the value `off` in this variable, a task is not replaced and runs as a job of one rank.
pub const SWITCH: &str = "REFRAIN_DIRECT_START";

/// Maximum length of a value, which all servers take.
pub const VALUE_BYTES_MAX: usize = 900;
