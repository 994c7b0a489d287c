//! Runs a thread for each session.

use super::jobs::Jobs;
use super::session::{Answer, Session};
use crate::error::CheckpointError;
use crate::format::STRIP_BYTES;
use crate::message::{Refusal, ToClient};
use crate::packing::empty_strip;
use crate::store::contract::Found;
use refrain_wire::{Connection, Door, Incoming, Notices, STRANGER_WAIT, Shutdown, WireError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::shutdown;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

/// A running session.
struct Running {
    /// The socket of the session, to end it.
    socket: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn end(&self) {
        // The client may have closed the session before.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

type AllRunning = BTreeMap<u64, Running>;

/// The sessions of a server.
pub(super) struct Service {
    jobs: Arc<Jobs>,
    report: Box<dyn Fn(&str) + Send + Sync>,
    /// Limit of concurrent sessions, which is also the limit of threads.
    sessions_max: usize,
    /// The running sessions, by their numbers.
    running: Mutex<AllRunning>,
    /// Reports about failed sessions.
    notices: Mutex<Notices>,
}

impl Service {
    pub fn new(jobs: Jobs, sessions_max: usize, report: Box<dyn Fn(&str) + Send + Sync>) -> Self {
        Self {
            jobs: Arc::new(jobs),
            report,
            sessions_max,
            running: Mutex::default(),
            notices: Mutex::default(),
        }
    }

    fn running(&self) -> MutexGuard<'_, AllRunning> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notices(&self) -> MutexGuard<'_, Notices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports a log line, at most once a second.
    fn note(&self, text: String) {
        let mut notices = self.notices();
        notices.note(text);
        let line = notices.take(Instant::now());
        drop(notices);
        if let Some(line) = line {
            (self.report)(&line);
        }
    }

    pub fn serve_until(self: &Arc<Self>, door: &mut Door, stop: BorrowedFd<'_>) -> io::Result<()> {
        let mut number = 0;
        let served = loop {
            match wait(door, stop) {
                Err(error) => break Err(error),
                Ok(true) => break Ok(()),
                Ok(false) => {}
            }
            let now = Instant::now();
            for connection in door.step(now) {
                number += 1;
                if let Err(refused) = self.begin(number, connection) {
                    let (connection, why) = *refused;
                    let refusal = ToClient::Refused(Refusal::Busy(why.clone()));
                    door.refuse(connection, &refusal, &why, now);
                }
            }
            if let Some(line) = door.notice(now) {
                (self.report)(&line);
            }
        };
        self.end_all();
        served
    }

    /// Begins a session in its own thread; returns the connection with the reason if there is no
    /// room for it.
    fn begin(
        self: &Arc<Self>,
        number: u64,
        connection: Connection,
    ) -> Result<(), Box<(Connection, String)>> {
        let limit = self.sessions_max;
        // Held until the session is entered; otherwise its thread could end before.
        let mut running = self.running();
        if running.len() >= limit {
            let why = format!("{limit} sessions are open already");
            return Err(Box::new((connection, why)));
        }
        let socket = match connection.as_fd().try_clone_to_owned() {
            Ok(socket) => socket,
            Err(error) => {
                let why = format!("its socket cannot be duplicated: {error}");
                return Err(Box::new((connection, why)));
            }
        };
        let service = self.clone();
        let (give, given) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("refrain-session".into())
            .spawn(move || {
                if let Ok(mut connection) = given.recv()
                    && let Err(error) = service.session(&mut connection)
                {
                    service.note(format!("a session has ended: {error}"));
                }
                if let Some(over) = service.running().remove(&number) {
                    over.end();
                }
            });
        match thread {
            Ok(thread) => {
                let thread = Some(thread);
                running.insert(number, Running { socket, thread });
                // The thread waits for the connection.
                let _ = give.send(connection);
                Ok(())
            }
            Err(error) => {
                let why = format!("it cannot start a thread: {error}");
                Err(Box::new((connection, why)))
            }
        }
    }

    fn end_all(&self) {
        let threads: Vec<_> = self
            .running()
            .values_mut()
            .filter_map(|session| {
                session.end();
                session.thread.take()
            })
            .collect();
        for thread in threads {
            // The thread has reported its errors.
            let _ = thread.join();
        }
        if let Some(line) = self.notices().rest() {
            (self.report)(&line);
        }
    }

    /// Runs a session until one side ends it.
    fn session(&self, connection: &mut Connection) -> Result<(), WireError> {
        let mut session = Session::new(self.jobs.clone());
        let mut strip = empty_strip();
        // A client must send its first message within this time.
        let mut until = Some(Instant::now() + STRANGER_WAIT);
        loop {
            let answer = match connection.wait_frame(strip.bytes_mut(), until) {
                Ok(Incoming::End) => return Ok(()),
                Ok(Incoming::Message(message)) => session.message(message),
                Ok(Incoming::Data(bytes)) => session.strip(&mut strip, bytes),
                Err(WireError::Timeout) => {
                    let waited = STRANGER_WAIT.as_secs();
                    let silent = format!("the client has sent nothing for {waited} s");
                    return Err(io::Error::other(silent).into());
                }
                // The client may be of another version.
                Err(WireError::Frame(error)) => {
                    let refusal = Refusal::Other(error.to_string());
                    Answer::Say(ToClient::Refused(refusal))
                }
                Err(error) => return Err(error),
            };
            until = None;
            match answer {
                Answer::Nothing => {}
                Answer::Send(found) => return send(connection, *found),
                Answer::Say(ToClient::Refused(why)) => {
                    // Releases the session's locks and files now.
                    drop(session);
                    return self.refuse(connection, why);
                }
                Answer::Say(message) => say(connection, &message)?,
            }
        }
    }

    /// Refuses, and reads until the client has closed; otherwise a client that is writing would
    /// lose the refusal.
    fn refuse(&self, connection: &mut Connection, why: Refusal) -> Result<(), WireError> {
        if let Refusal::System { .. } | Refusal::Other(_) = &why {
            let error: CheckpointError = why.clone().into_error("here");
            self.note(error.to_string());
        }
        connection.say(&ToClient::Refused(why))?;
        connection.wait_end()
    }
}

/// Waits for the door or for `stop`; returns whether it is `stop`.
fn wait(door: &Door, stop: BorrowedFd<'_>) -> io::Result<bool> {
    let mut polled = [
        PollFd::from_borrowed_fd(stop, PollFlags::IN),
        PollFd::new(door, PollFlags::IN),
    ];
    let left = door
        .deadline()
        .map(|at| at.saturating_duration_since(Instant::now()));
    let left = left.and_then(|left| Timespec::try_from(left).ok());
    rustix::io::retry_on_intr(|| poll(&mut polled, left.as_ref()))?;
    Ok(!polled[0].revents().is_empty())
}

fn say(connection: &mut Connection, message: &ToClient) -> Result<(), WireError> {
    connection.say(message)?;
    connection.wait_flushed(None)
}

/// Announces the checkpoint, and sends its strips.
fn send(connection: &mut Connection, mut found: Found) -> Result<(), WireError> {
    say(connection, &ToClient::Found(Box::new(found.whole)))?;
    let mut strip = vec![0; STRIP_BYTES];
    loop {
        match found.source.next_strip(&mut strip) {
            Ok(0) => return Ok(()),
            Ok(bytes) => connection.send_data(&strip[..bytes], None)?,
            Err(error) => {
                let why = Refusal::from(error);
                return say(connection, &ToClient::Refused(why));
            }
        }
    }
}
