//! Checkpoints on a server: implements [`Checkpoints`] over a socket.
//!
//! Each checkpoint is written or read in a session of its own. If the server dies, the session ends
//! with an error; the next session reaches the server once it runs again.

use crate::error::CheckpointError;
use crate::message::{PROTOCOL, ToClient, ToServer};
use crate::packing::{Strip, Strips};
use crate::store::contract::{Checkpoints, Found, JobName, Key, Sink, Source, Stable};
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

/// A session with the server.
#[derive(Debug)]
struct Session {
    address: String,
    connection: Connection,
    /// Longest wait for an answer; `None`: no limit.
    patience: Option<Duration>,
}

/// How long the server may take to answer requests that the job can do without: when a job starts,
/// and when its checkpoints are removed.
const ANSWER_MAX: Duration = Duration::from_secs(10);
/// How long a server may be busy. Its sessions end after one checkpoint each; silent ones end after
/// 10 s.
const BUSY_MAX: Duration = Duration::from_secs(60);
/// How long a server may refuse connections: one that has died and is started again.
const RESTART_MAX: Duration = Duration::from_secs(3);
/// Attempts that may end before both sides have proved that they know the secret: the server may
/// have closed the connection to make room for others.
const UNPROVEN_MAX: u32 = 6;
/// Pauses between attempts: each is twice as long as the one before, between these limits.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The error when a server ends a session.
const ENDED: &str = "it has ended the session: start it again if it has died, and try again; or choose another place";
/// The error when a server ends a session before its first message.
const NO_WELCOME: &str = "it has ended the session before its first message: if it has a --secret, name that file with --checkpoint-secret; if it has died, start it again; or choose another place";

/// How long the connection to one address may take. By default the kernel tries for two minutes if
/// the host does not answer.
const CONNECT_MAX: Duration = STRANGER_WAIT;

/// Why there is no session, and what to do about it.
fn unreachable(error: &WireError) -> String {
    match error {
        WireError::Unproven | WireError::Secure(_) => "it does not know the secret: name the file of its --secret with --checkpoint-secret, or none if it has none".into(),
        WireError::Timeout => "it has accepted the connection and does not answer: continue it if it is stopped, or choose another place".into(),
        WireError::Io(error) if error.kind() == ErrorKind::PermissionDenied => error.to_string(),
        WireError::Frame(error) => error.to_string(),
        _ => format!("it cannot be reached: {error}: start it again, or choose another place"),
    }
}

impl Client {
    /// Checkpoints of a job on the server at `address`. Does not connect yet.
    pub fn new(address: ServerAddress, job: JobName) -> Self {
        Self { address, job }
    }

    /// Begins a session; connects again while the server has no room for one. `patience`: longest
    /// wait for the first answer.
    fn session(&self, patience: Option<Duration>) -> Result<Session, CheckpointError> {
        let began = Instant::now();
        let (mut pause, mut unproven) = (PAUSE_MIN, 0);
        loop {
            let connected = Connection::connect(&self.address, &PROTOCOL, CONNECT_MAX);
            let address = self.address.to_string();
            let (error, tries_again) = match connected {
                Ok(connection) => {
                    let session = Session {
                        address,
                        connection,
                        patience,
                    };
                    match session.greeted(&self.job) {
                        Ok(session) => return Ok(session),
                        Err(error) => {
                            let is_busy = matches!(error, CheckpointError::Busy { .. });
                            (error, is_busy && began.elapsed() < BUSY_MAX)
                        }
                    }
                }
                Err(error) => {
                    let is_unproven = matches!(error, WireError::Unproven | WireError::Secure(_));
                    let is_refused = matches!(
                        &error,
                        WireError::Io(error) if error.kind() == ErrorKind::ConnectionRefused
                    );
                    unproven += u32::from(is_unproven);
                    let reason = unreachable(&error);
                    let error = CheckpointError::Server { address, reason };
                    let tries_again = match is_refused {
                        true => began.elapsed() < RESTART_MAX,
                        false => is_unproven && unproven < UNPROVEN_MAX,
                    };
                    (error, tries_again)
                }
            };
            if !tries_again {
                return Err(error);
            }
            std::thread::sleep(pause);
            pause = PAUSE_MAX.min(2 * pause);
        }
    }
}

impl Session {
    /// Sends the first message, and waits for the answer.
    fn greeted(mut self, job: &JobName) -> Result<Self, CheckpointError> {
        let hello = ToServer::Hello {
            job: job.id,
            prefix: job.prefix.clone(),
        };
        let until = self.patience.take().map(|longest| Instant::now() + longest);
        let queued = self.connection.say(&hello);
        queued.map_err(|error| self.failed(error))?;
        // If the message cannot be sent, the server may have sent its reason.
        let _ = self.connection.wait_flushed(until);
        match self.connection.wait_message(until) {
            Ok(ToClient::Welcome) => Ok(self),
            Ok(ToClient::Refused(why)) => Err(why.into_error(&self.address)),
            Ok(_) => Err(self.unexpected()),
            Err(WireError::Closed) => Err(self.failed(NO_WELCOME)),
            Err(error) => Err(self.failed(unreachable(&error))),
        }
    }

    fn failed(&self, error: impl ToString) -> CheckpointError {
        CheckpointError::Server {
            address: self.address.clone(),
            reason: error.to_string(),
        }
    }

    fn unexpected(&self) -> CheckpointError {
        self.failed("its answer does not fit the request")
    }

    fn send(&mut self, message: &ToServer) -> Result<(), CheckpointError> {
        let queued = self.connection.say(message);
        let sent = queued.and_then(|()| self.connection.wait_flushed(None));
        sent.map_err(|error| self.why_over(error))
    }

    /// The error of a message that could not be sent: the server may have sent the reason.
    fn why_over(&mut self, error: WireError) -> CheckpointError {
        match self.next_message() {
            Ok(ToClient::Refused(why)) => why.into_error(&self.address),
            _ => self.failed(format!("{ENDED} ({error})")),
        }
    }

    /// Sends a request and waits for the answer; a refusal is an error.
    fn ask(&mut self, request: &ToServer) -> Result<ToClient, CheckpointError> {
        self.send(request)?;
        match self.next_message()? {
            ToClient::Refused(why) => Err(why.into_error(&self.address)),
            message => Ok(message),
        }
    }

    fn next_message(&mut self) -> Result<ToClient, CheckpointError> {
        let until = self.patience.map(|longest| Instant::now() + longest);
        let answer = self.connection.wait_message(until);
        answer.map_err(|error| match error {
            WireError::Closed => self.failed(ENDED),
            error => self.failed(format!("{ENDED} ({error})")),
        })
    }
}

impl Checkpoints for Client {
    fn begin(&self, key: Key) -> Result<Box<dyn Sink>, CheckpointError> {
        let mut session = self.session(None)?;
        let begin = ToServer::Begin {
            rank: key.rank.0,
            incarnation: key.incarnation.0,
            number: key.number,
        };
        match session.ask(&begin)? {
            ToClient::Begun => Ok(Box::new(ServerSink(session))),
            _ => Err(session.unexpected()),
        }
    }

    fn newest(
        &self,
        rank: Rank,
        recovers: Option<(Incarnation, u64)>,
    ) -> Result<Option<Found>, CheckpointError> {
        let mut session = self.session(None)?;
        let newest = ToServer::Newest {
            rank: rank.0,
            recovers: recovers.map(|(life, last)| (life.0, last)),
        };
        let whole = match session.ask(&newest)? {
            ToClient::Nothing => return Ok(None),
            ToClient::Found(whole) => *whole,
            _ => return Err(session.unexpected()),
        };
        if (whole.header.job, whole.header.rank) != (self.job.id, rank) {
            return Err(session.unexpected());
        }
        let source = Box::new(ServerSource {
            session,
            number: whole.header.number,
            left: whole.bytes,
        });
        Ok(Some(Found { whole, source }))
    }

    fn remove_all(&self) -> Result<(), CheckpointError> {
        // The job has ended: it does not wait for a server that is stopped.
        let mut session = self.session(Some(ANSWER_MAX))?;
        session.patience = Some(ANSWER_MAX);
        match session.ask(&ToServer::RemoveAll)? {
            ToClient::Removed => Ok(()),
            _ => Err(session.unexpected()),
        }
    }

    fn reach(&self) -> Result<(), CheckpointError> {
        self.session(Some(ANSWER_MAX)).map(|_| ())
    }

    fn describe(&self) -> String {
        format!("checkpoint server {}", self.address)
    }
}

/// A checkpoint that is sent to a server. If it is dropped before it is committed, the session
/// ends, and the server drops the checkpoint.
#[derive(Debug)]
struct ServerSink(Session);

impl Strips for ServerSink {
    type Error = CheckpointError;

    fn exchange(
        &mut self,
        _place: u64,
        strip: &mut Strip,
        bytes: usize,
    ) -> Result<(), CheckpointError> {
        let Self(session) = self;
        // Before the commit, a server sends only refusals.
        match session.connection.hear() {
            Ok(None) => {}
            Ok(Some(ToClient::Refused(why))) => return Err(why.into_error(&session.address)),
            Ok(Some(_)) => return Err(session.unexpected()),
            Err(error) => return Err(session.failed(format!("{ENDED} ({error})"))),
        }
        let sent = session.connection.send_data(&strip.bytes()[..bytes], None);
        sent.map_err(|error| session.why_over(error))
    }
}

impl Sink for ServerSink {
    fn commit(mut self: Box<Self>, bytes: u64) -> Result<Stable, CheckpointError> {
        let Self(session) = &mut *self;
        match session.ask(&ToServer::Commit { bytes })? {
            ToClient::Stable { bytes: there, left } if there == bytes => Ok(Stable { bytes, left }),
            _ => Err(session.unexpected()),
        }
    }
}

/// A checkpoint that is received from a server.
#[derive(Debug)]
struct ServerSource {
    session: Session,
    number: u64,
    /// Bytes that are not yet received.
    left: u64,
}

impl Source for ServerSource {
    fn next_strip(&mut self, into: &mut [u8]) -> Result<usize, CheckpointError> {
        if self.left == 0 {
            return Ok(0);
        }
        match self.session.connection.wait_frame(into, None) {
            Ok(Incoming::Data(bytes)) if bytes as u64 <= self.left => {
                self.left -= bytes as u64;
                Ok(bytes)
            }
            Ok(Incoming::Message(ToClient::Refused(why))) => {
                Err(why.into_error(&self.session.address))
            }
            Ok(Incoming::End) => Err(self.session.failed(ENDED)),
            Ok(_) => Err(self.session.unexpected()),
            Err(error) => Err(self.session.failed(error)),
        }
    }

    fn name(&self) -> String {
        format!("checkpoint {} on {}", self.number, self.session.address)
    }
}
