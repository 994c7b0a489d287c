//! Checkpoints that a server keeps: the same as a folder, over a socket.
//!
//! Each checkpoint that is written or read is a conversation of its own. When the
//! server is gone in the middle of it, it is over with an error; the next one
//! reaches the server again when it is back.

use crate::error::CheckpointError;
use crate::message::{PROTOCOL, ToClient, ToServer};
use crate::packing::{Strip, Strips};
use crate::store::{Checkpoints, Found, JobName, Key, Sink, Source, Stable};
use refrain_ring::{Incarnation, Rank};
use refrain_wire::{Connection, Incoming, STRANGER_WAIT, ServerAddress, WireError};
use std::io::ErrorKind;
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
    connection: Connection,
    /// Not for ever: only where nothing is lost without the server.
    patience: Option<Duration>,
}

impl Talk {
    fn failed(&self, error: impl ToString) -> CheckpointError {
        CheckpointError::Server {
            address: self.address.clone(),
            reason: error.to_string(),
        }
    }

    fn say(&mut self, message: &ToServer) -> Result<(), CheckpointError> {
        let said = self.connection.say(message);
        let said = said.and_then(|()| self.connection.wait_flushed(None));
        said.map_err(|error| self.why_over(error))
    }

    /// Why it could not be said: the server may have told.
    fn why_over(&mut self, error: WireError) -> CheckpointError {
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
        let until = self.patience.map(|longest| Instant::now() + longest);
        let heard = self.connection.wait_message(until);
        heard.map_err(|error| match error {
            WireError::Closed => self.failed(ENDED),
            error => self.failed(format!("{ENDED} ({error})")),
        })
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

/// How long one address may take to let a client in. The kernel by itself tries for two
/// minutes, with a host that is gone.
const CONNECT_MAX: Duration = STRANGER_WAIT;

/// Why there is no conversation, and what to do.
fn unreachable(error: &WireError) -> String {
    match error {
        WireError::Unproven | WireError::Secure(_) => "it does not know the secret: name the file of its --secret with --checkpoint-secret, or none if it has none".into(),
        WireError::Timeout => "it has accepted the connection and does not answer: continue it if it is stopped, or choose another place".into(),
        WireError::Io(error) if error.kind() == ErrorKind::PermissionDenied => error.to_string(),
        WireError::Frame(error) => error.to_string(),
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
        let connected = Connection::connect(&self.address, &PROTOCOL, CONNECT_MAX);
        let connection = connected.map_err(|error| {
            let is_unproven = matches!(error, WireError::Unproven | WireError::Secure(_));
            let reason = unreachable(&error);
            let address = address.clone();
            let error = CheckpointError::Server { address, reason };
            NotWelcome { error, is_unproven }
        })?;
        let mut talk = Talk {
            address,
            connection,
            patience,
        };
        let welcomed = talk.greet(&self.job);
        let is_unproven = false;
        welcomed.map_err(|error| NotWelcome { error, is_unproven })?;
        talk.patience = None;
        Ok(talk)
    }
}

impl Talk {
    /// Says hello, and waits for the answer.
    fn greet(&mut self, job: &JobName) -> Result<(), CheckpointError> {
        let hello = ToServer::Hello {
            job: job.id,
            prefix: job.prefix.clone(),
        };
        let until = self.patience.map(|longest| Instant::now() + longest);
        let said = self.connection.say(&hello);
        said.map_err(|error| self.failed(error))?;
        // If it cannot be sent, the server may have sent its reason.
        let _ = self.connection.wait_flushed(until);
        match self.connection.wait_message(until) {
            Ok(ToClient::Welcome) => Ok(()),
            Ok(ToClient::Refused(why)) => Err(why.into_error(&self.address)),
            Ok(_) => Err(self.unexpected()),
            Err(WireError::Closed) => Err(self.failed(NO_WELCOME)),
            Err(error) => Err(self.failed(unreachable(&error))),
        }
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
            ToClient::Begun => Ok(Box::new(ServerSink(talk))),
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
        let whole = match talk.hear()? {
            ToClient::Nothing => return Ok(None),
            ToClient::Found(whole) => *whole,
            _ => return Err(talk.unexpected()),
        };
        if (whole.header.job, whole.header.rank) != (self.job.id, rank) {
            return Err(talk.unexpected());
        }
        let source = Box::new(ServerSource {
            talk,
            number: whole.header.number,
            left: whole.bytes,
        });
        Ok(Some(Found { whole, source }))
    }

    fn remove_all(&self) -> Result<(), CheckpointError> {
        // The job is over: it does not wait for a server that is stopped.
        let mut talk = self.talk(Some(ANSWER_MAX))?;
        talk.patience = Some(ANSWER_MAX);
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

/// A checkpoint on its way to a server. Dropped before it is committed, the conversation
/// ends, and the server gives it up.
#[derive(Debug)]
struct ServerSink(Talk);

impl Strips for ServerSink {
    type Error = CheckpointError;

    fn exchange(
        &mut self,
        _place: u64,
        strip: &mut Strip,
        bytes: usize,
    ) -> Result<(), CheckpointError> {
        let Self(talk) = self;
        // Before the end, a server says something only to refuse.
        match talk.connection.hear() {
            Ok(None) => {}
            Ok(Some(ToClient::Refused(why))) => return Err(why.into_error(&talk.address)),
            Ok(Some(_)) => return Err(talk.unexpected()),
            Err(error) => return Err(talk.failed(format!("{ENDED} ({error})"))),
        }
        let sent = talk.connection.send_data(&strip.bytes()[..bytes], None);
        sent.map_err(|error| talk.why_over(error))
    }
}

impl Sink for ServerSink {
    fn commit(mut self: Box<Self>, bytes: u64) -> Result<Stable, CheckpointError> {
        let Self(talk) = &mut *self;
        talk.say(&ToServer::Commit { bytes })?;
        match talk.hear()? {
            ToClient::Stable { bytes: there, left } if there == bytes => Ok(Stable { bytes, left }),
            _ => Err(talk.unexpected()),
        }
    }
}

/// A checkpoint on its way from a server.
#[derive(Debug)]
struct ServerSource {
    talk: Talk,
    number: u64,
    /// Bytes that are still to come.
    left: u64,
}

impl Source for ServerSource {
    fn next_strip(&mut self, into: &mut [u8]) -> Result<usize, CheckpointError> {
        if self.left == 0 {
            return Ok(0);
        }
        match self.talk.connection.wait_frame(into, None) {
            Ok(Incoming::Data(bytes)) if bytes as u64 <= self.left => {
                self.left -= bytes as u64;
                Ok(bytes)
            }
            Ok(Incoming::Message(ToClient::Refused(why))) => {
                Err(why.into_error(&self.talk.address))
            }
            Ok(Incoming::End) => Err(self.talk.failed(ENDED)),
            Ok(_) => Err(self.talk.unexpected()),
            Err(error) => Err(self.talk.failed(error)),
        }
    }

    fn name(&self) -> String {
        format!("checkpoint {} on {}", self.number, self.talk.address)
    }
}
