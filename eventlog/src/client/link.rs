//! One replica as a client sees it: not there, joining, or joined by one of the
//! ways to commit.

use super::committer::{Acknowledgement, Committer};
use super::connection::ConnectionError;
use super::network::{Network, Wire};
use super::remote_ring::RemoteRing;
use super::survey::Survey;
use super::{ClientOptions, ServerAddress};
use crate::Level;
use crate::message::{Begins, Hello, PROTOCOL_VERSION, ToClient, ToLogger, Way, Welcome};
use crate::remote::RemoteError;
use crate::ring::{Placement, RingIdentity, RingWriter};
use core::time::Duration;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};

/// Waits before joining again: the first, doubled each time, at most the last.
const RETRY_MIN: Duration = Duration::from_millis(1);
const RETRY_MAX: Duration = Duration::from_millis(250);
/// How often a socket is looked at on which nothing is awaited.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Why a logger does not count.
const TOO_LOW: &str =
    "it acknowledges what is placed, and durable was asked for: start it with --level durable";

/// How batches get there.
#[derive(Debug)]
enum Path<N: Network> {
    /// By stores into its ring.
    Ring(RingWriter),
    /// By RMA writes into its ring.
    Remote(Box<RemoteRing<N::Port>>),
    /// As messages.
    Messages,
}

#[derive(Debug)]
enum Phase<N: Network> {
    /// Not connected; to be tried again at this time.
    Away { retry_at: Option<Duration> },
    /// The hello is on its way, or the answer.
    Joining(N::Wire),
    /// It is asked what it has of the lives before; then nothing is said until
    /// it is known where this life begins.
    Surveyed(N::Wire, Survey),
    Joined {
        connection: N::Wire,
        path: Path<N>,
        leaving: Leaving,
    },
    /// It has stored everything and was left.
    Left,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    Said,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Link<N: Network> {
    pub address: ServerAddress,
    way: Way,
    phase: Phase<N>,
    retry_wait: Duration,
    /// What it had when it was joined; a logger that has confirmed nothing behind
    /// that is asked more and more seldom.
    had: Option<EventIndex>,
    looked_at: Duration,
    /// Its hello was that of a survey.
    is_surveying: bool,
    /// Why it was lost, or what is wrong with it.
    pub trouble: Option<String>,
    /// It will not have this client, or cannot be believed.
    pub is_refused: bool,
}

/// What a link needs to know to do its work.
pub(super) struct Surroundings<'a, N> {
    pub network: &'a mut N,
    pub options: &'a ClientOptions,
    pub committer: &'a mut Committer,
    pub trimmed: Option<Clock>,
    pub is_leaving: bool,
}

impl<N> Surroundings<'_, N> {
    /// Before a later life begins, the replicas are asked what they have of
    /// those before.
    fn is_to_survey(&self) -> bool {
        self.options.incarnation != Incarnation(0) && self.committer.start().is_none()
    }
}

impl<N: Network> Link<N> {
    pub fn new(address: ServerAddress, way: Way) -> Self {
        Self {
            address,
            way,
            phase: Phase::Away { retry_at: None },
            retry_wait: RETRY_MIN,
            had: None,
            looked_at: Duration::ZERO,
            is_surveying: false,
            trouble: None,
            is_refused: false,
        }
    }

    /// The ring, when batches are placed there by stores.
    #[inline]
    pub fn placing_ring(&mut self) -> Option<&mut RingWriter> {
        match &mut self.phase {
            Phase::Joined {
                path: Path::Ring(ring),
                ..
            } => Some(ring),
            _ => None,
        }
    }

    /// Whether it was joined and its port is still to be connected.
    pub fn is_connecting(&self) -> bool {
        match &self.phase {
            Phase::Joined {
                path: Path::Remote(ring),
                ..
            } => !ring.is_connected(),
            _ => false,
        }
    }

    /// The clock that is told from now on has another beginning.
    pub fn forget_time(&mut self) {
        self.looked_at = Duration::ZERO;
        if let Phase::Away { retry_at } = &mut self.phase {
            *retry_at = None;
        }
    }

    pub fn connection(&self) -> Option<&N::Wire> {
        match &self.phase {
            Phase::Joining(connection)
            | Phase::Surveyed(connection, _)
            | Phase::Joined { connection, .. } => Some(connection),
            Phase::Away { .. } | Phase::Left => None,
        }
    }

    pub fn is_joined(&self) -> bool {
        matches!(self.phase, Phase::Joined { .. })
    }

    /// One round: joins, sends, takes in; never blocks.
    pub fn advance(&mut self, index: usize, with: &mut Surroundings<'_, N>, now: Duration) {
        if self.connection().is_some() && with.committer.is_lost(index) {
            self.drop_connection(now);
        }
        match &self.phase {
            Phase::Left => return,
            Phase::Away { retry_at } if retry_at.is_none_or(|at| now >= at) => {
                self.begin_joining(index, with, now);
            }
            Phase::Away { .. } => return,
            Phase::Joining(_) | Phase::Surveyed(..) | Phase::Joined { .. } => {}
        }
        let result = self.work(index, with, now);
        if let Err(trouble) = result {
            self.lose(index, with.committer, now, trouble);
        }
    }

    fn begin_joining(&mut self, index: usize, with: &mut Surroundings<'_, N>, now: Duration) {
        if let Err(trouble) = self.say_hello(index, with) {
            self.lose(index, with.committer, now, trouble);
        }
    }

    fn say_hello(&mut self, index: usize, with: &mut Surroundings<'_, N>) -> Result<(), Trouble> {
        let mut connection = with.network.begin(&self.address)?;
        let options = with.options;
        self.is_surveying = with.is_to_survey();
        let first_kept = with.committer.joins(index).0;
        let begins = with.committer.beginning().map(|life| Begins {
            start: life.start.0,
            clock_before: life.clock_before.0,
            follows: life.follows.0,
        });
        connection.say(&ToLogger::Hello(Hello {
            version: PROTOCOL_VERSION,
            job: options.job,
            rank: options.rank.0,
            incarnation: options.incarnation.0,
            first_kept,
            begins,
            way: match self.is_surveying {
                true => Way::Messages,
                false => self.way,
            },
        }))?;
        self.phase = Phase::Joining(connection);
        Ok(())
    }

    /// Gives it up until it is tried again.
    pub fn lose(
        &mut self,
        index: usize,
        committer: &mut Committer,
        now: Duration,
        trouble: Trouble,
    ) {
        let had = self.had.take();
        if had.is_some_and(|had| committer.confirmed(index) > had) {
            self.retry_wait = RETRY_MIN;
        }
        committer.lose(index);
        self.is_refused = trouble.is_refusal;
        self.trouble = Some(trouble.reason);
        let retry_at = Some(now + self.retry_wait);
        self.phase = Phase::Away { retry_at };
        self.retry_wait = (self.retry_wait * 2).min(RETRY_MAX);
    }

    /// The core gave it up: it has less than this life began with, or is too
    /// slow; it is to catch up with the others.
    fn drop_connection(&mut self, now: Duration) {
        self.trouble = Some("it has to catch up with the others".to_owned());
        self.phase = Phase::Away {
            retry_at: Some(now + self.retry_wait),
        };
    }

    fn work(
        &mut self,
        index: usize,
        with: &mut Surroundings<'_, N>,
        now: Duration,
    ) -> Result<(), Trouble> {
        if let Phase::Joining(_) = &self.phase {
            self.await_welcome(index, with)?;
        }
        if let Phase::Surveyed(connection, survey) = &mut self.phase {
            return survey.advance(index, connection, with);
        }
        if !self.is_joined() || with.committer.is_lost(index) {
            return Ok(());
        }
        self.send_batches(index, with)?;
        if self.is_time_to_look(index, with, now) {
            self.hear(index, with)?;
        }
        self.say_leave(index, with)
    }

    fn await_welcome(
        &mut self,
        index: usize,
        with: &mut Surroundings<'_, N>,
    ) -> Result<(), Trouble> {
        let Phase::Joining(connection) = &mut self.phase else {
            return Ok(());
        };
        connection.flush()?;
        let welcome = match connection.hear()? {
            None => return Ok(()),
            Some(ToClient::Welcome(welcome)) => welcome,
            Some(other) => return Err(unexpected(other)),
        };
        if welcome.version != PROTOCOL_VERSION {
            return Err(Trouble::refusal(format!(
                "it speaks version {} of the messages, this program {PROTOCOL_VERSION}",
                welcome.version
            )));
        }
        // What it has counts as confirmed from now on. EL-1
        if welcome.level < with.options.level {
            return Err(Trouble::refusal(TOO_LOW.to_owned()));
        }
        self.join(index, with, &welcome)
    }

    fn join(
        &mut self,
        index: usize,
        with: &mut Surroundings<'_, N>,
        welcome: &Welcome,
    ) -> Result<(), Trouble> {
        let gone = Phase::Away { retry_at: None };
        let Phase::Joining(mut connection) = core::mem::replace(&mut self.phase, gone) else {
            return Ok(());
        };
        if with.is_to_survey() {
            let survey = {
                let whose = (with.options.job, with.options.rank);
                Survey::begin(&mut connection, welcome.logger, whose)?
            };
            self.phase = Phase::Surveyed(connection, survey);
            return Ok(());
        }
        if self.is_surveying {
            // Asked while it was not known where this life begins.
            with.committer.lose(index);
            return Ok(());
        }
        let path = open_path(self.way, &mut connection, with, welcome)?;
        with.committer
            .welcomed(index, welcome.logger, welcome.end(), welcome.last_clock())
            .map_err(|fault| Trouble::refusal(fault.to_string()))?;
        if let Some(clock) = with.trimmed {
            connection.say(&ToLogger::Trim { clock: clock.0 })?;
        }
        self.phase = Phase::Joined {
            connection,
            path,
            leaving: Leaving::No,
        };
        self.had = Some(welcome.end());
        self.trouble = None;
        self.is_refused = false;
        Ok(())
    }

    /// Sends what this replica lacks, as far as there is room.
    pub fn send_batches(
        &mut self,
        index: usize,
        with: &mut Surroundings<'_, N>,
    ) -> Result<(), Trouble> {
        let Phase::Joined {
            connection, path, ..
        } = &mut self.phase
        else {
            return Ok(());
        };
        match path {
            Path::Ring(ring) => place_batches(ring, index, with),
            Path::Remote(ring) => write_batches(ring, index, with),
            Path::Messages => {
                connection.flush()?;
                while connection.has_room() {
                    let Some(batch) = with.committer.next_for(index) else {
                        break;
                    };
                    let batch = batch.to_vec();
                    connection.say(&ToLogger::Commit { batch })?;
                    with.committer.sent(index);
                }
                Ok(())
            }
        }
    }

    /// Sockets are looked at when an answer may be there, else rarely.
    fn is_time_to_look(&mut self, index: usize, with: &Surroundings<'_, N>, now: Duration) -> bool {
        let is_awaited = match &self.phase {
            Phase::Joined {
                path: Path::Messages,
                ..
            } => with.committer.confirmed(index) < with.committer.end(),
            Phase::Joined {
                path: Path::Remote(ring),
                leaving,
                ..
            } => {
                let waits_for_disk = with.options.level == Level::Durable
                    && with.committer.confirmed(index) < with.committer.end();
                ring.is_full() || waits_for_disk || *leaving == Leaving::Said
            }
            Phase::Joined { leaving, .. } => *leaving == Leaving::Said,
            _ => false,
        };
        if is_awaited || now.saturating_sub(self.looked_at) >= LOOK_EVERY {
            self.looked_at = now;
            return true;
        }
        false
    }

    /// Takes in what the logger says, and whether it lives.
    pub fn hear(&mut self, index: usize, with: &mut Surroundings<'_, N>) -> Result<(), Trouble> {
        loop {
            let Phase::Joined {
                connection,
                leaving,
                path,
            } = &mut self.phase
            else {
                return Ok(());
            };
            match connection.hear()? {
                None => return Ok(()),
                Some(ToClient::Stable {
                    logger,
                    rank,
                    incarnation,
                    clock,
                    end,
                    level,
                }) => {
                    let said_leave = *leaving == Leaving::Said;
                    let ack = Acknowledgement {
                        logger,
                        rank: Rank(rank),
                        incarnation: Incarnation(incarnation),
                        clock: Clock(clock),
                        end: EventIndex(end),
                    };
                    self.take_ack(index, with, &ack, level)?;
                    if said_leave && ack.end >= with.committer.end() {
                        self.phase = Phase::Left;
                    }
                }
                Some(ToClient::Consumed { position }) => {
                    // Rings in shared memory are looked at.
                    if let Path::Remote(ring) = path {
                        ring.consumed(position)
                            .map_err(|error| Trouble::refusal(error.to_string()))?;
                    }
                }
                Some(other) => return Err(unexpected(other)),
            }
        }
    }

    fn take_ack(
        &mut self,
        index: usize,
        with: &mut Surroundings<'_, N>,
        ack: &Acknowledgement,
        level: Level,
    ) -> Result<(), Trouble> {
        if level < with.options.level {
            self.trouble = Some(TOO_LOW.to_owned());
            return Ok(());
        }
        with.committer
            .acknowledged(index, ack)
            .map_err(|fault| Trouble::refusal(fault.to_string()))
    }

    fn say_leave(&mut self, index: usize, with: &mut Surroundings<'_, N>) -> Result<(), Trouble> {
        let Phase::Joined {
            connection,
            path,
            leaving,
        } = &mut self.phase
        else {
            return Ok(());
        };
        if !with.is_leaving || *leaving == Leaving::Said || !with.committer.is_sent_all(index) {
            return Ok(());
        }
        if let Path::Remote(ring) = path
            && !ring.is_placed()
        {
            return Ok(());
        }
        *leaving = Leaving::Said;
        connection.say(&ToLogger::Leave)?;
        if let Path::Ring(ring) = path {
            ring.ring_bell();
        }
        Ok(())
    }

    /// Says that determinants up to this clock are not needed any more. GC-1
    pub fn say_trim(&mut self, clock: Clock) {
        if let Phase::Joined { connection, .. } = &mut self.phase {
            // If it is gone, the next look tells.
            let _ = connection.say(&ToLogger::Trim { clock: clock.0 });
        }
    }
}

fn place_batches<N: Network>(
    ring: &mut RingWriter,
    index: usize,
    with: &mut Surroundings<'_, N>,
) -> Result<(), Trouble> {
    while let Some(batch) = with.committer.next_for(index) {
        match ring.place(batch, false) {
            Placement::Placed if with.options.level == Level::Placed => {
                with.committer.placed(index);
            }
            Placement::Placed => with.committer.sent(index),
            Placement::Full if ring.was_rung() => break,
            Placement::Full => {
                ring.ring_bell();
                break;
            }
            Placement::Closed => break,
        }
    }
    if ring.wants_emptying() {
        ring.ring_bell();
    }
    if with.options.level == Level::Durable {
        let (end, clock) = ring.durable();
        with.committer
            .ring_says(index, end, clock)
            .map_err(|fault| Trouble::refusal(fault.to_string()))?;
    }
    if ring.is_closed() {
        return Err(Trouble::passing("it closed its ring".to_owned()));
    }
    Ok(())
}

/// Begins to place what there is room for, and takes in what is placed.
fn write_batches<N: Network>(
    ring: &mut RemoteRing<N::Port>,
    index: usize,
    with: &mut Surroundings<'_, N>,
) -> Result<(), Trouble> {
    // After an error nobody knows what came in: the logger does.
    let lost = |error: RemoteError| Trouble::passing(error.to_string());
    while let Some(batch) = with.committer.next_for(index) {
        if ring.write(batch).map_err(lost)?.is_err() {
            break;
        }
        with.committer.sent(index);
    }
    let placed = ring.placed().map_err(lost)?;
    let (Some((end, clock)), Some(logger)) = (placed, with.committer.logger(index)) else {
        return Ok(());
    };
    if with.options.level > Level::Placed {
        return Ok(());
    }
    let ack = Acknowledgement {
        logger,
        rank: with.options.rank,
        incarnation: with.options.incarnation,
        clock,
        end,
    };
    with.committer
        .acknowledged(index, &ack)
        .map_err(|fault| Trouble::refusal(fault.to_string()))
}

fn open_path<N: Network>(
    way: Way,
    connection: &mut N::Wire,
    with: &mut Surroundings<'_, N>,
    welcome: &Welcome,
) -> Result<Path<N>, Trouble> {
    let options = with.options;
    match way {
        Way::Messages => Ok(Path::Messages),
        Way::SharedMemory => {
            let descriptors = (connection.take_descriptor(), connection.take_descriptor());
            let (Some(ring), Some(bell)) = descriptors else {
                return Err(Trouble::refusal(
                    "no ring and no bell came with its welcome".to_owned(),
                ));
            };
            let identity = RingIdentity {
                job: options.job,
                rank: options.rank,
                incarnation: options.incarnation,
                logger: welcome.logger,
                start: welcome.end(),
            };
            RingWriter::open(ring, bell, &identity, options.level)
                .map(Path::Ring)
                .map_err(Trouble::refusal)
        }
        Way::Libfabric => {
            let Some(ring) = &welcome.remote else {
                return Err(Trouble::refusal(
                    "its welcome does not say where to write over libfabric".to_owned(),
                ));
            };
            let writer = with.network.open_writer(options, ring);
            let ring = RemoteRing::new(writer.map_err(Trouble::refusal)?);
            Ok(Path::Remote(Box::new(ring)))
        }
    }
}

pub(super) fn unexpected(message: ToClient) -> Trouble {
    match message {
        ToClient::Refused { reason } => Trouble::refusal(reason),
        other => Trouble::refusal(format!("an answer to something else: {}", name(&other))),
    }
}

fn name(message: &ToClient) -> &'static str {
    match message {
        ToClient::Welcome(_) => "a welcome",
        ToClient::Stable { .. } => "an acknowledgement",
        ToClient::Consumed { .. } => "consumed",
        ToClient::Events { .. } => "events",
        ToClient::Ranks { .. } => "ranks",
        ToClient::Row(_) => "a row",
        ToClient::Refused { .. } => "a refusal",
    }
}

/// Why a replica is lost.
#[derive(Debug)]
pub(super) struct Trouble {
    reason: String,
    /// It does not want, or is not believed; not: it is not there.
    is_refusal: bool,
}

impl Trouble {
    pub fn refusal(reason: String) -> Self {
        Self {
            reason,
            is_refusal: true,
        }
    }

    pub fn passing(reason: String) -> Self {
        Self {
            reason,
            is_refusal: false,
        }
    }
}

impl From<ConnectionError> for Trouble {
    fn from(error: ConnectionError) -> Self {
        let is_refusal = matches!(error, ConnectionError::Frame(_));
        Self {
            reason: error.to_string(),
            is_refusal,
        }
    }
}
