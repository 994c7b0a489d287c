//! The process that serves: drains rings into the logbook, acknowledges, fetches
//! what it lacks, and gives out what it has.
//!
//! One thread around one wait. A turn does what can be done
//! without waiting: it takes what lies in the rings, lets the logbook go on, and
//! tells everybody what became of what they wrote. When nothing moves, the
//! server says so in the rings, looks once more, and sleeps until somebody rings
//! or speaks. There is no tick: at level `placed` over shared memory a commit is
//! done when it lies in the ring, and the server is woken when there is a
//! quarter of a ring to take.
//!
//! What clients say is believed only as far as it was checked: a writer commits
//! for the rank and life of its hello only; whoever breaks the protocol, or does
//! not read its answers, is cut off. There is no authentication: a Unix socket
//! serves processes of the same user (and root) only, a TCP port whoever reaches
//! it.

mod catch_up;
mod connection;
mod joining;
mod listener;
mod options;
mod reading;
mod remote;
mod requests;
mod ring_file;
mod served_ring;
mod start;
mod waits;
mod writer;

pub use options::{Limits, RemoteOptions, ServerError, ServerOptions};

use crate::Level;
use crate::client::LoggerAddress;
use crate::logbook::Logbook;
use connection::{Connection, Role};
use listener::Listener;
use refrain_ring::{Incarnation, Rank};
use remote::Remote;
use rustix::event::epoll::EventFlags;
use served_ring::{OldRing, ServedRing};
use std::collections::{HashMap, HashSet};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use waits::{Event, Waits};

/// How long to wait before a full disk is tried again.
const NO_ROOM_PAUSE_MS: u32 = 200;
/// How long new connections wait when there are no descriptors for them.
const NO_DESCRIPTORS_PAUSE_MS: u32 = 100;
/// Bytes that wait to be sent, above which no more pieces of an answer are made.
const PIECES_UNSENT_MAX: usize = 64 << 10;

/// How long clients are heard that speak on while the server is to end.
const LAST_EVENTS_TURNS: usize = 64;

/// Job and rank.
type RankKey = (u64, Rank);

/// What there is of a rank besides its row.
#[derive(Debug, Default)]
struct RankState {
    /// The connection that writes for it, or wants to.
    holder: Option<u64>,
    /// That connection's ring.
    ring: Option<ServedRing>,
    old: Vec<OldRing>,
}

/// An event logger's server. See the [module](self).
pub struct Server {
    options: ServerOptions,
    report: Box<dyn FnMut(&str) + Send>,
    logbook: Logbook,
    remote: Remote,
    listeners: Vec<Listener>,
    waits: Waits,
    /// Rung by threads of the server.
    wake: Arc<OwnedFd>,
    connections: HashMap<u64, Connection>,
    next_id: u64,
    ranks: HashMap<RankKey, RankState>,
    /// Connections whose hello is being seen to.
    joining: Vec<u64>,
    /// Connections that may have said more before they were listened to again.
    ready: Vec<u64>,
    /// Ranks with old rings of which some have ended.
    sweeping: HashSet<RankKey>,
    /// What the store complained about last.
    trouble: Option<String>,
    accepts: bool,
}

impl Server {
    /// The addresses that it listens on, with the ports that the system chose.
    pub fn addresses(&self) -> impl Iterator<Item = &LoggerAddress> {
        self.listeners.iter().map(Listener::address)
    }

    /// Serves until `stop` is readable; then takes what is in the rings, stores
    /// everything, and returns.
    ///
    /// # Errors
    /// When its files do not work any more. What was acknowledged is in them, or
    /// in the rings.
    pub fn serve_until(&mut self, stop: impl AsFd) -> Result<(), ServerError> {
        self.waits
            .add_stop(&stop)
            .map_err(system("waiting for the end"))?;
        let served = self.serve();
        let _ = self.waits.remove(&stop);
        served?;
        self.see_last_events()?;
        self.end()
    }

    /// Takes in what clients said, and that they are gone, before the end.
    fn see_last_events(&mut self) -> Result<(), ServerError> {
        for _ in 0..LAST_EVENTS_TURNS {
            let events = self.waits.wait(Some(0)).map_err(system("waiting"))?;
            if events.is_empty() {
                break;
            }
            for event in events {
                self.handle(event);
            }
            self.turn()?;
        }
        Ok(())
    }

    fn serve(&mut self) -> Result<(), ServerError> {
        loop {
            let moved = self.turn()?;
            let sleeps = !moved && self.logbook.is_settled();
            if sleeps {
                self.set_sleeps(true);
            }
            // Between the two a client may have placed something and not rung.
            let timeout_ms = if moved || sleeps && self.drain() {
                Some(0)
            } else {
                self.timeout_ms()
            };
            let timeout_ms = match (timeout_ms, self.remote.sleep_max_ms()) {
                (Some(ours), Some(its)) => Some(ours.min(its)),
                (ours, its) => ours.or(its),
            };
            let events = self.waits.wait(timeout_ms).map_err(system("waiting"))?;
            if sleeps {
                self.set_sleeps(false);
            }
            let mut is_over = false;
            for event in events {
                is_over |= event == Event::Stop;
                self.handle(event);
            }
            if is_over {
                return Ok(());
            }
        }
    }

    /// How long to sleep when nobody rings.
    fn timeout_ms(&mut self) -> Option<u32> {
        if !self.accepts {
            self.set_accepts(true);
            return Some(NO_DESCRIPTORS_PAUSE_MS);
        }
        let is_waiting = !self.logbook.is_settled();
        match &self.trouble {
            Some(_) if is_waiting => Some(NO_ROOM_PAUSE_MS),
            _ if is_waiting && self.logbook.descriptor().is_none() => Some(0),
            _ => None,
        }
    }

    /// Does what can be done without waiting; says whether anything moved.
    fn turn(&mut self) -> Result<bool, ServerError> {
        self.remote.progress(&self.waits, &mut self.report);
        let mut moved = self.drain();
        moved |= self.progress()?;
        moved |= self.sweep();
        moved |= self.join();
        self.acknowledge();
        for id in core::mem::take(&mut self.ready) {
            self.take_messages(id);
        }
        moved |= self.give_answers();
        // What came in since then is to be under way before the server sleeps:
        // only its end wakes it.
        moved |= self.progress()?;
        self.send();
        // What became ready by that has its turn at once, if there is room.
        let is_more = !self.ready.is_empty() && served_ring::has_room(&self.logbook);
        Ok(moved || is_more || self.has_answers_to_give())
    }

    /// Whether there is room for more of an answer: where all that was made has
    /// just been sent, nobody wakes the server for the rest.
    fn has_answers_to_give(&self) -> bool {
        self.connections.values().any(|connection| {
            let answer = connection.answer.as_ref();
            connection.unsent_bytes() < PIECES_UNSENT_MAX
                && answer.is_some_and(|answer| self.logbook.has_stored(answer.ready))
        })
    }

    /// Takes what lies in the rings.
    fn drain(&mut self) -> bool {
        let mut moved = false;
        let mut broken = Vec::new();
        for rank in self.ranks.values_mut() {
            let (Some(ring), Some(holder)) = (&mut rank.ring, rank.holder) else {
                continue;
            };
            let drained = match ring.drain(&mut self.logbook) {
                Ok(drained) => drained,
                Err(refusal) => {
                    broken.push((holder, refusal.to_string()));
                    continue;
                }
            };
            moved |= drained.batches > 0;
            if let Some(last) = drained.last
                && let Some(connection) = self.connections.get_mut(&holder)
                && let Role::Writer(writer) = &mut connection.role
            {
                writer.drained_to(last);
            }
        }
        for (holder, reason) in broken {
            self.cut_off(holder, reason);
        }
        moved
    }

    /// Lets the logbook go on.
    fn progress(&mut self) -> Result<bool, ServerError> {
        match self.logbook.progress() {
            Ok(moved) => {
                if self.trouble.is_some() && self.logbook.is_settled() {
                    self.trouble = None;
                    (self.report)("there is room again");
                }
                Ok(moved)
            }
            Err(error) if error.is_temporary() => {
                let text = error.to_string();
                if self.trouble.as_ref() != Some(&text) {
                    (self.report)(&text);
                    self.trouble = Some(text);
                }
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Removes rings in which nobody writes any more, once they are stored.
    fn sweep(&mut self) -> bool {
        let mut moved = false;
        for key in core::mem::take(&mut self.sweeping) {
            let Some(rank) = self.ranks.get_mut(&key) else {
                continue;
            };
            let (logbook, report) = (&mut self.logbook, &mut self.report);
            let before = rank.old.len();
            rank.old.retain_mut(|old| match old.sweep(logbook) {
                Ok(is_removed) => !is_removed,
                Err(refusal) => {
                    start::set_aside(old.path(), &refusal, report);
                    false
                }
            });
            moved |= rank.old.len() < before;
            if rank.old.iter().any(OldRing::has_ended) {
                self.sweeping.insert(key);
            }
        }
        moved
    }

    /// Tells writers what has become of what they wrote. EL-1, GATE-3
    fn acknowledge(&mut self) {
        let (logger, level) = (self.options.logger, self.options.level);
        for connection in self.connections.values_mut() {
            let Role::Writer(writer) = &mut connection.role else {
                continue;
            };
            let (job, rank) = (writer.job, writer.rank);
            let written = self.logbook.written(job, rank);
            let stored = match level {
                Level::Placed => written,
                Level::Durable => self.logbook.durable(job, rank),
            };
            let mut room = None;
            if let Some(state) = self.ranks.get_mut(&(job, rank))
                && let Some(ring) = &mut state.ring
            {
                room = ring.release(written.0);
                if level == Level::Durable {
                    ring.tell_durable(writer.stable(stored));
                }
            }
            let stable = writer.acknowledgement(stored, logger, level);
            for message in [room, stable].iter().flatten() {
                connection.say(message);
            }
        }
    }

    fn give_answers(&mut self) -> bool {
        let mut moved = false;
        let unread_bytes = self.options.limits.unread_bytes;
        for (&id, connection) in &mut self.connections {
            // First the room that was made; who does not read is seen to below.
            if connection.answer.is_none() || connection.send(unread_bytes).is_err() {
                continue;
            }
            while connection.unsent_bytes() < PIECES_UNSENT_MAX
                && let Some(answer) = &mut connection.answer
                && self.logbook.has_stored(answer.ready)
            {
                moved = true;
                match answer.piece(&self.logbook) {
                    Ok((piece, is_last)) => {
                        connection.say(&piece);
                        if is_last {
                            connection.answer = None;
                            self.ready.push(id);
                        }
                    }
                    Err(error) => {
                        connection.answer = None;
                        connection.refuse(error.to_string());
                    }
                }
            }
        }
        moved
    }

    /// Sends what waits, and says what to listen for.
    fn send(&mut self) {
        let unread_bytes = self.options.limits.unread_bytes;
        let has_room = served_ring::has_room(&self.logbook);
        let mut over = Vec::new();
        for (&id, connection) in &mut self.connections {
            let is_sent = connection.send(unread_bytes).is_ok();
            if !is_sent || connection.ends && connection.unsent_bytes() == 0 {
                over.push((id, is_sent));
                continue;
            }
            let mut wanted = EventFlags::empty();
            wanted.set(EventFlags::IN, has_room && connection.is_listened_to());
            wanted.set(EventFlags::OUT, connection.unsent_bytes() > 0);
            if wanted != connection.interest {
                let is_set = self.waits.set_interest(&connection.stream, id, wanted);
                connection.interest = wanted;
                if is_set.is_err() {
                    over.push((id, false));
                }
            }
        }
        for (id, is_sent) in over {
            if !is_sent {
                (self.report)("a client that does not read its answers is cut off");
            }
            self.drop_connection(id, false);
        }
    }

    fn set_sleeps(&mut self, sleeps: bool) {
        for rank in self.ranks.values_mut() {
            if let Some(ring) = &mut rank.ring {
                ring.set_sleeps(sleeps);
            }
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Stop | Event::Wake | Event::Bell => {}
            Event::Knock(index) => self.accept(index),
            Event::Connection {
                id,
                readable,
                hung_up,
            } => self.receive(id, readable, hung_up),
        }
    }

    /// Says no to a connection, which ends then. What it placed stays.
    fn cut_off(&mut self, id: u64, reason: String) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        let key = connection.rank();
        connection.role = Role::Visitor;
        connection.answer = None;
        connection.refuse(reason);
        if let Some(key) = key {
            self.release_rank(id, key);
        }
    }

    /// A connection is nobody's any more; its ring is to be left alone until the
    /// client is back.
    fn release_rank(&mut self, id: u64, key: RankKey) {
        let Some(rank) = self.ranks.get_mut(&key) else {
            return;
        };
        if rank.holder != Some(id) {
            return;
        }
        rank.holder = None;
        if let Some(ring) = rank.ring.take() {
            // The client has it too: closing it here would not take it out.
            let _ = self.waits.remove(&ring.bell);
            if let Some(key) = ring.remote {
                self.remote.revoke(&self.waits, key, &mut self.report);
            }
            rank.old.push(ring.close());
        }
    }

    fn refuse(&mut self, id: u64, reason: String) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.refuse(reason);
        }
    }

    /// A connection is over. `is_gone`: because its client is, or said so; it
    /// does not write into its ring any more.
    fn drop_connection(&mut self, id: u64, is_gone: bool) {
        let Some(connection) = self.connections.remove(&id) else {
            return;
        };
        let Some(key) = connection.rank() else {
            return;
        };
        let incarnation = connection.incarnation();
        self.release_rank(id, key);
        let Some(rank) = self.ranks.get_mut(&key).filter(|_| is_gone) else {
            return;
        };
        for old in &mut rank.old {
            if Some(old.identity().incarnation) == incarnation {
                old.end();
                self.sweeping.insert(key);
            }
        }
    }

    /// Takes the last from the rings, and stores everything. Rings of clients
    /// that are still there stay: they may place something until they notice.
    fn end(&mut self) -> Result<(), ServerError> {
        for (id, key) in self.writers() {
            self.release_rank(id, key);
        }
        for rank in self.ranks.values_mut() {
            for old in &mut rank.old {
                // What is refused now is refused, and told, at the next start.
                let _ = old.salvage(&mut self.logbook);
            }
        }
        self.logbook.settle()?;
        self.sweep();
        self.acknowledge();
        self.send();
        self.listeners.clear();
        Ok(())
    }

    fn writers(&self) -> Vec<(u64, RankKey)> {
        let connections = self.connections.iter();
        connections
            .filter_map(|(&id, connection)| Some((id, connection.rank()?)))
            .collect()
    }
}

impl Connection {
    /// The rank that it writes for, or wants to.
    fn rank(&self) -> Option<RankKey> {
        match &self.role {
            Role::Visitor => None,
            Role::Joining(joining) => Some((joining.hello.job, joining.hello.rank())),
            Role::Writer(writer) => Some((writer.job, writer.rank)),
        }
    }

    /// The life of that rank.
    fn incarnation(&self) -> Option<Incarnation> {
        match &self.role {
            Role::Visitor => None,
            Role::Joining(joining) => Some(joining.hello.incarnation()),
            Role::Writer(writer) => Some(writer.incarnation),
        }
    }
}

impl core::fmt::Debug for Server {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Server")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

fn system<E: Into<std::io::Error>>(attempted: &'static str) -> impl FnOnce(E) -> ServerError {
    move |error| ServerError::System {
        attempted,
        error: error.into(),
    }
}
