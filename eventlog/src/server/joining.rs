//! Handles a hello, up to the welcome.
//!
//! 1. Another writer of the rank is disconnected. The batches that it placed are taken out of
//!    its ring and stored, and the ring is removed. A batch that lay in the ring by then may
//!    have been acknowledged as placed, and must not be lost (EL-3). A later one lies in a
//!    file without a name, which is not read (FENCE-1).
//! 2. The logbook fences all earlier lives, and stores that.
//! 3. A later life that does not say where it begins only asks: it is welcomed, and may
//!    not commit.
//! 4. If the log is not what the life begins with, or lacks determinants that the client cannot
//!    send again, it is changed to follow the log of another replica. If no replica can supply
//!    it, the hello is refused, and the client tries again.
//! 5. The log admits the life ([`RankLog::admit`](crate::acceptor::RankLog::admit)),
//!    and that is stored. Then the client is welcomed.

use super::connection::Role;
use super::host::{AllAsked, Channel, Fetch, Host, MadeRing, RankKey, Wanted};
use super::inquiry::{CatchUp, RankLogStore};
use super::served_ring::{Place, ServedRing, has_room};
use super::service::Service;
use super::writer::Writer;

use crate::acceptor::{Beginning, RankLog};
use crate::logbook::{Logbook, Refusal, Standing, Ticket};
use crate::message::{CommitPath, Hello, RemoteRing, ToClient, Welcome};
use crate::ring::RingIdentity;
use refrain_ring::Rank;

/// A hello that is being handled.
#[derive(Debug)]
pub(super) struct Joining<H: Host> {
    pub(super) hello: Hello,
    stage: Stage<H>,
}

#[derive(Debug)]
enum Stage<H: Host> {
    /// Old rings are being stored and removed.
    Draining,
    /// The fence is being stored.
    Fencing(Standing),
    /// Other replicas are being asked.
    Fetching(H::Fetch, CatchUp),
    /// The log is what the life begins with.
    Admitting(Beginning),
    /// Copied batches and the admission are being stored.
    Storing(Ticket),
}

/// The outcome of a step.
enum Step<H: Host> {
    /// Stay in this stage.
    Wait,
    /// Go to the next stage.
    Next(Stage<H>),
    /// Welcome the client, with this end of the log.
    Welcome(Place),
    /// Welcome the client for requests only.
    Answer(Place),
    /// Refuse the client for this reason.
    Refuse(String),
}

impl<H: Host> Joining<H> {
    fn key(&self) -> RankKey {
        (self.hello.job, self.hello.rank)
    }
}

impl<H: Host> Service<H> {
    /// Begins to handle a hello.
    pub(super) fn hello(&mut self, id: u64, hello: Hello) {
        if let Err(reason) = self.check_hello(id, &hello) {
            return self.refuse(id, reason);
        }
        let key = (hello.job, hello.rank);
        let incarnation = hello.incarnation;
        if let Some(holder) = self.ranks.get(&key).and_then(|rank| rank.holder) {
            let reason = format!(
                "rank {} has joined again, as incarnation {}, over another connection",
                hello.rank, hello.incarnation
            );
            self.cut_off(holder, reason);
        }
        let rank = self.ranks.entry(key).or_default();
        rank.holder = Some(id);
        for old in &mut rank.old {
            if old.identity().incarnation <= incarnation {
                old.end();
                self.sweeping.insert(key);
            }
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            let stage = Stage::Draining;
            connection.role = Role::Joining(Box::new(Joining { hello, stage }));
            self.joining.push(id);
        }
    }

    fn check_hello(&self, id: u64, hello: &Hello) -> Result<(), String> {
        let is_local = self.connections.get(&id).map(|c| c.channel.is_local());
        match hello.way {
            CommitPath::SharedMemory if is_local != Some(true) => {
                return Err("shared memory needs a Unix socket: connect to that".into());
            }
            CommitPath::Libfabric if !self.host.is_remote_offered() => {
                return Err(
                    "this event logger offers no libfabric: commit by shared memory or messages"
                        .into(),
                );
            }
            CommitPath::SharedMemory | CommitPath::Messages | CommitPath::Libfabric => {}
        }
        let key = (hello.job, hello.rank);
        let Some(rank) = self.ranks.get(&key) else {
            let ranks_max = self.options.limits.ranks;
            if self.ranks.len() >= ranks_max {
                return Err(format!(
                    "this event logger serves {ranks_max} ranks already: start more of them"
                ));
            }
            return Ok(());
        };
        // FENCE-1: includes a life that the logbook does not know yet.
        let holder = rank
            .holder
            .and_then(|holder| self.connections.get(&holder)?.incarnation());
        let old = rank.old.iter().map(|old| old.identity().incarnation);
        match old.chain(holder).max() {
            Some(latest) if latest > hello.incarnation => Err(Refusal::Stale {
                rank: hello.rank.0,
                said: hello.incarnation.0,
                latest: latest.0,
            }
            .to_string()),
            _ => Ok(()),
        }
    }

    /// Advances every hello; returns whether anything moved.
    pub(super) fn join(&mut self) -> bool {
        let mut is_any_moved = false;
        for id in core::mem::take(&mut self.joining) {
            let Some(connection) = self.connections.get_mut(&id) else {
                continue;
            };
            let Role::Joining(mut joining) =
                core::mem::replace(&mut connection.role, Role::Visitor)
            else {
                continue;
            };
            let step = self.step(&mut joining);
            is_any_moved |= !matches!(step, Step::Wait);
            match step {
                Step::Wait => self.put_back(id, joining),
                Step::Next(stage) => {
                    joining.stage = stage;
                    self.put_back(id, joining);
                }
                Step::Welcome(end) => {
                    if let Err(reason) = self.welcome(id, &joining.hello, end) {
                        self.release_rank(id, joining.key());
                        self.refuse(id, reason);
                    }
                }
                Step::Answer(end) => {
                    self.release_rank(id, joining.key());
                    self.say_welcome(id, end, None, None);
                    self.ready.push(id);
                }
                Step::Refuse(reason) => {
                    let rank = joining.hello.rank;
                    self.host.report(&format!("rank {rank}: {reason}"));
                    self.release_rank(id, joining.key());
                    self.refuse(id, reason);
                }
            }
        }
        is_any_moved
    }

    fn put_back(&mut self, id: u64, joining: Box<Joining<H>>) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.role = Role::Joining(joining);
            self.joining.push(id);
        }
    }

    fn step(&mut self, joining: &mut Joining<H>) -> Step<H> {
        let key = joining.key();
        match &mut joining.stage {
            Stage::Draining => {
                let rank = self.ranks.get(&key);
                if rank.is_some_and(|rank| rank.old.iter().any(|old| old.has_ended())) {
                    return Step::Wait;
                }
                self.fence(&joining.hello)
            }
            Stage::Fencing(standing) if self.logbook.has_stored(standing.ticket) => {
                let standing = *standing;
                self.see_what_lacks(&joining.hello, &standing)
            }
            Stage::Fetching(fetch, catch_up) => {
                take_in::<H>(&mut self.logbook, fetch, catch_up, &joining.hello)
            }
            Stage::Admitting(life) => {
                let life = *life;
                self.admit(&joining.hello, &life)
            }
            Stage::Storing(ticket) if self.logbook.has_stored(*ticket) => {
                match hello_again(&mut self.logbook, &joining.hello) {
                    Ok(standing) => Step::Welcome((standing.end, standing.last_clock)),
                    Err(refusal) => Step::Refuse(refusal.to_string()),
                }
            }
            Stage::Fencing(_) | Stage::Storing(_) => Step::Wait,
        }
    }

    fn fence(&mut self, hello: &Hello) -> Step<H> {
        match hello_again(&mut self.logbook, hello) {
            Ok(standing) => Step::Next(Stage::Fencing(standing)),
            Err(refusal) if refusal.is_temporary() => Step::Wait,
            Err(refusal) => Step::Refuse(refusal.to_string()),
        }
    }

    /// Decides whether other replicas must be asked. EL-3
    fn see_what_lacks(&mut self, hello: &Hello, standing: &Standing) -> Step<H> {
        let Some(life) = hello.beginning() else {
            return Step::Answer((standing.end, standing.last_clock));
        };
        let (job, rank) = (hello.job, hello.rank);
        let wanted = Wanted {
            job,
            rank,
            life,
            row: self.logbook.row(job, rank).cloned().unwrap_or_default(),
        };
        let Some(catch_up) = CatchUp::begin(&wanted) else {
            return Step::Next(Stage::Admitting(life));
        };
        if self.options.peers == 0 {
            return Step::Refuse(lost(hello, standing, "there are no other replicas"));
        }
        match self.host.fetch(wanted) {
            Ok(fetch) => Step::Next(Stage::Fetching(fetch, catch_up)),
            Err(reason) => Step::Refuse(reason),
        }
    }

    /// Admits the life: stores that it has begun, and cuts what an earlier one wrote beyond its
    /// beginning.
    fn admit(&mut self, hello: &Hello, life: &Beginning) -> Step<H> {
        match self.logbook.admit(hello.job, hello.rank, life) {
            Ok(()) => Step::Next(Stage::Storing(self.logbook.ticket())),
            Err(refusal) if refusal.is_temporary() => Step::Wait,
            Err(refusal) => Step::Refuse(refusal.to_string()),
        }
    }

    fn welcome(&mut self, id: u64, hello: &Hello, end: Place) -> Result<(), String> {
        let (handle, remote) = match hello.way {
            CommitPath::SharedMemory | CommitPath::Libfabric => self.make_ring(id, hello, end)?,
            CommitPath::Messages => (None, None),
        };
        self.say_welcome(id, end, remote, handle);
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.role = Role::Writer(Writer::new(hello, end));
            self.ready.push(id);
        }
        Ok(())
    }

    fn say_welcome(
        &mut self,
        id: u64,
        end: Place,
        remote: Option<RemoteRing>,
        handle: Option<H::Handle>,
    ) {
        let welcome = ToClient::Welcome(Welcome {
            logger: self.options.logger,
            end: end.0,
            last_clock: end.1,
            level: self.options.level,
            remote,
        });
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.say_with(&welcome, handle);
        }
    }

    fn make_ring(
        &mut self,
        id: u64,
        hello: &Hello,
        end: Place,
    ) -> Result<(Option<H::Handle>, Option<RemoteRing>), String> {
        let identity = RingIdentity {
            job: hello.job,
            rank: hello.rank,
            incarnation: hello.incarnation,
            logger: self.options.logger,
            start: end.0,
        };
        let made = self.host.make_ring(id, &identity, hello.way);
        let MadeRing {
            memory,
            handle,
            remote,
        } = made.inspect_err(|reason| {
            self.host.report(&format!("rank {}: {reason}", hello.rank));
        })?;
        let ring = ServedRing::new(memory, identity, remote.is_some(), end);
        let key = (identity.job, identity.rank);
        self.ranks.entry(key).or_default().ring = Some(ring);
        Ok((handle, remote))
    }
}

fn hello_again(logbook: &mut Logbook, hello: &Hello) -> Result<Standing, Refusal> {
    logbook.hello(hello.job, hello.rank, hello.incarnation)
}

/// The log of one rank in the logbook.
struct OwnRankLog<'a> {
    logbook: &'a mut Logbook,
    key: RankKey,
}

impl RankLogStore for OwnRankLog<'_> {
    fn row(&self) -> RankLog {
        let row = self.logbook.row(self.key.0, self.key.1);
        row.cloned().unwrap_or_default()
    }

    fn follow(&mut self, rank: Rank, source: &RankLog, life: &Beginning) -> Result<(), Refusal> {
        self.logbook.follow(self.key.0, rank, source, life)
    }

    fn adopt(&mut self, batch: &[u8]) -> Result<(), Refusal> {
        self.logbook.adopt(self.key.0, batch).map(|_| ())
    }
}

/// Handles the results that have come, until the log is what the life begins with.
fn take_in<H: Host>(
    logbook: &mut Logbook,
    fetch: &mut H::Fetch,
    catch_up: &mut CatchUp,
    hello: &Hello,
) -> Step<H> {
    while has_room(logbook) {
        let given = match fetch.next() {
            Ok(None) => return Step::Wait,
            Ok(Some(given)) => given,
            Err(AllAsked) => return Step::Refuse(failed(logbook, catch_up, hello)),
        };
        let key = (hello.job, hello.rank);
        if catch_up.take(&mut OwnRankLog { logbook, key }, given) {
            return Step::Next(Stage::Admitting(*catch_up.life()));
        }
    }
    Step::Wait
}

fn failed(logbook: &mut Logbook, catch_up: &CatchUp, hello: &Hello) -> String {
    let why = catch_up.failures();
    match hello_again(logbook, hello) {
        Ok(standing) if standing.end < hello.first_kept => lost(hello, &standing, &why),
        Ok(_) => format!(
            "the log of rank {} here differs from the one that incarnation {} continues at {}: {why}",
            hello.rank,
            hello.incarnation,
            catch_up.life().start
        ),
        Err(refusal) => refusal.to_string(),
    }
}

fn lost(hello: &Hello, standing: &Standing, why: &str) -> String {
    format!(
        "determinants {} to {} of rank {} of job {:016x} were acknowledged, but this logger does not have them: {why}",
        standing.end, hello.first_kept, hello.rank, hello.job
    )
}
