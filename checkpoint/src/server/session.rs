//! One session, without its socket: takes messages and strips, and returns answers.
//!
//! Strips are checked as when a checkpoint is read. A strip with a damaged piece is refused before
//! it is written to disk, and only a whole checkpoint with the announced header is committed.

use super::jobs::Jobs;
use crate::folder::Folder;
use crate::format::{Flaw, STRIP_BYTES};
use crate::message::{Refusal, ToClient, ToServer};
use crate::packing::Strip;
use crate::store::contract::{Checkpoints, Found, JobName, Key, Sink};
use crate::unpacking::{Next, Unpacking};
use refrain_ring::{Incarnation, Rank};
use std::sync::Arc;

/// The action that the caller must take.
#[derive(Debug)]
pub enum Answer {
    /// Wait for the next message or strip.
    Nothing,
    /// Send this message; after a refusal, the session is over.
    Say(ToClient),
    /// Announce this checkpoint, and send its strips.
    Send(Box<Found>),
}

/// A session.
pub struct Session {
    jobs: Arc<Jobs>,
    state: SessionState,
}

enum SessionState {
    /// No message has arrived.
    Greeting,
    /// The session belongs to this job and awaits a request.
    Ready(JobName, Arc<Folder>),
    /// A checkpoint is being received.
    Receiving(JobName, Box<Receiving>),
    /// The session is over.
    Over,
}

struct Receiving {
    key: Key,
    sink: Box<dyn Sink>,
    unpacking: Option<Unpacking>,
    /// Bytes received so far.
    place: u64,
}

fn out_of_order() -> Refusal {
    Refusal::Other("this message is out of order: does the client have another version?".into())
}

fn damaged(flaw: Flaw) -> Refusal {
    Refusal::Other(format!("the received checkpoint is not valid: {flaw}"))
}

impl Session {
    /// A new session.
    pub fn new(jobs: Arc<Jobs>) -> Self {
        Self {
            jobs,
            state: SessionState::Greeting,
        }
    }

    /// Handles a message.
    pub fn message(&mut self, message: ToServer) -> Answer {
        // Stays if the message is refused: the session is over.
        let state = core::mem::replace(&mut self.state, SessionState::Over);
        let answered = match (state, message) {
            (SessionState::Greeting, ToServer::Hello { job, prefix }) => self.hello(job, prefix),
            (
                SessionState::Ready(job, folder),
                ToServer::Begin {
                    rank,
                    incarnation,
                    number,
                },
            ) => {
                let key = Key {
                    rank: Rank(rank),
                    incarnation: Incarnation(incarnation),
                    number,
                };
                self.begin(job, &folder, key)
            }
            (SessionState::Ready(_, folder), ToServer::Newest { rank, recovers }) => {
                let recovers = recovers.map(|(life, last)| (Incarnation(life), last));
                let found = folder.newest(Rank(rank), recovers);
                found.map_err(Refusal::from).map(|found| match found {
                    Some(found) => Answer::Send(Box::new(found)),
                    None => Answer::Say(ToClient::Nothing),
                })
            }
            (SessionState::Ready(job, folder), ToServer::RemoveAll) => {
                let removed = folder.remove_all();
                self.jobs.forget(&job);
                let removed = removed.map(|()| Answer::Say(ToClient::Removed));
                removed.map_err(Refusal::from)
            }
            (SessionState::Receiving(_, receiving), ToServer::Commit { bytes }) => {
                receiving.commit(bytes).map(Answer::Say)
            }
            _ => Err(out_of_order()),
        };
        answered.unwrap_or_else(|why| Answer::Say(ToClient::Refused(why)))
    }

    /// Handles the first `bytes` bytes of a strip.
    pub fn strip(&mut self, strip: &mut Strip, bytes: usize) -> Answer {
        let refusal = match &mut self.state {
            SessionState::Receiving(job, receiving) => match receiving.strip(job, strip, bytes) {
                Ok(()) => return Answer::Nothing,
                Err(why) => why,
            },
            _ => out_of_order(),
        };
        self.state = SessionState::Over;
        Answer::Say(ToClient::Refused(refusal))
    }

    fn hello(&mut self, job: u64, prefix: String) -> Result<Answer, Refusal> {
        let job = JobName::new(job, prefix)?;
        let folder = self.jobs.folder_of(&job)?;
        self.state = SessionState::Ready(job, folder);
        Ok(Answer::Say(ToClient::Welcome))
    }

    fn begin(&mut self, job: JobName, folder: &Folder, key: Key) -> Result<Answer, Refusal> {
        let receiving = Receiving {
            key,
            sink: folder.begin(key)?,
            unpacking: None,
            place: 0,
        };
        self.state = SessionState::Receiving(job, Box::new(receiving));
        Ok(Answer::Say(ToClient::Begun))
    }
}

impl Receiving {
    fn strip(&mut self, job: &JobName, strip: &mut Strip, bytes: usize) -> Result<(), Refusal> {
        let came = &strip.bytes()[..bytes];
        let is_over = self.unpacking.as_ref().is_some_and(Unpacking::is_over);
        if is_over || !self.place.is_multiple_of(STRIP_BYTES as u64) {
            return Err(damaged(Flaw::Behind));
        }
        if self.unpacking.is_none() {
            let unpacking = Unpacking::new(came).map_err(damaged)?;
            let header = unpacking.header();
            let key = Key {
                rank: header.rank,
                incarnation: header.incarnation,
                number: header.number,
            };
            if (header.job, key) != (job.id, self.key) {
                return Err(damaged(Flaw::Foreign {
                    job: header.job,
                    rank: header.rank.0,
                    number: header.number,
                }));
            }
            self.unpacking = Some(unpacking);
        }
        if let Some(unpacking) = &mut self.unpacking {
            while let Next::Piece(_) = unpacking.next(came).map_err(damaged)? {}
        }
        self.sink.exchange(self.place, strip, bytes)?;
        self.place += bytes as u64;
        Ok(())
    }

    fn commit(self, bytes: u64) -> Result<ToClient, Refusal> {
        let is_over = self.unpacking.as_ref().is_some_and(Unpacking::is_over);
        if !is_over || bytes != self.place {
            return Err(damaged(Flaw::Short));
        }
        let stable = self.sink.commit(bytes)?;
        Ok(ToClient::Stable {
            bytes: stable.bytes,
            left: stable.left,
        })
    }
}
