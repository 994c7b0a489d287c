//! A thread for each conversation.

use super::Desk;
use super::session::{Answer, Session};
use crate::error::CheckpointError;
use crate::format::STRIP_BYTES;
use crate::message::{Refusal, ToClient};
use crate::packing::empty_strip;
use crate::store::Found;
use refrain_wire::{Connection, Door, Incoming, Notices, STRANGER_WAIT, Shutdown, WireError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::shutdown;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

/// One that goes on.
struct Talk {
    /// Its socket, to end it by.
    socket: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

impl Talk {
    fn end(&self) {
        // The other side may have done so before.
        let _ = shutdown(&self.socket, Shutdown::Both);
    }
}

type Talks = BTreeMap<u64, Talk>;

/// What serves.
pub(super) struct Service {
    desk: Arc<Desk>,
    report: Box<dyn Fn(&str) + Send + Sync>,
    /// Conversations at a time, and threads.
    conversations_max: usize,
    /// Those that go on, by their numbers.
    talks: Mutex<Talks>,
    /// What went wrong in them.
    notices: Mutex<Notices>,
}

impl Service {
    pub fn new(
        desk: Desk,
        conversations_max: usize,
        report: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            desk: Arc::new(desk),
            report,
            conversations_max,
            talks: Mutex::default(),
            notices: Mutex::default(),
        }
    }

    fn talks(&self) -> MutexGuard<'_, Talks> {
        self.talks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn notices(&self) -> MutexGuard<'_, Notices> {
        self.notices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells people, one line a second at most.
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
            for guest in door.step(now) {
                number += 1;
                if let Err(refused) = self.begin(number, guest) {
                    let (guest, why) = *refused;
                    let refusal = ToClient::Refused(Refusal::Busy(why.clone()));
                    door.refuse(guest, &refusal, &why, now);
                }
            }
            if let Some(line) = door.notice(now) {
                (self.report)(&line);
            }
        };
        self.end_all();
        served
    }

    /// Begins a conversation in a thread of its own; gives the guest back with the reason
    /// when there is no room for one.
    fn begin(
        self: &Arc<Self>,
        number: u64,
        guest: Connection,
    ) -> Result<(), Box<(Connection, String)>> {
        let limit = self.conversations_max;
        // Held until it is entered, or it might be over before.
        let mut talks = self.talks();
        if talks.len() >= limit {
            let why = format!("{limit} conversations are open already");
            return Err(Box::new((guest, why)));
        }
        let socket = match guest.as_fd().try_clone_to_owned() {
            Ok(socket) => socket,
            Err(error) => {
                let why = format!("it cannot take one more: {error}");
                return Err(Box::new((guest, why)));
            }
        };
        let service = self.clone();
        let (give, given) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("refrain-talk".into())
            .spawn(move || {
                if let Ok(guest) = given.recv() {
                    service.meet(guest);
                }
                if let Some(talk) = service.talks().remove(&number) {
                    talk.end();
                }
            });
        match thread {
            Ok(thread) => {
                let thread = Some(thread);
                talks.insert(number, Talk { socket, thread });
                // It waits for this.
                let _ = give.send(guest);
                Ok(())
            }
            Err(error) => {
                let why = format!("it cannot start a thread: {error}");
                Err(Box::new((guest, why)))
            }
        }
    }

    fn meet(&self, mut guest: Connection) {
        if let Err(error) = self.talk(&mut guest) {
            self.note(format!("a conversation has ended: {error}"));
        }
    }

    fn end_all(&self) {
        let threads: Vec<_> = self
            .talks()
            .values_mut()
            .filter_map(|talk| {
                talk.end();
                talk.thread.take()
            })
            .collect();
        for thread in threads {
            // It has reported what was wrong.
            let _ = thread.join();
        }
        if let Some(line) = self.notices().rest() {
            (self.report)(&line);
        }
    }

    /// Until one side ends it.
    fn talk(&self, connection: &mut Connection) -> Result<(), WireError> {
        let mut session = Session::new(self.desk.clone());
        let mut strip = empty_strip();
        // A client says its first word at once.
        let mut until = Some(Instant::now() + STRANGER_WAIT);
        loop {
            let answer = match connection.wait_frame(strip.bytes_mut(), until) {
                Ok(Incoming::End) => return Ok(()),
                Ok(Incoming::Message(message)) => session.message(message),
                Ok(Incoming::Data(bytes)) => session.strip(&mut strip, bytes),
                Err(WireError::Timeout) => {
                    let waited = STRANGER_WAIT.as_secs();
                    let silent = format!("the client said nothing for {waited} s");
                    return Err(io::Error::other(silent).into());
                }
                // Of another version, perhaps.
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
                    // What it holds goes now.
                    drop(session);
                    return self.refuse(connection, why);
                }
                Answer::Say(message) => say(connection, &message)?,
            }
        }
    }

    /// Says no, and takes in what is still sent: a client that is writing would
    /// not hear it otherwise.
    fn refuse(&self, connection: &mut Connection, why: Refusal) -> Result<(), WireError> {
        if let Refusal::System { .. } | Refusal::Other(_) = &why {
            let error: CheckpointError = why.clone().into_error("here");
            self.note(error.to_string());
        }
        connection.say(&ToClient::Refused(why))?;
        connection.wait_end()
    }
}

/// Waits for the door, or for the end: which it is.
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

/// Says what was found, and sends it.
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
