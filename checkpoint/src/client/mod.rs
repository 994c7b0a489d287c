//! Checkpoints that a server keeps: the same as a folder, over a socket.
//!
//! Each checkpoint that is written or read is a conversation of its own. When the
//! server is gone in the middle of it, it is over with an error; the next one
//! reaches the server again when it is back.

mod sink;
mod source;

use crate::buffer::Strip;
use crate::error::CheckpointError;
use crate::framing::{self, Incoming};
use crate::message::{PROTOCOL_VERSION, ToClient, ToServer};
use crate::socket::Stream;
use crate::store::{Checkpoints, Found, JobName, Key, Sink};
use refrain_ring::{Incarnation, Rank};
use refrain_secure::ServerAddress;
use sink::ServerSink;
use source::ServerSource;
use std::io;
use std::time::Duration;

/// Checkpoints of one job on a server.
#[derive(Debug)]
pub struct Client {
    address: ServerAddress,
    job: JobName,
}

/// A conversation.
#[derive(Debug)]
struct Talk {
    address: String,
    stream: Stream,
}

impl Talk {
    fn failed(&self, error: impl ToString) -> CheckpointError {
        CheckpointError::Server {
            address: self.address.clone(),
            reason: error.to_string(),
        }
    }

    fn say(&mut self, message: &ToServer) -> Result<(), CheckpointError> {
        framing::say(&mut self.stream, message).map_err(|error| self.why_over(error))
    }

    /// Why it could not be said: the server may have told.
    fn why_over(&mut self, error: io::Error) -> CheckpointError {
        match self.next_message() {
            Ok(ToClient::Refused(why)) => why.into_error(&self.address),
            _ => self.failed(format!("{ENDED} ({error})")),
        }
    }

    /// Waits for what the server says; what it refuses is an error.
    fn hear(&mut self) -> Result<ToClient, CheckpointError> {
        match self.next_message()? {
            ToClient::Refused(why) => Err(why.into_error(&self.address)),
            message => Ok(message),
        }
    }

    fn next_message(&mut self) -> Result<ToClient, CheckpointError> {
        let mut none = Strip::new();
        let incoming = framing::receive(&mut self.stream, &mut none);
        match incoming.map_err(|error| self.failed(format!("{ENDED} ({error})")))? {
            Incoming::Message(message) => Ok(message),
            Incoming::Strip(_) => Err(self.unexpected()),
            Incoming::End => Err(self.failed(ENDED)),
        }
    }

    fn unexpected(&self) -> CheckpointError {
        self.failed("it has said something else than asked")
    }
}

/// How long the server may take to remove a job's checkpoints. It goes on without
/// anybody who waits.
const REMOVE_MAX: Duration = Duration::from_secs(10);

/// Why there is no conversation, and what to do.
fn unreachable(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::InvalidData => {
            format!("{error}: name the file of its --secret with --checkpoint-secret")
        }
        _ => format!("it cannot be reached: {error}: start it again, or choose another place"),
    }
}

/// What is said of a server that says nothing any more.
const ENDED: &str = "it has ended the conversation: start it again if it has died, and try again; name its secret with --checkpoint-secret if it has one; or choose another place";

impl Client {
    /// A job's checkpoints on the server at an address, which is reached once, to
    /// see that it is there.
    ///
    /// # Errors
    /// When it is not.
    pub fn new(address: ServerAddress, job: JobName) -> Result<Self, CheckpointError> {
        let client = Self { address, job };
        client.talk()?;
        Ok(client)
    }

    fn talk(&self) -> Result<Talk, CheckpointError> {
        let address = self.address.to_string();
        let stream = Stream::connect(&self.address).map_err(|error| CheckpointError::Server {
            address: address.clone(),
            reason: unreachable(&error),
        })?;
        let mut talk = Talk { address, stream };
        talk.say(&ToServer::Hello {
            version: PROTOCOL_VERSION,
            job: self.job.id,
            prefix: self.job.prefix.clone(),
        })?;
        Ok(talk)
    }
}

impl Checkpoints for Client {
    fn begin(&self, key: Key) -> Result<Box<dyn Sink>, CheckpointError> {
        let mut talk = self.talk()?;
        talk.say(&ToServer::Begin {
            rank: key.rank.0,
            incarnation: key.incarnation.0,
            number: key.number,
        })?;
        match talk.hear()? {
            ToClient::Begun => Ok(Box::new(ServerSink::new(talk))),
            _ => Err(talk.unexpected()),
        }
    }

    fn newest(
        &self,
        rank: Rank,
        life: Option<Incarnation>,
    ) -> Result<Option<Found>, CheckpointError> {
        let mut talk = self.talk()?;
        talk.say(&ToServer::Newest {
            rank: rank.0,
            life: life.map(|life| life.0),
        })?;
        let found = match talk.hear()? {
            ToClient::Nothing => return Ok(None),
            ToClient::Found(found) => *found,
            _ => return Err(talk.unexpected()),
        };
        let bytes = found.bytes;
        let (header, sections, passed_over) = found.read().ok_or_else(|| talk.unexpected())?;
        if (header.job, header.rank) != (self.job.id, rank) {
            return Err(talk.unexpected());
        }
        Ok(Some(Found {
            header,
            bytes,
            sections,
            passed_over,
            source: Box::new(ServerSource::new(talk, header.number, bytes)),
        }))
    }

    fn remove_all(&self) -> Result<(), CheckpointError> {
        let mut talk = self.talk()?;
        // The job is over: nobody is to wait for a server that is stopped.
        let patient = talk.stream.set_patience(REMOVE_MAX);
        patient.map_err(|error| talk.failed(error))?;
        talk.say(&ToServer::RemoveAll)?;
        match talk.hear()? {
            ToClient::Removed => Ok(()),
            _ => Err(talk.unexpected()),
        }
    }

    fn describe(&self) -> String {
        format!("checkpoint server {}", self.address)
    }
}
