//! Handling of clients' messages.

use super::connection::{Connection, Role};
use super::host::{Channel, Host};
use super::reading::Answer;
use super::served_ring::has_room;
use super::service::{PIECES_UNSENT_MAX, Service};
use super::writer::Writer;

use crate::logbook::{Logbook, Refusal, Verdict};
use crate::message::{CommitPath, ToClient, ToLogger};
use crate::store::read::Question;
use crate::store::walk::GroupPosition;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Rank};
use std::collections::BTreeMap;

impl<H: Host> Service<H> {
    /// Handles the messages of a connection.
    pub fn take_messages(&mut self, id: u64) {
        while let Some(connection) = self.connections.get_mut(&id)
            && connection.is_heard()
        {
            // The answer may depend on rings that are not yet taken over.
            if !has_room(&self.logbook) || !self.left_rings.is_empty() {
                self.ready.push(id);
                return;
            }
            match connection.channel.next_message() {
                Ok(None) => return,
                Ok(Some(message)) => {
                    if let Err(reason) = self.obey(id, message) {
                        return self.cut_off(id, reason);
                    }
                    // Small requests may have large answers: a client that does not read them
                    // is disconnected before many have accumulated.
                    let connection = self.connections.get(&id);
                    let unsent = connection.map_or(0, |it| it.channel.unsent_bytes());
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
            ToLogger::Hello(hello) => {
                let connection = self.connections.get(&id);
                if !connection.is_some_and(|it| matches!(it.role, Role::Visitor)) {
                    return Err("a second Hello: a connection serves one rank".into());
                }
                self.hello(id, hello);
                Ok(())
            }
            ToLogger::Commit { batch } => {
                let writer = writer(&mut self.connections, id)?;
                commit(&mut self.logbook, writer, &batch).map_err(|refusal| refusal.to_string())
            }
            // Each turn begins with a drain.
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
                if let Some(connection) = self.connections.get_mut(&id) {
                    connection.answer = Some(Answer {
                        question: Question {
                            job,
                            rank: Rank(rank),
                            from: EventIndex(from),
                            after_clock: after_clock.map(Clock),
                        },
                        position: GroupPosition::default(),
                        ready: self.logbook.ticket(),
                    });
                }
                Ok(())
            }
            ToLogger::List => {
                self.drain_all();
                let ranks = self.logbook.holdings();
                self.say(id, &ToClient::Ranks { ranks });
                Ok(())
            }
            ToLogger::RankLog { job, rank } => {
                self.drain_all();
                let log = self.logbook.row(job, Rank(rank)).cloned();
                self.say(id, &ToClient::RankLog(log.unwrap_or_default()));
                Ok(())
            }
            ToLogger::Leave => {
                self.drain_all();
                writer(&mut self.connections, id)?.leave();
                Ok(())
            }
        }
    }

    fn say(&mut self, id: u64, message: &ToClient) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.say(message);
        }
    }

    /// Takes all batches that lie in the rings now.
    fn drain_all(&mut self) {
        while has_room(&self.logbook) && self.drain() {}
    }
}

fn writer<H: Host>(
    connections: &mut BTreeMap<u64, Connection<H>>,
    id: u64,
) -> Result<&mut Writer, String> {
    match connections
        .get_mut(&id)
        .map(|connection| &mut connection.role)
    {
        Some(Role::Writer(writer)) if !writer.has_left() => Ok(writer),
        Some(Role::Writer(_)) => Err("this client has left".into()),
        _ => Err("only a writer may send this: send Hello first".into()),
    }
}

/// Takes a batch that came as a message.
fn commit(logbook: &mut Logbook, writer: &mut Writer, batch: &[u8]) -> Result<(), Refusal> {
    let (header, _) = BatchHeader::read(batch)?;
    // The acceptor does not know the sender of a batch.
    if header.rank != writer.rank || batch.len() != header.batch_bytes() {
        return Err(Refusal::UnknownRank {
            job: writer.job,
            rank: header.rank.0,
        });
    }
    if header.incarnation != writer.incarnation || writer.way != CommitPath::Messages {
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
