//! The control plane: how ranks find each other and agree with their launcher.
//!
//! Each rank has one Unix stream socket to the launcher, made as a socketpair
//! before the fork: it has no name in the file system, so there is nothing to
//! clean up however a job ends. Over it ranks publish addresses
//! ([`put`](ControlPlane::put)), look others' up ([`get`](ControlPlane::get)),
//! wait for each other ([`fence`](ControlPlane::fence)) and leave. It is slow
//! (one thread of the launcher serves all ranks) and not for data.

pub mod business_card;
pub mod claim;
pub mod host;
pub mod message;

use crate::{JobError, config::JobConfig};
use message::{Accompanied as _, CONTROL, ToLauncher, ToRank};
use refrain_ring::{Incarnation, Rank};
use refrain_wire::{Connection, WireError};
use std::collections::VecDeque;
use std::io::{Error as IoError, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A rank's connection to its launcher.
///
/// Once the launcher ends the job every call fails with [`JobError::Aborted`].
#[derive(Debug)]
pub struct ControlPlane {
    connection: Connection,
    job: u64,
    rank: Rank,
    size: u32,
    incarnation: Incarnation,
    config: JobConfig,
    /// Fences passed: the number of the next.
    generation: u64,
    /// Fences that were begun: one more while this rank waits in one.
    fences_begun: u64,
    stopped: Option<String>,
    is_alone: bool,
    /// What came in between, in its order.
    news: VecDeque<News>,
}

/// What the launcher tells without having been asked.
#[derive(Debug)]
pub enum News {
    /// What the life before this one has left in memory.
    Remains {
        /// Whose.
        incarnation: Incarnation,
        /// Its segment.
        memory: OwnedFd,
    },
    /// What a rank that has passed the last fence has left in memory.
    Departed(Departed),
    /// A rank is dead and fenced. FENCE-1
    Down {
        /// Which.
        rank: Rank,
        /// Which life of it, and all before.
        incarnation: Incarnation,
    },
    /// A life of a rank can be reached.
    Up {
        /// Which rank.
        rank: Rank,
        /// Which life.
        incarnation: Incarnation,
        /// What it has put under its address key.
        card: Vec<u8>,
        /// With the descriptor that it put there.
        memory: Option<OwnedFd>,
    },
    /// A checkpoint of this rank would be of use now.
    CheckpointWanted,
    /// How this rank is, is asked.
    StatusAsked,
}

/// A rank that has passed the last fence of the job.
#[derive(Debug)]
pub struct Departed {
    /// Which rank.
    pub rank: Rank,
    /// The life of it that passed the fence.
    pub incarnation: Incarnation,
    /// The segment of that life.
    pub memory: OwnedFd,
}

/// What a rank does that is in a fence.
const FENCING: &str = "waiting for all ranks";

fn lost(attempted: &str, error: impl Into<IoError>) -> JobError {
    JobError::control(
        format!("{attempted}: the launcher cannot be reached, it may have been killed"),
        error,
    )
}

fn receive_failed(attempted: &str, error: WireError) -> JobError {
    match error {
        WireError::Closed => lost(
            attempted,
            IoError::new(ErrorKind::ConnectionReset, "connection closed"),
        ),
        WireError::Io(error) => lost(attempted, error),
        other => JobError::control(
            format!("{attempted}: the launcher's answer cannot be used"),
            IoError::new(ErrorKind::InvalidData, other),
        ),
    }
}

fn out_of_turn(attempted: &str, message: &ToRank) -> JobError {
    JobError::control(
        format!("{attempted}: the launcher sent another message"),
        IoError::new(ErrorKind::InvalidData, format!("{message:?}")),
    )
}

impl News {
    /// A message that is no answer; `Err`: it is one.
    fn of(message: ToRank, memory: Option<OwnedFd>) -> Result<Self, (ToRank, Option<OwnedFd>)> {
        Ok(match (message, memory) {
            (ToRank::Remains(incarnation), Some(memory)) => Self::Remains {
                incarnation: Incarnation(incarnation),
                memory,
            },
            (ToRank::Departed { rank, incarnation }, Some(memory)) => Self::Departed(Departed {
                rank: Rank(rank),
                incarnation: Incarnation(incarnation),
                memory,
            }),
            (ToRank::Down { rank, incarnation }, _) => Self::Down {
                rank: Rank(rank),
                incarnation: Incarnation(incarnation),
            },
            (
                ToRank::Up {
                    rank,
                    incarnation,
                    card,
                    ..
                },
                memory,
            ) => Self::Up {
                rank: Rank(rank),
                incarnation: Incarnation(incarnation),
                card,
                memory,
            },
            (ToRank::CheckpointWanted, _) => Self::CheckpointWanted,
            (ToRank::AskStatus, _) => Self::StatusAsked,
            answer => return Err(answer),
        })
    }
}

impl ControlPlane {
    /// Joins the job that this process was started for. `Ok(None)`: not started
    /// by a launcher.
    ///
    /// # Errors
    /// When the environment is of another job, when this process has joined
    /// already, or when the launcher is gone or of another version.
    pub fn from_environment() -> Result<Option<Self>, JobError> {
        claim::claim()?.map(Self::join).transpose()
    }

    /// Joins the job at the other end of `socket`.
    fn join(socket: OwnedFd) -> Result<Self, JobError> {
        const ATTEMPTED: &str = "joining the job";
        let mut control = Self {
            connection: Connection::new(socket, &CONTROL),
            job: 0,
            rank: Rank(0),
            size: 0,
            incarnation: Incarnation(0),
            config: JobConfig::default(),
            generation: 0,
            fences_begun: 0,
            stopped: None,
            is_alone: false,
            news: VecDeque::new(),
        };
        control.send(ATTEMPTED, &ToLauncher::Hello(std::process::id()), None)?;
        match control.receive(ATTEMPTED)? {
            (
                ToRank::Welcome {
                    job,
                    rank,
                    size,
                    incarnation,
                    config,
                    alone,
                },
                None,
            ) => {
                control.job = job;
                control.rank = Rank(rank);
                control.size = size;
                control.incarnation = Incarnation(incarnation);
                control.config = *config;
                control.is_alone = alone;
                Ok(control)
            }
            (other, _) => Err(out_of_turn(ATTEMPTED, &other)),
        }
    }

    /// Which rank this process is.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// How many ranks the job has.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// How often this rank was started before.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Names the job on this host.
    pub fn job(&self) -> u64 {
        self.job
    }

    /// The job's settings, the same on every rank.
    pub fn config(&self) -> &JobConfig {
        &self.config
    }

    /// How many fences this rank has passed.
    pub fn fences_passed(&self) -> u64 {
        self.generation
    }

    /// A later life that continues from a checkpoint has passed this number.
    pub fn set_fences_passed(&mut self, fences: u64) {
        self.generation = fences;
        self.fences_begun = fences;
    }

    /// Publishes `value`, and a descriptor (shared memory) with it, under
    /// `key`. A later value replaces an earlier one for later gets.
    ///
    /// # Errors
    /// When the job is being ended, the launcher is gone, or the value is
    /// longer than a message may be.
    pub fn put(
        &mut self,
        key: &str,
        value: &[u8],
        memory: Option<BorrowedFd<'_>>,
    ) -> Result<(), JobError> {
        let message = ToLauncher::Put {
            key: key.into(),
            value: value.into(),
            memory: memory.is_some(),
        };
        self.send(&format!("publishing {key:?}"), &message, memory)
    }

    /// What was put under `key`. Blocks until a rank has.
    ///
    /// # Errors
    /// When the job is being ended (also because no rank is left that could put
    /// it), or the launcher is gone.
    pub fn get(&mut self, key: &str) -> Result<(Vec<u8>, Option<OwnedFd>), JobError> {
        let attempted = format!("looking up {key:?}");
        self.send(&attempted, &ToLauncher::Get(key.into()), None)?;
        match self.receive(&attempted)? {
            (
                ToRank::Value {
                    key: found, value, ..
                },
                memory,
            ) if found == key => Ok((value, memory)),
            (other, _) => Err(out_of_turn(&attempted, &other)),
        }
    }

    /// Blocks until every rank of the job has called it as often as this one.
    ///
    /// # Errors
    /// When the job is being ended (also because a rank has left and will not
    /// come), or the launcher is gone.
    pub fn fence(&mut self) -> Result<(), JobError> {
        self.begin_fence(false)?;
        let message = self.receive(FENCING)?.0;
        self.pass_fence(message)
    }

    /// Begins the next fence, and does not wait. Until
    /// [`fence_passed`](Self::fence_passed) returns true, nothing else may be
    /// asked for. `last`: behind it this rank has left the job in order.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub fn begin_fence(&mut self, last: bool) -> Result<(), JobError> {
        let generation = self.generation;
        self.send(FENCING, &ToLauncher::Fence { generation, last }, None)?;
        self.fences_begun += 1;
        Ok(())
    }

    /// Whether every rank has reached the fence that was begun. Does not block.
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub fn fence_passed(&mut self) -> Result<bool, JobError> {
        // A look at how the job is may have read the answer.
        if self.is_in_fence()
            && let Some((message, _)) = self.receive_now(FENCING)?
        {
            self.pass_fence(message)?;
        }
        Ok(!self.is_in_fence())
    }

    fn is_in_fence(&self) -> bool {
        self.fences_begun > self.generation
    }

    fn pass_fence(&mut self, message: ToRank) -> Result<(), JobError> {
        match message {
            ToRank::FenceDone(generation) if generation == self.generation => {
                self.generation += 1;
                Ok(())
            }
            other => Err(out_of_turn(FENCING, &other)),
        }
    }

    /// The next message that the launcher sent without a request; does not block.
    pub fn next_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// The oldest news, if it is of this kind.
    pub fn next_news_if(&mut self, is_wanted: impl FnOnce(&News) -> bool) -> Option<News> {
        let is_next = self.news.front().is_some_and(is_wanted);
        is_next.then(|| self.news.pop_front()).flatten()
    }

    /// Whether all ranks have passed the last fence: this later life connects to no peer.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// The logs of all peers, for a life that is alone. Blocks until all have come.
    ///
    /// # Errors
    /// When the job is being ended, or the launcher is gone.
    pub fn departed(&mut self) -> Result<Vec<Departed>, JobError> {
        const ATTEMPTED: &str = "waiting for the logs of ranks that have left";
        let peers = self.size as usize - 1;
        let (mut departed, mut others) = (Vec::with_capacity(peers), VecDeque::new());
        loop {
            if let Some((message, _)) = self.take(ATTEMPTED)? {
                return Err(out_of_turn(ATTEMPTED, &message));
            }
            for news in self.news.drain(..) {
                match news {
                    News::Departed(of) => departed.push(of),
                    other => others.push_back(other),
                }
            }
            if departed.len() == peers {
                self.news = others;
                return Ok(departed);
            }
            self.read(ATTEMPTED)?;
        }
    }

    /// A copy of the descriptor of what the newest earlier life has left in memory,
    /// with its number; it stays in the news.
    pub fn remains(&self) -> Option<(Incarnation, OwnedFd)> {
        self.news.iter().rev().find_map(|news| match news {
            News::Remains {
                incarnation,
                memory,
            } => Some((*incarnation, memory.try_clone().ok()?)),
            _ => None,
        })
    }

    /// Reports the checkpoint that this later life continues from; 0: from the beginning.
    /// Returns when the launcher has read what this process has printed until now:
    /// that came from the program's start, not from behind the checkpoint.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn tell_beginning(&mut self, checkpoint: u64) -> Result<(), JobError> {
        self.marked(&ToLauncher::Beginning(checkpoint), checkpoint)
    }

    /// Returns when the launcher has noted that all output up to here lies before
    /// this checkpoint.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn mark_output(&mut self, checkpoint: u64) -> Result<(), JobError> {
        self.marked(&ToLauncher::Mark(checkpoint), checkpoint)
    }

    fn marked(&mut self, message: &ToLauncher, checkpoint: u64) -> Result<(), JobError> {
        const ATTEMPTED: &str = "marking the output before a checkpoint";
        self.send(ATTEMPTED, message, None)?;
        match self.receive(ATTEMPTED)? {
            (ToRank::Marked(marked), _) if marked == checkpoint => Ok(()),
            (other, _) => Err(out_of_turn(ATTEMPTED, &other)),
        }
    }

    /// Sends a message that has no answer.
    ///
    /// # Errors
    /// When the job is being ended, or the launcher is gone.
    pub fn report(&mut self, message: &ToLauncher) -> Result<(), JobError> {
        self.send("reporting to the launcher", message, None)
    }

    /// Reports a life of a rank as lost.
    ///
    /// # Errors
    /// As [`report`](Self::report).
    pub fn suspect(&mut self, rank: Rank, incarnation: Incarnation) -> Result<(), JobError> {
        self.report(&ToLauncher::Suspect {
            rank: rank.0,
            incarnation: incarnation.0,
        })
    }

    /// Asks to be killed and restarted, and returns only if the job is being
    /// ended, or the launcher is gone.
    pub fn ask_for_next_life(&mut self, own: Rank) -> JobError {
        match self.suspect(own, self.incarnation) {
            Ok(()) => self.last_words("waiting for a restart"),
            Err(error) => error,
        }
    }

    /// Without blocking: has the launcher gone, or stopped this rank? Its other messages wait
    /// in [`next_news`](Self::next_news). One system call.
    ///
    /// # Errors
    /// [`JobError::Aborted`], or [`JobError::Control`] when the launcher is gone.
    pub fn check(&mut self) -> Result<(), JobError> {
        const ATTEMPTED: &str = "asking how the job is";
        self.refuse_when_stopped()?;
        match self.receive_now(ATTEMPTED)? {
            None => Ok(()),
            Some((message, _)) if self.is_in_fence() => self.pass_fence(message),
            Some((message, _)) => Err(out_of_turn(ATTEMPTED, &message)),
        }
    }

    /// Asks the launcher to end the job, which it reports with `message` as
    /// the reason. The caller should exit soon, with a status other than 0.
    pub fn abort(&mut self, message: &str) {
        // Long reasons are cut rather than refused: this is the last word.
        let message = message.chars().take(4096).collect();
        // A launcher that is gone or ending the job already needs no telling.
        let _ = self.send("aborting the job", &ToLauncher::Abort(message), None);
    }

    fn refuse_when_stopped(&self) -> Result<(), JobError> {
        match &self.stopped {
            Some(reason) => Err(JobError::Aborted(reason.clone())),
            None => Ok(()),
        }
    }

    fn send(
        &mut self,
        attempted: &str,
        message: &ToLauncher,
        memory: Option<BorrowedFd<'_>>,
    ) -> Result<(), JobError> {
        self.refuse_when_stopped()?;
        let failed = |error: IoError| lost(attempted, error);
        let memory = memory.map(|it| it.try_clone_to_owned().map(Arc::new));
        let memory = memory.transpose().map_err(failed)?.into_iter().collect();
        let said = self.connection.say_with(message, memory);
        said.map_err(|error| JobError::Argument(format!("{attempted}: {error}")))?;
        match self.connection.wait_flushed(None) {
            Ok(()) => Ok(()),
            // It may have sent the reason before it closed.
            Err(WireError::Closed) => Err(self.last_words(attempted)),
            Err(error) => Err(lost(attempted, IoError::other(error))),
        }
    }

    /// Receives until the launcher has closed the socket; returns why it did.
    fn last_words(&mut self, attempted: &str) -> JobError {
        loop {
            if let Err(error) = self.receive(attempted) {
                return error;
            }
        }
    }

    /// The next message, if one has come.
    fn receive_now(
        &mut self,
        attempted: &str,
    ) -> Result<Option<(ToRank, Option<OwnedFd>)>, JobError> {
        loop {
            // A stop may have come in one read with the answer before it.
            if let Some(message) = self.take(attempted)? {
                return Ok(Some(message));
            }
            match self.connection.receive() {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(error) => return Err(receive_failed(attempted, error)),
            }
        }
    }

    /// Blocks for the next message.
    fn receive(&mut self, attempted: &str) -> Result<(ToRank, Option<OwnedFd>), JobError> {
        loop {
            if let Some(message) = self.take(attempted)? {
                return Ok(message);
            }
            self.read(attempted)?;
        }
    }

    /// Blocks until something was read.
    fn read(&mut self, attempted: &str) -> Result<(), JobError> {
        let failed = |error| receive_failed(attempted, error);
        while !self.connection.receive().map_err(failed)? {
            self.connection.wait(None).map_err(failed)?;
        }
        Ok(())
    }

    /// The next message that has been read; a stop is an error from then on.
    fn take(&mut self, attempted: &str) -> Result<Option<(ToRank, Option<OwnedFd>)>, JobError> {
        loop {
            let failed = |error| receive_failed(attempted, error);
            let message = match self.connection.next_message().map_err(failed)? {
                Some(ToRank::Stop(reason)) => {
                    self.stopped = Some(reason);
                    return self.refuse_when_stopped().map(|()| None);
                }
                Some(message) => message,
                None => return Ok(None),
            };
            let memory = message.take_memory(&mut self.connection).map_err(failed)?;
            match News::of(message, memory) {
                Ok(news) => self.news.push_back(news),
                Err(answer) => return Ok(Some(answer)),
            }
        }
    }
}

/// The control socket, to be polled for readability beside other descriptors;
/// then call [`ControlPlane::check`].
impl AsFd for ControlPlane {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.connection.as_fd()
    }
}

#[cfg(test)]
mod tests;
