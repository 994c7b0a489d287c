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
use refrain_wire::ServerAddress;
use sink::ServerSink;
use source::ServerSource;
use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

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

/// How long the server may take to answer where nothing is lost without it: when a job
/// starts, and when its checkpoints are removed.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long a server may be busy. Its conversations end after a checkpoint each, those
/// of silent strangers after 10 s.
const BUSY_MAX: Duration = Duration::from_secs(60);
/// Attempts that may end before both sides have proved that they know the secret: the server
/// may have closed the connection to make room for others.
const UNPROVEN_MAX: u32 = 6;
/// Pauses between calls: twice as long each time.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The error about a server that ends a conversation.
const ENDED: &str = "it has ended the conversation: start it again if it has died, and try again; or choose another place";
/// The error about one that ends it before its first message.
const NO_WELCOME: &str = "it has ended the conversation before its first message: if it has a --secret, name that file with --checkpoint-secret; if it has died, start it again; or choose another place";

/// Why there is no conversation, and what to do.
fn unreachable(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::InvalidData => format!(
            "{error}: name the file of its --secret with --checkpoint-secret, or none if it has none"
        ),
        ErrorKind::WouldBlock => "it has accepted the connection and does not answer: continue it if it is stopped, or choose another place".into(),
        ErrorKind::PermissionDenied => error.to_string(),
        _ => format!("it cannot be reached: {error}: start it again, or choose another place"),
    }
}

/// Why there is no conversation.
struct NotWelcome {
    error: CheckpointError,
    /// Both sides have a secret, and the server ended before it was proved.
    is_unproven: bool,
}

impl Client {
    /// A job's checkpoints on the server at an address, which is not reached yet.
    pub fn new(address: ServerAddress, job: JobName) -> Self {
        Self { address, job }
    }

    /// Connects again until the server has room for a conversation.
    fn talk(&self, patience: Option<Duration>) -> Result<Talk, CheckpointError> {
        let until = Instant::now() + BUSY_MAX;
        let (mut pause, mut unproven) = (PAUSE_MIN, 0);
        loop {
            let NotWelcome { error, is_unproven } = match self.call(patience) {
                Ok(talk) => return Ok(talk),
                Err(why) => why,
            };
            unproven += u32::from(is_unproven);
            let is_busy = matches!(error, CheckpointError::Busy { .. }) && Instant::now() < until;
            let calls_again = is_busy || is_unproven && unproven < UNPROVEN_MAX;
            if !calls_again {
                return Err(error);
            }
            std::thread::sleep(pause);
            pause = PAUSE_MAX.min(2 * pause);
        }
    }

    /// Connects once. `patience`: how long to wait for the answer.
    fn call(&self, patience: Option<Duration>) -> Result<Talk, NotWelcome> {
        let address = self.address.to_string();
        let stream = Stream::connect(&self.address).map_err(|error| {
            let is_unproven = matches!(self.address, ServerAddress::Sealed { .. })
                && UNPROVEN.contains(&error.kind());
            let reason = unreachable(&error);
            let error = CheckpointError::Server {
                address: address.clone(),
                reason,
            };
            NotWelcome { error, is_unproven }
        })?;
        let mut talk = Talk { address, stream };
        let welcomed = talk.greet(&self.job, patience);
        let is_unproven = false;
        welcomed.map_err(|error| NotWelcome { error, is_unproven })?;
        Ok(talk)
    }
}

/// Errors of a connection that the server closes before the proof.
const UNPROVEN: [ErrorKind; 3] = [
    ErrorKind::InvalidData,
    ErrorKind::ConnectionReset,
    ErrorKind::BrokenPipe,
];

impl Talk {
    /// Says hello, and waits for the answer.
    fn greet(&mut self, job: &JobName, patience: Option<Duration>) -> Result<(), CheckpointError> {
        let set = self.stream.set_patience(patience);
        set.map_err(|error| self.failed(error))?;
        let hello = ToServer::Hello {
            version: PROTOCOL_VERSION,
            job: job.id,
            prefix: job.prefix.clone(),
        };
        // If this fails, the server may have sent its reason.
        let _ = framing::say(&mut self.stream, &hello);
        let mut none = Strip::new();
        match framing::receive(&mut self.stream, &mut none) {
            Ok(Incoming::Message(ToClient::Welcome)) => {}
            Ok(Incoming::Message(ToClient::Refused(why))) => {
                return Err(why.into_error(&self.address));
            }
            Ok(Incoming::End) => return Err(self.failed(NO_WELCOME)),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                return Err(self.failed(NO_WELCOME));
            }
            Err(error) => return Err(self.failed(unreachable(&error))),
            Ok(_) => return Err(self.unexpected()),
        }
        let set = self.stream.set_patience(None);
        set.map_err(|error| self.failed(error))
    }
}

impl Checkpoints for Client {
    fn begin(&self, key: Key) -> Result<Box<dyn Sink>, CheckpointError> {
        let mut talk = self.talk(None)?;
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
        let mut talk = self.talk(None)?;
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
        // The job is over: it does not wait for a server that is stopped.
        let mut talk = self.talk(Some(ANSWER_MAX))?;
        let patient = talk.stream.set_patience(Some(ANSWER_MAX));
        patient.map_err(|error| talk.failed(error))?;
        talk.say(&ToServer::RemoveAll)?;
        match talk.hear()? {
            ToClient::Removed => Ok(()),
            _ => Err(talk.unexpected()),
        }
    }

    fn reach(&self) -> Result<(), CheckpointError> {
        self.talk(Some(ANSWER_MAX)).map(|_| ())
    }

    fn describe(&self) -> String {
        format!("checkpoint server {}", self.address)
    }
}
