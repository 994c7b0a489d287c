//! A thread for each conversation.

use super::Desk;
use super::session::{Answer, Session};
use crate::buffer::Strip;
use crate::error::CheckpointError;
use crate::format::STRIP_BYTES;
use crate::framing::{self, Incoming};
use crate::message::{FoundHere, Refusal, ToClient};
use crate::socket::Stream;
use crate::store::Found;
use refrain_wire::{Door, Guest, Notices, STRANGER_WAIT};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

/// One that goes on.
struct Talk {
    /// To end it by.
    stream: Stream,
    thread: Option<JoinHandle<()>>,
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
                    let mut words = Vec::new();
                    let refusal = ToClient::Refused(Refusal::Busy(why.clone()));
                    framing::say(&mut words, &refusal)?;
                    door.refuse(guest, &words, &why, now);
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
    fn begin(self: &Arc<Self>, number: u64, guest: Guest) -> Result<(), Box<(Guest, String)>> {
        let limit = self.conversations_max;
        // Held until it is entered, or it might be over before.
        let mut talks = self.talks();
        if talks.len() >= limit {
            let why = format!("{limit} conversations are open already");
            return Err(Box::new((guest, why)));
        }
        let stream = match Stream::to_shut_down(&guest) {
            Ok(stream) => stream,
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
                    talk.stream.shut_down(Shutdown::Both);
                }
            });
        match thread {
            Ok(thread) => {
                let thread = Some(thread);
                talks.insert(number, Talk { stream, thread });
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

    fn meet(&self, guest: Guest) {
        let talked = Stream::new(guest).and_then(|mut stream| self.talk(&mut stream));
        if let Err(error) = talked {
            self.note(format!("a conversation has ended: {error}"));
        }
    }

    fn end_all(&self) {
        let threads: Vec<_> = self
            .talks()
            .values_mut()
            .filter_map(|talk| {
                talk.stream.shut_down(Shutdown::Both);
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
    fn talk(&self, stream: &mut Stream) -> io::Result<()> {
        let mut session = Session::new(self.desk.clone());
        let mut strip = Strip::new();
        // A client says its first word at once.
        stream.set_patience(Some(STRANGER_WAIT))?;
        let mut is_first = true;
        loop {
            let incoming = framing::receive(stream, &mut strip);
            if core::mem::take(&mut is_first) {
                let silent = |error: &io::Error| error.kind() == ErrorKind::WouldBlock;
                if incoming.as_ref().is_err_and(silent) {
                    let waited = STRANGER_WAIT.as_secs();
                    let error = format!("the client said nothing for {waited} s");
                    return Err(io::Error::new(ErrorKind::TimedOut, error));
                }
                stream.set_patience(None)?;
            }
            let answer = match incoming? {
                Incoming::End => return Ok(()),
                Incoming::Message(message) => session.message(message),
                Incoming::Strip(bytes) => session.strip(&mut strip, bytes),
            };
            match answer {
                Answer::Nothing => {}
                Answer::Send(found) => return send(stream, *found),
                Answer::Say(ToClient::Refused(why)) => {
                    // What it holds goes now.
                    drop(session);
                    return self.refuse(stream, why);
                }
                Answer::Say(message) => framing::say(stream, &message)?,
            }
        }
    }

    /// Says no, and takes in what is still sent: a client that is writing would
    /// not hear it otherwise.
    fn refuse(&self, stream: &mut Stream, why: Refusal) -> io::Result<()> {
        if let Refusal::System { .. } | Refusal::Other(_) = &why {
            let error: CheckpointError = why.clone().into_error("here");
            self.note(error.to_string());
        }
        framing::say(stream, &ToClient::Refused(why))?;
        stream.shut_down(Shutdown::Write);
        let mut sink = vec![0; STRIP_BYTES];
        while stream.read(&mut sink)? > 0 {}
        Ok(())
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

/// Says what was found, and sends it.
fn send(stream: &mut Stream, mut found: Found) -> io::Result<()> {
    let said = FoundHere::new(
        &found.header,
        found.bytes,
        &found.sections,
        found.passed_over,
    );
    framing::say(stream, &ToClient::Found(Box::new(said)))?;
    let mut strip = vec![0; STRIP_BYTES];
    loop {
        match found.source.next_strip(&mut strip) {
            Ok(0) => return Ok(()),
            Ok(bytes) => framing::send_strip(stream, &strip[..bytes])?,
            Err(error) => {
                let why = Refusal::from(error);
                return framing::say(stream, &ToClient::Refused(why));
            }
        }
    }
}
