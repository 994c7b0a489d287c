//! From a hello to the welcome.
//!
//! 1. Whoever else writes for the rank is cut off; what it placed is taken out
//!    of its ring, stored, and the ring removed. A batch that lay in the ring by
//!    then may have been acknowledged as placed: it must not be lost (EL-3). One
//!    that comes later lies in a file without a name, where nobody looks
//!    (FENCE-1).
//! 2. The logbook fences all earlier lives, and stores that.
//! 3. What the client cannot send again and this logger lacks is fetched from
//!    the other replicas, and stored.
//! 4. Welcome.

use super::connection::Role;
use super::host::{AllAsked, Channel, Fetch, Fetched, Host, MadeRing, Wanted};
use super::served_ring::{Place, ServedRing, has_room};
use super::service::{RankKey, Service};
use super::writer::Writer;

use crate::logbook::{Logbook, Refusal, Standing, Ticket};
use crate::message::{Hello, PROTOCOL_VERSION, RemoteRing, ToClient, Way, Welcome};
use crate::ring::RingIdentity;
use core::ops::ControlFlow;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Rank};

/// Reasons that one refusal names.
const FAILURES_TOLD_MAX: usize = 8;

/// A hello that is being seen to.
#[derive(Debug)]
pub(super) struct Joining<H: Host> {
    pub(super) hello: Hello,
    stage: Stage<H>,
}

#[derive(Debug)]
enum Stage<H: Host> {
    /// Old rings are stored and removed.
    Draining,
    /// The fence is stored.
    Fencing(Standing),
    /// Other replicas are asked.
    Fetching(Fetching<H::Fetch>),
    /// What they said is stored.
    Adopting(Ticket),
}

#[derive(Debug)]
struct Fetching<F> {
    fetch: F,
    /// Replicas that gave all that they have.
    whole: usize,
    /// So many have to.
    needed: usize,
    /// What the others said.
    failures: Vec<String>,
}

/// What comes of a step.
enum Step<H: Host> {
    /// Not yet.
    Wait,
    /// To the next stage.
    Next(Stage<H>),
    /// Welcome, with the row up to there.
    Welcome(Place),
    /// No, and why.
    Refuse(String),
}

impl<H: Host> Joining<H> {
    pub(super) fn new(hello: Hello) -> Self {
        Self {
            hello,
            stage: Stage::Draining,
        }
    }

    fn key(&self) -> RankKey {
        (self.hello.job, self.hello.rank())
    }
}

impl<H: Host> Service<H> {
    /// Begins with a hello.
    pub(super) fn hello(&mut self, id: u64, hello: Hello) {
        if let Err(reason) = self.check_hello(id, &hello) {
            return self.refuse(id, reason);
        }
        let key = (hello.job, hello.rank());
        let incarnation = hello.incarnation();
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
            connection.role = Role::Joining(Box::new(Joining::new(hello)));
            self.joining.push(id);
        }
    }

    fn check_hello(&self, id: u64, hello: &Hello) -> Result<(), String> {
        if hello.version != PROTOCOL_VERSION {
            return Err(format!(
                "this event logger speaks version {PROTOCOL_VERSION}, the client {}: use programs \
                 of one build",
                hello.version
            ));
        }
        let is_local = self.connections.get(&id).map(|c| c.channel.is_local());
        match hello.way {
            Way::SharedMemory if is_local != Some(true) => {
                return Err("shared memory needs a Unix socket: connect to that".into());
            }
            Way::Libfabric if !self.host.is_remote_offered() => {
                return Err(
                    "this event logger offers no libfabric: commit by shared memory or messages"
                        .into(),
                );
            }
            Way::SharedMemory | Way::Messages | Way::Libfabric => {}
        }
        let key = (hello.job, hello.rank());
        let Some(rank) = self.ranks.get(&key) else {
            let ranks_max = self.options.limits.ranks;
            if self.ranks.len() >= ranks_max {
                return Err(format!(
                    "this event logger serves {ranks_max} ranks already: start more of them"
                ));
            }
            return Ok(());
        };
        // FENCE-1: of what the logbook does not know yet.
        let holder = rank
            .holder
            .and_then(|holder| self.connections.get(&holder)?.incarnation());
        let old = rank.old.iter().map(|old| old.identity().incarnation);
        match old.chain(holder).max() {
            Some(latest) if latest > hello.incarnation() => Err(Refusal::Stale {
                rank: hello.rank,
                said: hello.incarnation,
                latest: latest.0,
            }
            .to_string()),
            _ => Ok(()),
        }
    }

    /// Goes on with every hello; says whether anything moved.
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
            match self.step(&mut joining) {
                Step::Wait => self.put_back(id, joining),
                Step::Next(stage) => {
                    joining.stage = stage;
                    self.put_back(id, joining);
                    is_any_moved = true;
                }
                Step::Welcome(end) => {
                    is_any_moved = true;
                    if let Err(reason) = self.welcome(id, &joining.hello, end) {
                        self.release_rank(id, joining.key());
                        self.refuse(id, reason);
                    }
                }
                Step::Refuse(reason) => {
                    is_any_moved = true;
                    let told = format!("rank {}: {reason}", joining.hello.rank);
                    self.host.report(&told);
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
            Stage::Fetching(fetching) => take_in::<H>(&mut self.logbook, fetching, &joining.hello),
            Stage::Adopting(ticket) if self.logbook.has_stored(*ticket) => {
                match hello_again(&mut self.logbook, &joining.hello) {
                    Ok(standing) => Step::Welcome(self.common_end(&joining.hello, &standing)),
                    Err(refusal) => Step::Refuse(refusal.to_string()),
                }
            }
            Stage::Fencing(_) | Stage::Adopting(_) => Step::Wait,
        }
    }

    fn fence(&mut self, hello: &Hello) -> Step<H> {
        match hello_again(&mut self.logbook, hello) {
            Ok(standing) => Step::Next(Stage::Fencing(standing)),
            Err(refusal) if refusal.is_temporary() => Step::Wait,
            Err(refusal) => Step::Refuse(refusal.to_string()),
        }
    }

    /// Decides whether other replicas are to be asked. EL-3
    fn see_what_lacks(&mut self, hello: &Hello, standing: &Standing) -> Step<H> {
        let lacks = hello.first_kept() > standing.end;
        // What a dead life wrote last here may be what no quorum ever had.
        let is_doubtful = hello.first_kept() > standing.last_life_start
            && !self.is_of_this_life(hello, standing)
            && self.options.peers > 0;
        if !lacks && !is_doubtful {
            return Step::Welcome(self.common_end(hello, standing));
        }
        if self.options.peers == 0 {
            return Step::Refuse(lost(hello, standing, "there are no other replicas"));
        }
        let wanted = Wanted {
            job: hello.job,
            rank: hello.rank(),
            from: standing.last_life_start,
        };
        // Of the replicas that have it, a quorum, so many must be among those
        // that answer that one of them is.
        let needed = match hello.incarnation {
            0 => 1,
            _ => (self.options.peers / 2).max(1),
        };
        match self.host.fetch(wanted) {
            Ok(fetch) => Step::Next(Stage::Fetching(Fetching {
                fetch,
                whole: 0,
                needed,
                failures: Vec::new(),
            })),
            Err(reason) => Step::Refuse(reason),
        }
    }

    fn is_of_this_life(&self, hello: &Hello, standing: &Standing) -> bool {
        let last = last_batch(&self.logbook, hello, standing.end);
        last.is_none_or(|batch| batch.incarnation == hello.incarnation())
    }

    /// Up to where the row is the client's: what a dead life wrote beyond what
    /// this one knows of is none of its.
    fn common_end(&self, hello: &Hello, standing: &Standing) -> Place {
        let end = hello.first_kept();
        if end >= standing.end || self.is_of_this_life(hello, standing) {
            return (standing.end, standing.last_clock);
        }
        let clock = match last_batch(&self.logbook, hello, end) {
            Some(batch) if batch.end() == end => batch.last_clock,
            Some(batch) => batch.first_clock,
            None => Clock(0),
        };
        (end, clock)
    }

    fn welcome(&mut self, id: u64, hello: &Hello, end: Place) -> Result<(), String> {
        let (job, rank, incarnation) = (hello.job, hello.rank(), hello.incarnation());
        let (handle, remote) = match hello.way {
            Way::SharedMemory | Way::Libfabric => self.make_ring(id, hello, end)?,
            Way::Messages => (None, None),
        };
        let welcome = ToClient::Welcome(Welcome {
            version: PROTOCOL_VERSION,
            logger: self.options.logger,
            end: end.0.0,
            last_clock: end.1.0,
            remote,
        });
        let Some(connection) = self.connections.get_mut(&id) else {
            return Ok(());
        };
        connection.role = Role::Writer(Writer::new(job, rank, incarnation, hello.way, end));
        connection.say_with(&welcome, handle);
        self.ready.push(id);
        Ok(())
    }

    fn make_ring(
        &mut self,
        id: u64,
        hello: &Hello,
        end: Place,
    ) -> Result<(Option<H::Handle>, Option<RemoteRing>), String> {
        let identity = RingIdentity {
            job: hello.job,
            rank: hello.rank(),
            incarnation: hello.incarnation(),
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
    logbook.hello(hello.job, hello.rank(), hello.incarnation())
}

/// The batch that the determinant before `end` is in.
fn last_batch(logbook: &Logbook, hello: &Hello, end: EventIndex) -> Option<BatchHeader> {
    let last = EventIndex(end.0.checked_sub(1)?);
    let mut found = None;
    let mut each = |batch: &[u8]| {
        found = BatchHeader::peek(batch).ok();
        ControlFlow::Break(())
    };
    let read = logbook.read(hello.job, hello.rank(), last, None, &mut each);
    read.ok().and(found)
}

/// Adopts what has come. Asks on while what was acknowledged is not here.
fn take_in<H: Host>(
    logbook: &mut Logbook,
    fetching: &mut Fetching<H::Fetch>,
    hello: &Hello,
) -> Step<H> {
    while has_room(logbook) {
        let said = match fetching.fetch.next() {
            Ok(None) => return Step::Wait,
            Ok(Some(said)) => said,
            Err(AllAsked) => return Step::Refuse(fetching.failed(logbook, hello)),
        };
        match said {
            Fetched::Batches(batches) => {
                if let Err(refusal) = adopt(logbook, hello, &batches) {
                    fetching.failed_with(refusal.to_string());
                }
            }
            Fetched::Begins { first, clock } => {
                let skipped = logbook.skip(hello.job, hello.rank(), first, clock);
                if let Err(refusal) = skipped {
                    fetching.failed_with(refusal.to_string());
                }
            }
            Fetched::Failed(reason) => fetching.failed_with(reason),
            Fetched::Whole => {
                fetching.whole += 1;
                let is_all = hello_again(logbook, hello)
                    .is_ok_and(|standing| standing.end >= hello.first_kept());
                if fetching.whole >= fetching.needed && is_all {
                    return Step::Next(Stage::Adopting(logbook.ticket()));
                }
            }
        }
    }
    Step::Wait
}

fn adopt(logbook: &mut Logbook, hello: &Hello, mut batches: &[u8]) -> Result<(), Refusal> {
    while !batches.is_empty() {
        let (header, _) = BatchHeader::read(batches)?;
        check_rank(&header, hello.rank())?;
        let (batch, rest) = batches.split_at(header.batch_bytes());
        logbook.adopt(hello.job, batch)?;
        batches = rest;
    }
    Ok(())
}

fn check_rank(header: &BatchHeader, rank: Rank) -> Result<(), Refusal> {
    match header.rank == rank {
        true => Ok(()),
        false => Err(Refusal::UnknownRank {
            job: header.job_tag.into(),
            rank: header.rank.0,
        }),
    }
}

impl<F> Fetching<F> {
    fn failed_with(&mut self, reason: String) {
        // For people: not more than they read.
        if self.failures.len() < FAILURES_TOLD_MAX && !self.failures.contains(&reason) {
            self.failures.push(reason);
        }
    }

    fn failed(&self, logbook: &mut Logbook, hello: &Hello) -> String {
        let why = match self.failures.is_empty() {
            true => "the other replicas have it neither".into(),
            false => self.failures.join("; "),
        };
        match hello_again(logbook, hello) {
            Ok(standing) if standing.end < hello.first_kept() => lost(hello, &standing, &why),
            Ok(_) => format!(
                "{} of the other replicas have to confirm what is here of rank {}, {} did: {why}",
                self.needed, hello.rank, self.whole
            ),
            Err(refusal) => refusal.to_string(),
        }
    }
}

fn lost(hello: &Hello, standing: &Standing, why: &str) -> String {
    format!(
        "determinants {} to {} of rank {} of job {:016x} were acknowledged and are not here: {why}",
        standing.end, hello.first_kept, hello.rank, hello.job
    )
}
