//! The decisions of a server, independent of connections and files: the same code in the
//! serving process and in a simulation.

use super::connection::{Connection, Role};
use super::host::{Channel, Host, RankKey};
use super::options::{Limits, ServerError};
use super::ring_name::RingName;
use super::served_ring::{self, OldRing, ServedRing};
use crate::logbook::{Logbook, Refusal, StoreError};
use crate::ring::RingRemains;
use crate::{Level, LoggerId};
use refrain_logging::determinant::batch::BATCH_BYTES_MAX;
use refrain_ring::{Incarnation, Rank};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Limit of bytes that wait to be sent; above it no more pieces of an answer are made.
pub(super) const PIECES_UNSENT_MAX: usize = 64 << 10;

/// Settings of a service.
#[derive(Clone, Copy, Debug)]
pub struct ServiceOptions {
    /// The logger's number.
    pub logger: LoggerId,
    /// The level that it acknowledges. EL-1
    pub level: Level,
    /// Number of the other replicas of its shard.
    pub peers: usize,
    /// Its limits.
    pub limits: Limits,
}

/// The state of a rank besides its log.
#[derive(Debug, Default)]
pub(super) struct RankState {
    /// The connection that writes for the rank, or is joining for it.
    pub(super) holder: Option<u64>,
    /// That connection's ring.
    pub(super) ring: Option<ServedRing>,
    pub(super) old: Vec<OldRing>,
}

/// See the [module](self). The owner passes it connections and their messages, and calls
/// its [turns](Service::turn).
#[derive(Debug)]
pub struct Service<H: Host> {
    pub(super) options: ServiceOptions,
    pub(super) host: H,
    pub(super) logbook: Logbook,
    pub(super) connections: BTreeMap<u64, Connection<H>>,
    next_id: u64,
    /// Buffer for a batch from a ring.
    batch: Box<[u8; BATCH_BYTES_MAX]>,
    pub(super) ranks: BTreeMap<RankKey, RankState>,
    /// Connections whose hello is being handled.
    pub(super) joining: Vec<u64>,
    /// Connections that may have sent more while they were not read.
    pub(super) ready: Vec<u64>,
    /// Rings of an earlier server that are not yet taken over, because the disk was full.
    pub(super) left_rings: VecDeque<RingName>,
    /// Ranks of which some old rings have ended.
    pub(super) sweeping: BTreeSet<RankKey>,
    /// The last error of the store.
    pub(super) trouble: Option<String>,
}

impl<H: Host> Service<H> {
    /// Takes the batches in the rings of an earlier server, and stores them. EL-3
    /// Connections are numbered from `first_id` on.
    ///
    /// # Errors
    /// When rings or files cannot be read or written.
    pub fn open(
        options: ServiceOptions,
        logbook: Logbook,
        host: H,
        first_id: u64,
    ) -> Result<Self, ServerError> {
        let mut service = Self {
            options,
            host,
            logbook,
            connections: BTreeMap::new(),
            next_id: first_id,
            batch: Box::new([0; BATCH_BYTES_MAX]),
            ranks: BTreeMap::new(),
            joining: Vec::new(),
            ready: Vec::new(),
            left_rings: VecDeque::new(),
            sweeping: BTreeSet::new(),
            trouble: None,
        };
        service.find_rings()?;
        service.take_over_rings()?;
        Ok(service)
    }

    fn find_rings(&mut self) -> Result<(), ServerError> {
        for holding in self.logbook.holdings() {
            let key = (holding.job, Rank(holding.rank));
            self.ranks.entry(key).or_default();
        }
        let found = self.host.find_rings();
        let found = found.map_err(|error| ServerError::System {
            attempted: "looking for rings in the folder",
            error,
        })?;
        self.left_rings.extend(found);
        Ok(())
    }

    /// Takes the batches in the rings of an earlier server and stores them, one ring at a
    /// time: all rings together may hold more than the store holds unwritten. On
    /// a full disk the remaining rings wait; until they are taken over, no client is served.
    fn take_over_rings(&mut self) -> Result<(), StoreError> {
        while let Some(name) = self.left_rings.front().copied() {
            if let Err(error) = self.take_over(name) {
                return self.bear(error);
            }
            self.left_rings.pop_front();
        }
        Ok(())
    }

    /// Takes over one ring. May be repeated if the batches could not be stored.
    fn take_over(&mut self, name: RingName) -> Result<(), StoreError> {
        let (memory, identity) = match self.host.open_ring(name) {
            Ok(opened) => opened,
            Err(error) => {
                self.host.set_aside(name, &error);
                return Ok(());
            }
        };
        if identity.logger != self.options.logger {
            let reason = format!("it is of event logger {}", identity.logger.0);
            self.host.set_aside(name, &reason);
            return Ok(());
        }
        let old = OldRing::new(RingRemains::new(memory, identity));
        let hello = self.logbook.hello(name.job, name.rank, name.incarnation);
        let taken = hello.and_then(|_| old.salvage(&mut self.logbook));
        match taken {
            Ok(0) => {}
            Ok(batches) => {
                let told = format!("{batches} batches were taken from {name}");
                self.host.report(&told);
            }
            // FENCE-1: the ring was emptied before its rank's next life was welcomed.
            Err(Refusal::Stale { .. }) => {
                self.host.remove_ring(name);
                return Ok(());
            }
            Err(Refusal::Store { reason }) => {
                return Err(StoreError::Io {
                    attempted: "taking over the rings of an earlier server".into(),
                    error: std::io::Error::other(reason),
                });
            }
            Err(refusal) => {
                // Batches taken before the refusal are stored first. EL-3
                self.logbook.settle()?;
                self.host.set_aside(name, &refusal);
                return Ok(());
            }
        }
        self.logbook.settle()?;
        let rank = self.ranks.entry((name.job, name.rank)).or_default();
        rank.old.push(old);
        Ok(())
    }

    /// Its logbook.
    pub fn logbook(&self) -> &Logbook {
        &self.logbook
    }

    /// The host.
    pub fn host(&mut self) -> &mut H {
        &mut self.host
    }

    /// Adds a connection; returns its number, or `None` if the host cannot listen to it.
    pub fn connect(&mut self, channel: H::Channel) -> Option<u64> {
        let id = self.next_id;
        self.next_id += 1;
        let mut connection = Connection::new(channel);
        let connections_max = self.options.limits.connections;
        if self.connections.len() >= connections_max {
            connection.refuse(format!(
                "{connections_max} connections are open already: start more event loggers"
            ));
        }
        if !self.host.begin_listening(&mut connection.channel, id) {
            return None;
        }
        self.connections.insert(id, connection);
        self.ready.push(id);
        Some(id)
    }

    /// The channel of a connection, for the owner to read; `None`: it may not be read
    /// now, or has ended.
    pub fn listen(&mut self, id: u64) -> Option<&mut H::Channel> {
        let connection = self.connections.get_mut(&id)?;
        connection.is_heard().then_some(&mut connection.channel)
    }

    /// Whether the connection exists.
    pub fn has_connection(&self, id: u64) -> bool {
        self.connections.contains_key(&id)
    }

    /// Does what can be done without waiting; returns whether anything moved.
    ///
    /// # Errors
    /// When its files do not work any more.
    pub fn turn(&mut self) -> Result<bool, StoreError> {
        self.host.progress();
        let mut moved = self.drain();
        moved |= self.progress()?;
        if !self.left_rings.is_empty() {
            self.take_over_rings()?;
            // Does not read from clients meanwhile: their messages wait in their sockets.
            self.send();
            return Ok(self.left_rings.is_empty());
        }
        moved |= self.sweep();
        moved |= self.join();
        self.acknowledge();
        for id in core::mem::take(&mut self.ready) {
            self.take_messages(id);
        }
        moved |= self.give_answers();
        // Writes what came in since: a write must be under way before the server sleeps,
        // because only its completion wakes the server.
        moved |= self.progress()?;
        self.send();
        // Connections that became ready by that have their turn at once, if there is room.
        let is_more = !self.ready.is_empty() && served_ring::has_room(&self.logbook);
        Ok(moved || is_more || self.has_answers_to_give())
    }

    /// Whether more of an answer can be sent now. If all pieces so far have just been
    /// sent, no event wakes the server for the rest.
    fn has_answers_to_give(&self) -> bool {
        self.connections.values().any(|connection| {
            let answer = connection.answer.as_ref();
            connection.channel.unsent_bytes() < PIECES_UNSENT_MAX
                && answer.is_some_and(|answer| self.logbook.has_stored(answer.ready))
        })
    }

    /// Takes the batches in the rings.
    pub(super) fn drain(&mut self) -> bool {
        let mut moved = false;
        let mut broken = Vec::new();
        for rank in self.ranks.values_mut() {
            let (Some(ring), Some(holder)) = (&mut rank.ring, rank.holder) else {
                continue;
            };
            let last = match ring.drain(&mut self.logbook, &mut self.batch) {
                Ok(last) => last,
                Err(refusal) => {
                    broken.push((holder, refusal.to_string()));
                    continue;
                }
            };
            moved |= last.is_some();
            if let Some(last) = last
                && let Some(connection) = self.connections.get_mut(&holder)
                && let Role::Writer(writer) = &mut connection.role
            {
                writer.drained_to(last);
            }
        }
        // Refusals must be sent before the server sleeps.
        moved |= !broken.is_empty();
        for (holder, reason) in broken {
            self.cut_off(holder, reason);
        }
        moved
    }

    /// Lets the logbook continue.
    fn progress(&mut self) -> Result<bool, StoreError> {
        match self.logbook.progress() {
            Ok(moved) => {
                if self.trouble.is_some() && self.logbook.is_settled() {
                    self.trouble = None;
                    self.host.report("the disk has room again");
                }
                Ok(moved)
            }
            Err(error) => self.bear(error).map(|()| false),
        }
    }

    /// Handles an error of the store: a temporary one is reported once.
    fn bear(&mut self, error: StoreError) -> Result<(), StoreError> {
        if !error.is_temporary() {
            return Err(error);
        }
        let text = error.to_string();
        if self.trouble.as_ref() != Some(&text) {
            self.host.report(&text);
            self.trouble = Some(text);
        }
        Ok(())
    }

    /// Removes rings into which no client writes any more, once their batches are stored.
    fn sweep(&mut self) -> bool {
        let mut moved = false;
        for key in core::mem::take(&mut self.sweeping) {
            let Some(rank) = self.ranks.get_mut(&key) else {
                continue;
            };
            let (logbook, host) = (&mut self.logbook, &mut self.host);
            let before = rank.old.len();
            rank.old.retain_mut(|old| match old.sweep(logbook) {
                Ok(false) => true,
                Ok(true) => {
                    // If the ring stays, the next server finds only known batches in it.
                    host.remove_ring(old.name());
                    false
                }
                Err(refusal) => {
                    host.set_aside(old.name(), &refusal);
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

    /// Sends writers acknowledgements. EL-1, GATE-3
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
            // Sends first, which makes room; errors appear again in [`Service::send`].
            let channel = &mut connection.channel;
            if connection.answer.is_none() || !channel.send(unread_bytes) {
                continue;
            }
            while connection.channel.unsent_bytes() < PIECES_UNSENT_MAX
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

    /// Sends what waits, and sets the connections to read.
    pub(super) fn send(&mut self) {
        let unread_bytes = self.options.limits.unread_bytes;
        let has_room = served_ring::has_room(&self.logbook) && self.left_rings.is_empty();
        let mut over = Vec::new();
        for (&id, connection) in &mut self.connections {
            let is_sent = connection.channel.send(unread_bytes);
            if !is_sent || connection.is_over() {
                over.push((id, is_sent));
                continue;
            }
            let listens = has_room && connection.is_heard();
            if !self
                .host
                .set_listening(&mut connection.channel, id, listens)
            {
                over.push((id, false));
            }
        }
        for (id, is_sent) in over {
            if !is_sent {
                self.host
                    .report("a client that does not read its answers is cut off");
            }
            self.drop_connection(id, false);
        }
    }

    /// Sets whether clients must wake the server after a write.
    pub(super) fn set_sleeps(&mut self, sleeps: bool) {
        for rank in self.ranks.values_mut() {
            if let Some(ring) = &mut rank.ring {
                ring.set_sleeps(sleeps);
            }
        }
    }

    /// Refuses a connection, which then closes. The batches that it placed stay.
    pub(super) fn cut_off(&mut self, id: u64, reason: String) {
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

    /// Releases the rank of a connection; its ring stays until the client returns.
    pub(super) fn release_rank(&mut self, id: u64, key: RankKey) {
        let Some(rank) = self.ranks.get_mut(&key) else {
            return;
        };
        if rank.holder != Some(id) {
            return;
        }
        rank.holder = None;
        if let Some(ring) = rank.ring.take() {
            // The client also holds the bell: closing it here would not remove it from epoll.
            self.host.release_ring(key);
            rank.old.push(ring.close());
        }
    }

    pub(super) fn refuse(&mut self, id: u64, reason: String) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.refuse(reason);
        }
    }

    /// Removes a connection. `is_gone`: its client is gone, or has left, and no longer
    /// writes into its ring.
    pub fn drop_connection(&mut self, id: u64, is_gone: bool) {
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

    /// Takes the last batches from the rings, and stores everything. Rings of connected
    /// clients stay: the clients may place more until they notice.
    ///
    /// # Errors
    /// When its files do not work any more.
    pub fn end(&mut self) -> Result<(), StoreError> {
        for (id, key) in self.writers() {
            self.release_rank(id, key);
        }
        for rank in self.ranks.values_mut() {
            for old in &mut rank.old {
                // A batch that is refused now is refused and reported at the next start.
                let _ = old.salvage(&mut self.logbook);
            }
        }
        self.logbook.settle()?;
        self.sweep();
        self.acknowledge();
        self.send();
        Ok(())
    }

    fn writers(&self) -> Vec<(u64, RankKey)> {
        let connections = self.connections.iter();
        connections
            .filter_map(|(&id, connection)| Some((id, connection.rank()?)))
            .collect()
    }
}

impl<H: Host> Connection<H> {
    /// The rank for which the connection writes or joins.
    pub(super) fn rank(&self) -> Option<RankKey> {
        match &self.role {
            Role::Visitor => None,
            Role::Joining(joining) => Some((joining.hello.job, joining.hello.rank)),
            Role::Writer(writer) => Some((writer.job, writer.rank)),
        }
    }

    /// The incarnation of that rank.
    pub(super) fn incarnation(&self) -> Option<Incarnation> {
        match &self.role {
            Role::Visitor => None,
            Role::Joining(joining) => Some(joining.hello.incarnation),
            Role::Writer(writer) => Some(writer.incarnation),
        }
    }
}
