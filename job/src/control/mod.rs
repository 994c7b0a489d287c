//! The control plane: how ranks find each other and agree with their launcher.
//!
//! Each rank has one Unix stream socket to the launcher, made as a socketpair before the fork: it
//! has no name in the file system, so nothing has to be removed however a job ends. Over it, ranks
//! publish addresses ([`put`](ControlPlane::put)), read addresses of other ranks
//! ([`get`](ControlPlane::get)), wait for all ranks ([`fence`](ControlPlane::fence)) and leave. It
//! is slow (one thread of the launcher serves all ranks) and not for data.

pub mod business_card;
pub mod claim;
pub mod host;
mod later_life;
pub mod message;

pub use later_life::Departed;

use crate::{JobError, config::JobConfig};
use host::HostIdentity;
use message::{Accompanied as _, CONTROL, ToLauncher, ToRank};
use refrain_ring::{Incarnation, Rank};
use refrain_wire::{Connection, WireError};
use std::collections::VecDeque;
use std::io::{Error as IoError, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A rank's connection to its launcher.
///
/// When the launcher ends the job, every call fails with [`JobError::Aborted`].
#[derive(Debug)]
pub struct ControlPlane {
    connection: Connection,
    job: u64,
    rank: Rank,
    size: u32,
    incarnation: Incarnation,
    config: JobConfig,
    /// Number of fences passed; also the number of the next fence.
    generation: u64,
    /// Number of fences begun: one more than passed while this rank waits in a fence.
    fences_begun: u64,
    stopped: Option<String>,
    begins_with: Option<u64>,
    is_alone: bool,
    met: Option<Vec<Rank>>,
    /// Messages of the launcher that were no answers, in order.
    news: VecDeque<News>,
}

/// A message that the launcher sends without a request.
#[derive(Debug)]
pub enum News {
    /// Memory of an earlier life of this rank.
    Remains {
        /// The incarnation of that life.
        incarnation: Incarnation,
        /// The segment of that life.
        memory: OwnedFd,
    },
    /// Memory of a rank that has passed the last fence.
    Departed(Departed),
    /// A rank is dead and fenced. FENCE-1
    Down {
        /// The rank.
        rank: Rank,
        /// The incarnation; earlier ones are dead as well.
        incarnation: Incarnation,
    },
    /// A life of a rank is reachable.
    Up(Introduced),
    /// Checkpoint request to this rank.
    CheckpointWanted,
    /// A round of checkpoints of this rank's set begins. SET-2
    RoundBegins(u64),
    /// A round has ended. SET-4
    RoundEnds {
        /// Its number.
        round: u64,
        /// Whether all members have a stable checkpoint.
        is_complete: bool,
    },
    /// Request for this rank's status.
    StatusAsked,
}

/// A life of a rank that is reachable.
#[derive(Debug)]
pub struct Introduced {
    /// The rank.
    pub rank: Rank,
    /// The incarnation.
    pub incarnation: Incarnation,
    /// The value under the rank's address key.
    pub card: Vec<u8>,
    /// The descriptor that was put with the value.
    pub memory: Option<OwnedFd>,
}

/// The operation of a rank in a fence, for errors.
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
    /// Converts a message that is not an answer; `Err`: it is an answer.
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
            ) => Self::Up(Introduced {
                rank: Rank(rank),
                incarnation: Incarnation(incarnation),
                card,
                memory,
            }),
            (ToRank::CheckpointWanted, _) => Self::CheckpointWanted,
            (ToRank::RoundBegins(round), _) => Self::RoundBegins(round),
            (ToRank::RoundEnds { round, is_complete }, _) => Self::RoundEnds { round, is_complete },
            (ToRank::AskStatus, _) => Self::StatusAsked,
            answer => return Err(answer),
        })
    }
}

impl ControlPlane {
    /// Joins the job for which this process was started. `Ok(None)`: no launcher has started this
    /// process.
    ///
    /// # Errors
    /// The environment is of another job, this process has joined already, or the launcher is gone
    /// or of another version.
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
            begins_with: None,
            is_alone: false,
            met: None,
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
                    begins_with,
                    met,
                    alone,
                },
                None,
            ) => {
                control.job = job;
                control.rank = Rank(rank);
                control.size = size;
                control.incarnation = Incarnation(incarnation);
                control.config = *config;
                control.begins_with = begins_with;
                control.is_alone = alone;
                control.met = met.map(|met| met.into_iter().map(Rank).collect());
                Ok(control)
            }
            (other, _) => Err(out_of_turn(ATTEMPTED, &other)),
        }
    }

    /// The rank of this process.
    pub fn rank(&self) -> Rank {
        self.rank
    }

    /// Number of ranks of the job.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The incarnation of this rank.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Number of the job, unique on this host.
    pub fn job(&self) -> u64 {
        self.job
    }

    /// The job's settings, the same on every rank.
    pub fn config(&self) -> &JobConfig {
        &self.config
    }

    /// Number of fences that this rank has passed.
    pub fn fences_passed(&self) -> u64 {
        self.generation
    }

    /// Sets the number of fences that a later life passed before its checkpoint.
    pub fn set_fences_passed(&mut self, fences: u64) {
        self.generation = fences;
        self.fences_begun = fences;
    }

    /// Publishes `value`, with a descriptor (of shared memory) if given, under `key`. A later
    /// value replaces an earlier one for later gets.
    ///
    /// # Errors
    /// The job is being ended, the launcher is gone, or the value is too long for a message.
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

    /// The value under `key`, with its descriptor. Blocks until a rank has put it.
    ///
    /// # Errors
    /// The job is being ended (also if no rank is left that could put the value), or the launcher
    /// is gone.
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

    /// The hosts of all ranks, by rank. Blocks until all ranks have called it.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn hosts(&mut self, own: HostIdentity) -> Result<Vec<HostIdentity>, JobError> {
        const ATTEMPTED: &str = "asking for the hosts of all ranks";
        self.send(ATTEMPTED, &ToLauncher::Host(own.encode().into()), None)?;
        match self.receive(ATTEMPTED)?.0 {
            ToRank::Hosts { hosts, rows } => {
                host::by_rank(&hosts, &rows, self.size).ok_or_else(|| {
                    let hosts = ToRank::Hosts { hosts, rows };
                    out_of_turn(ATTEMPTED, &hosts)
                })
            }
            other => Err(out_of_turn(ATTEMPTED, &other)),
        }
    }

    /// Asks for the introduction of a peer. It comes as news: [`News::Up`].
    ///
    /// # Errors
    /// As [`report`](Self::report).
    pub fn meet(&mut self, peer: Rank) -> Result<(), JobError> {
        self.report(&ToLauncher::Meet(peer.0))
    }

    /// The introduction of a peer that was asked for, or is due anyway: takes the oldest one out of
    /// the news. Blocks until it has come.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn introduced(&mut self, peer: Rank) -> Result<Introduced, JobError> {
        let attempted = format!("waiting for the address of rank {peer}");
        let is_its = |news: &News| matches!(news, News::Up(up) if up.rank == peer);
        loop {
            if let Some(at) = self.news.iter().position(is_its)
                && let Some(News::Up(introduced)) = self.news.remove(at)
            {
                return Ok(introduced);
            }
            if let Some((message, _)) = self.take(&attempted)? {
                return Err(out_of_turn(&attempted, &message));
            }
            if !self.news.iter().any(is_its) {
                self.read(&attempted)?;
            }
        }
    }

    /// The ranks that were introduced to earlier lives of this rank. `None`: all ranks are
    /// introduced to each other at the start.
    pub fn met(&self) -> Option<&[Rank]> {
        self.met.as_deref()
    }

    /// Blocks until every rank of the job has called it as many times as this rank.
    ///
    /// # Errors
    /// The job is being ended (also if a rank has left and will not call it), or the launcher is
    /// gone.
    pub fn fence(&mut self) -> Result<(), JobError> {
        self.begin_fence(false)?;
        let message = self.receive(FENCING)?.0;
        self.pass_fence(message)
    }

    /// Begins the next fence, and does not wait. Until [`fence_passed`](Self::fence_passed)
    /// returns true, no other request may be made. `last`: this rank leaves the job with this
    /// fence.
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
        // The answer may have been read by [`check`](Self::check).
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

    /// Whether some news says that a life of the rank has ended, or that a later one can be reached.
    pub fn has_news_of_lives(&self, of: Rank) -> bool {
        let mut news = self.news.iter();
        news.any(|it| match it {
            News::Down { rank, .. } => *rank == of,
            News::Up(up) => up.rank == of && up.incarnation > Incarnation(0),
            _ => false,
        })
    }

    /// The oldest news, if it is of this kind.
    pub fn next_news_if(&mut self, is_wanted: impl FnOnce(&News) -> bool) -> Option<News> {
        let is_next = self.news.front().is_some_and(is_wanted);
        is_next.then(|| self.news.pop_front()).flatten()
    }

    /// Sends a message that has no answer.
    ///
    /// # Errors
    /// The job is being ended, or the launcher is gone.
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

    /// Asks to be killed and restarted. Returns only if the job is being ended, or the launcher is
    /// gone.
    pub fn ask_for_next_life(&mut self, own: Rank) -> JobError {
        match self.suspect(own, self.incarnation) {
            Ok(()) => self.last_words("waiting for a restart"),
            Err(error) => error,
        }
    }

    /// Checks, without blocking, whether the launcher is gone or has stopped this rank. Its other
    /// messages are kept for [`next_news`](Self::next_news). One system call.
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

    /// Asks the launcher to end the job, with `message` as the reason that it reports. The caller
    /// should exit soon, with a status other than 0.
    pub fn abort(&mut self, message: &str) {
        // Long reasons are cut, not refused, since the rank sends no other message.
        let message = message.chars().take(4096).collect();
        // A launcher that is gone or ends the job already needs no message.
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
            // The launcher may have sent the reason before it closed the socket.
            Err(WireError::Closed) => Err(self.last_words(attempted)),
            Err(error) => Err(lost(attempted, IoError::other(error))),
        }
    }

    /// Receives until the launcher has closed the socket; returns its reason.
    fn last_words(&mut self, attempted: &str) -> JobError {
        loop {
            if let Err(error) = self.receive(attempted) {
                return error;
            }
        }
    }

    /// The next message, if one has arrived.
    fn receive_now(
        &mut self,
        attempted: &str,
    ) -> Result<Option<(ToRank, Option<OwnedFd>)>, JobError> {
        loop {
            // A stop message may have arrived in one read with the answer before it.
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

    /// Blocks until some bytes were read.
    fn read(&mut self, attempted: &str) -> Result<(), JobError> {
        let failed = |error| receive_failed(attempted, error);
        while !self.connection.receive().map_err(failed)? {
            self.connection.wait(None).map_err(failed)?;
        }
        Ok(())
    }

    /// The next message that was read; after a stop message, every call returns an error.
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
