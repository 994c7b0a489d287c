//! What clients say, and what is done about it.

use super::connection::{Connection, Received, Role};
use super::reading::Answer;
use super::served_ring::has_room;
use super::writer::Writer;
use super::{PIECES_UNSENT_MAX, Server};
use crate::logbook::{Logbook, Refusal, Verdict};
use crate::message::{ToClient, ToLogger, Way};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Rank};
use std::io::ErrorKind;

impl Server {
    /// Takes in those who knock.
    pub(super) fn accept(&mut self, index: usize) {
        while let Some(listener) = self.listeners.get(index) {
            match listener.accept() {
                Ok(stream) => {
                    let id = self.next_id;
                    self.next_id += 1;
                    let mut connection = Connection::new(stream);
                    let connections_max = self.options.limits.connections;
                    if self.connections.len() >= connections_max {
                        connection.refuse(format!(
                            "{connections_max} connections are open already: start more event \
                             loggers"
                        ));
                    }
                    if self.waits.add_connection(&connection.stream, id).is_ok() {
                        self.connections.insert(id, connection);
                        self.ready.push(id);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if is_of_connection(&error) => {
                    (self.report)(&format!("a connection was refused: {error}"));
                }
                Err(error) => {
                    (self.report)(&format!("no connection can be taken in now: {error}"));
                    self.set_accepts(false);
                    return;
                }
            }
        }
    }

    /// Listens to new connections, or does not for a while.
    pub(super) fn set_accepts(&mut self, accepts: bool) {
        if self.accepts == accepts {
            return;
        }
        self.accepts = accepts;
        for (index, listener) in self.listeners.iter().enumerate() {
            let _ = match accepts {
                true => self.waits.add_listener(listener, index),
                false => self.waits.remove(listener),
            };
        }
    }

    /// Reads from a connection.
    pub(super) fn receive(&mut self, id: u64, readable: bool, hung_up: bool) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if readable && connection.is_listened_to() {
            match connection.receive() {
                Received::Some => self.take_messages(id),
                Received::Nothing => {}
                Received::End => self.drop_connection(id, true),
            }
        } else if hung_up {
            self.drop_connection(id, true);
        }
    }

    /// Does what a connection has said.
    pub(super) fn take_messages(&mut self, id: u64) {
        while let Some(connection) = self.connections.get_mut(&id)
            && connection.is_listened_to()
        {
            if !has_room(&self.logbook) {
                self.ready.push(id);
                return;
            }
            match connection.next_message() {
                Ok(None) => return,
                Ok(Some(message)) => {
                    if let Err(reason) = self.obey(id, message) {
                        return self.cut_off(id, reason);
                    }
                    // Small questions may have large answers: who does not take
                    // them is cut off before they are many.
                    let unsent = self
                        .connections
                        .get(&id)
                        .map_or(0, Connection::unsent_bytes);
                    if unsent >= PIECES_UNSENT_MAX {
                        self.send();
                    }
                }
                Err(error) => return self.cut_off(id, error.to_string()),
            }
        }
    }

    fn obey(&mut self, id: u64, message: ToLogger) -> Result<(), String> {
        match message {
            ToLogger::Hello(hello) => self.obey_hello(id, hello),
            ToLogger::Commit { batch } => {
                let writer = writer(&mut self.connections, id)?;
                commit(&mut self.logbook, writer, &batch).map_err(|refusal| refusal.to_string())
            }
            // Each turn begins with that.
            ToLogger::Drain => writer(&mut self.connections, id).map(|_| ()),
            ToLogger::Trim { clock } => {
                let writer = writer(&mut self.connections, id)?;
                self.logbook.trim(writer.job, writer.rank, Clock(clock));
                Ok(())
            }
            ToLogger::Read {
                job,
                rank,
                from,
                after_clock,
            } => {
                self.drain_all();
                let answer = Answer {
                    job,
                    rank: Rank(rank),
                    next: EventIndex(from),
                    after_clock: after_clock.map(Clock),
                    ready: self.logbook.ticket(),
                };
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.answer = Some(answer);
                }
                Ok(())
            }
            ToLogger::List => {
                self.drain_all();
                let ranks = self.logbook.holdings();
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.say(&ToClient::Ranks { ranks });
                }
                Ok(())
            }
            ToLogger::Leave => {
                self.drain_all();
                writer(&mut self.connections, id)?.leave();
                Ok(())
            }
        }
    }

    fn obey_hello(&mut self, id: u64, hello: crate::message::Hello) -> Result<(), String> {
        let connection = self.connections.get(&id);
        if !connection.is_some_and(|connection| matches!(connection.role, Role::Visitor)) {
            return Err("a second hello: one connection is for one rank".into());
        }
        self.hello(id, hello);
        Ok(())
    }

    /// Takes all that lies in the rings now.
    fn drain_all(&mut self) {
        while has_room(&self.logbook) && self.drain() {}
    }
}

fn is_of_connection(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::PermissionDenied
            | ErrorKind::Interrupted
    )
}

fn writer(
    connections: &mut std::collections::HashMap<u64, Connection>,
    id: u64,
) -> Result<&mut Writer, String> {
    match connections
        .get_mut(&id)
        .map(|connection| &mut connection.role)
    {
        Some(Role::Writer(writer)) if !writer.has_left() => Ok(writer),
        Some(Role::Writer(_)) => Err("this client has left".into()),
        _ => Err("only for a writer: say hello first".into()),
    }
}

/// Takes a batch that came as a message.
fn commit(logbook: &mut Logbook, writer: &mut Writer, batch: &[u8]) -> Result<(), Refusal> {
    let (header, _) = BatchHeader::read(batch)?;
    // What the acceptor does not know: who sent it.
    if header.rank != writer.rank || batch.len() != header.batch_bytes() {
        return Err(Refusal::UnknownRank {
            job: writer.job,
            rank: header.rank.0,
        });
    }
    if header.incarnation != writer.incarnation || writer.way != Way::Messages {
        return Err(Refusal::UnknownIncarnation {
            rank: header.rank.0,
            said: header.incarnation.0,
            latest: writer.incarnation.0,
        });
    }
    match logbook.accept(writer.job, batch)? {
        Verdict::Taken => writer.took(&header),
        Verdict::Known => writer.repeated(&header),
    }
    Ok(())
}
