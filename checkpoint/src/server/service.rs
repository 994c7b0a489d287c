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
use refrain_secure::{Listener, STRANGERS_MAX, Secret};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// After an error of the system with a new conversation.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};

/// One that goes on.
struct Talk {
    /// To end it by.
    stream: Stream,
    thread: Option<JoinHandle<()>>,
    /// Has not proved yet that it knows the secret.
    is_stranger: bool,
}

/// By their numbers: those that began first are first.
type Talks = BTreeMap<u64, Talk>;

/// What serves.
pub(super) struct Service {
    desk: Arc<Desk>,
    report: Box<dyn Fn(&str) + Send + Sync>,
    /// Those that go on.
    talks: Mutex<Talks>,
}

impl Service {
    pub fn new(desk: Desk, report: Box<dyn Fn(&str) + Send + Sync>) -> Self {
        Self {
            desk: Arc::new(desk),
            report,
            talks: Mutex::default(),
        }
    }

    fn talks(&self) -> MutexGuard<'_, Talks> {
        self.talks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn serve_until(
        self: &Arc<Self>,
        listeners: &[Listener],
        stop: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let mut number = 0;
        let served = loop {
            match wait(listeners, stop) {
                Err(error) => break Err(error),
                Ok(true) => break Ok(()),
                Ok(false) => {}
            }
            for listener in listeners {
                let begun = match listener.accept().and_then(Stream::new) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                    other => other
                        .and_then(|stream| self.begin(number, stream, listener.secret().cloned())),
                };
                number += 1;
                if let Err(error) = begun {
                    (self.report)(&format!("a conversation could not begin: {error}"));
                    // Or it would be tried again at once.
                    let mut stopped = [PollFd::from_borrowed_fd(stop, PollFlags::IN)];
                    let _ = poll(&mut stopped, Some(&PAUSE));
                }
            }
        };
        self.end_all();
        served
    }

    fn begin(
        self: &Arc<Self>,
        number: u64,
        stream: Stream,
        secret: Option<Secret>,
    ) -> io::Result<()> {
        let kept = stream.try_clone()?;
        let service = self.clone();
        let is_stranger = secret.is_some();
        // Held until it is entered, or it might be over before.
        let mut talks = self.talks();
        let thread = std::thread::Builder::new()
            .name("refrain-talk".into())
            .spawn(move || {
                if let Err(error) = service.meet(number, stream, secret.as_ref()) {
                    (service.report)(&format!("a conversation has ended: {error}"));
                }
                if let Some(talk) = service.talks().remove(&number) {
                    talk.stream.shut_down(Shutdown::Both);
                }
            })?;
        let talk = Talk {
            stream: kept,
            thread: Some(thread),
            is_stranger,
        };
        talks.insert(number, talk);
        show_out(&talks);
        Ok(())
    }

    /// Talks with somebody, who has to know the secret if there is one: nothing is said
    /// and nothing is done before that is proved.
    fn meet(&self, number: u64, stream: Stream, secret: Option<&Secret>) -> io::Result<()> {
        let mut stream = match secret {
            None => stream,
            Some(secret) => stream.answer(secret)?,
        };
        if let Some(talk) = self.talks().get_mut(&number) {
            talk.is_stranger = false;
        }
        self.talk(&mut stream)
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
    }

    /// Until one side ends it.
    fn talk(&self, stream: &mut Stream) -> io::Result<()> {
        let mut session = Session::new(self.desk.clone());
        let mut strip = Strip::new();
        loop {
            let answer = match framing::receive(stream, &mut strip)? {
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
            (self.report)(&error.to_string());
        }
        framing::say(stream, &ToClient::Refused(why))?;
        stream.shut_down(Shutdown::Write);
        let mut sink = vec![0; STRIP_BYTES];
        while stream.read(&mut sink)? > 0 {}
        Ok(())
    }
}

/// Few strangers at a time: the one that has waited longest has to go.
fn show_out(talks: &Talks) {
    let strangers = || talks.values().filter(|talk| talk.is_stranger);
    if strangers().count() > STRANGERS_MAX
        && let Some(oldest) = strangers().next()
    {
        oldest.stream.shut_down(Shutdown::Both);
    }
}

/// Waits for a conversation, or for the end: which it is.
fn wait(listeners: &[Listener], stop: BorrowedFd<'_>) -> io::Result<bool> {
    let mut polled = vec![PollFd::from_borrowed_fd(stop, PollFlags::IN)];
    polled.extend(listeners.iter().map(|it| PollFd::new(it, PollFlags::IN)));
    rustix::io::retry_on_intr(|| poll(&mut polled, None))?;
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
