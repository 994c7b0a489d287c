//! What a later life gets of the launcher and of ranks that live: how it begins, its events, logs of
//! earlier lives, marks of output.

use super::message::{HELD_BYTES_MAX, ToLauncher, ToRank};
use super::{ControlPlane, News, out_of_turn};
use crate::JobError;
use refrain_ring::{Incarnation, Rank};
use std::collections::VecDeque;
use std::io::Error as IoError;
use std::os::fd::OwnedFd;

/// A rank that has passed the last fence of the job.
#[derive(Debug)]
pub struct Departed {
    /// The rank.
    pub rank: Rank,
    /// The incarnation that passed the fence.
    pub incarnation: Incarnation,
    /// The segment of that life.
    pub memory: OwnedFd,
}

impl ControlPlane {
    /// The checkpoint with which this life begins, if the launcher names one; 0: the beginning of
    /// the program. SET-4
    pub fn begins_with(&self) -> Option<u64> {
        self.begins_with
    }

    /// Whether all ranks have passed the last fence: this later life connects to no peer outside of
    /// its set.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// The logs of `peers` peers, for a life that is alone. Blocks until all have arrived.
    ///
    /// # Errors
    /// The job is being ended, or the launcher is gone.
    pub fn departed(&mut self, peers: usize) -> Result<Vec<Departed>, JobError> {
        const ATTEMPTED: &str = "waiting for the logs of ranks that have left";
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

    /// The events of this later life that other ranks hold, by holder. Blocks until all survivors
    /// have answered. TICKET-2
    ///
    /// # Errors
    /// The job is being ended, or the launcher is gone.
    pub fn collect_events(&mut self) -> Result<Vec<(Rank, Vec<u8>)>, JobError> {
        const ATTEMPTED: &str = "collecting the events of this rank from the others";
        self.send(ATTEMPTED, &ToLauncher::CollectEvents, None)?;
        let (mut held, mut parts) = (Vec::new(), Vec::new());
        loop {
            match self.receive(ATTEMPTED)?.0 {
                ToRank::Held {
                    holder,
                    part,
                    is_last,
                } => {
                    parts.extend(part);
                    if is_last {
                        held.push((Rank(holder), core::mem::take(&mut parts)));
                    }
                }
                ToRank::AllHeld => return Ok(held),
                other => return Err(out_of_turn(ATTEMPTED, &other)),
            }
        }
    }

    /// Tells that this life has joined a job in which ranks hold events for each other. TICKET-2
    ///
    /// # Errors
    /// As [`fence`](Self::fence).
    pub fn tell_joined(&mut self) -> Result<(), JobError> {
        const ATTEMPTED: &str = "joining the ranks that hold events";
        self.send(ATTEMPTED, &ToLauncher::Joined, None)?;
        match self.receive(ATTEMPTED)?.0 {
            ToRank::JoinedNoted => Ok(()),
            other => Err(out_of_turn(ATTEMPTED, &other)),
        }
    }

    /// Tells what this rank holds of a dead life. TICKET-2
    ///
    /// # Errors
    /// As [`report`](Self::report).
    pub fn tell_held(
        &mut self,
        of: Rank,
        incarnation: Incarnation,
        held: &[u8],
    ) -> Result<(), JobError> {
        let parts = held.len().div_ceil(HELD_BYTES_MAX).max(1);
        for at in 0..parts {
            let rest = &held[at * HELD_BYTES_MAX..];
            self.report(&ToLauncher::Held {
                of: of.0,
                incarnation: incarnation.0,
                part: rest[..rest.len().min(HELD_BYTES_MAX)].to_vec(),
                is_last: at + 1 == parts,
            })?;
        }
        Ok(())
    }

    /// A copy of the descriptor of the newest earlier life's memory, with its incarnation. The
    /// original stays in the news.
    ///
    /// # Errors
    /// No descriptor can be copied.
    pub fn remains(&self) -> Result<Option<(Incarnation, OwnedFd)>, JobError> {
        Ok(self.all_remains()?.pop())
    }

    /// As [`ControlPlane::remains`], of all earlier lives whose memory was passed, the newest last.
    ///
    /// # Errors
    /// As [`ControlPlane::remains`].
    pub fn all_remains(&self) -> Result<Vec<(Incarnation, OwnedFd)>, JobError> {
        let of = |news: &News| match news {
            News::Remains {
                incarnation,
                memory,
            } => Some(memory.try_clone().map(|memory| (*incarnation, memory))),
            _ => None,
        };
        let copied: Result<_, IoError> = self.news.iter().filter_map(of).collect();
        copied.map_err(|error| JobError::control("copying a descriptor of an earlier life", error))
    }

    /// Reports the checkpoint from which this later life continues; 0: from the beginning. Returns
    /// when the launcher has read what this process has printed until now: that output is from the
    /// start of the program, not from after the checkpoint.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn tell_beginning(&mut self, checkpoint: u64) -> Result<(), JobError> {
        let fences = self.generation;
        self.marked(&ToLauncher::Beginning { checkpoint, fences }, checkpoint)
    }

    /// Returns when the launcher has noted that all output up to now comes before this checkpoint.
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
}
