//! One replica from the client's view: away, joining, or joined by a commit path.

use super::committer::{Acknowledgement, Committer};
use super::network::{Network, Wire};
use super::options::ClientOptions;
use super::survey::Survey;
use super::trouble::{Outcome, Trouble, unexpected};
use crate::Level;
use crate::message::{Begins, CommitPath, Hello, ToClient, ToLogger, Welcome};
use crate::remote::RemoteWriter;
use crate::ring::{Cursor, Placement, RingIdentity, RingWriter};
use core::time::Duration;
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_wire::ServerAddress;

/// First wait before joining again; each later one is doubled, up to the maximum.
const RETRY_MIN: Duration = Duration::from_millis(1);
const RETRY_MAX: Duration = Duration::from_millis(250);
/// Interval for reading a socket while no answer is expected.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// Why a logger that acknowledges only `placed` does not count.
const TOO_LOW: &str =
    "it acknowledges what is placed, but the job asks for durable: start it with --level durable";

/// The path of batches to the logger.
#[derive(Debug)]
enum Path {
    /// By stores into its ring.
    Ring(RingWriter),
    /// By RMA writes into its ring.
    Remote(Box<RemoteWriter>),
    Messages,
}

#[derive(Debug)]
enum Phase<W> {
    /// Not connected; the client tries again at this time.
    Away { retry_at: Option<Duration> },
    /// The hello or its answer is under way.
    Joining(W),
    /// The survey of the logger's log is under way. After its end the connection waits until it
    /// is known where this life begins.
    Surveyed(W, Survey),
    Joined {
        connection: W,
        path: Path,
        has_said_leave: bool,
    },
    /// The logger has stored everything, and the client has left.
    Left,
}

/// See the [module](self).
#[derive(Debug)]
pub(super) struct Link<N: Network> {
    pub address: ServerAddress,
    /// Number of the replica in the committer.
    replica: usize,
    way: CommitPath,
    phase: Phase<N::Wire>,
    retry_wait: Duration,
    /// End of the logger's determinants when it was joined. The waits before further attempts
    /// at a logger that has confirmed nothing since then grow.
    had: Option<EventIndex>,
    looked_at: Duration,
    /// Its hello was that of a survey.
    is_surveying: bool,
    /// Why the replica was lost, or does not count.
    pub trouble: Option<String>,
    /// The logger refuses this client, or its answers are wrong.
    pub is_refused: bool,
}

/// What a link uses of its client.
pub(super) struct Environment<'a, N> {
    pub network: &'a mut N,
    pub options: &'a ClientOptions,
    pub committer: &'a mut Committer,
    pub trimmed: Option<Clock>,
    pub is_leaving: bool,
}

impl<N> Environment<'_, N> {
    /// Whether replicas are to be surveyed: a later life does so before it begins.
    fn is_to_survey(&self) -> bool {
        self.options.incarnation != Incarnation(0) && self.committer.start().is_none()
    }
}

impl<N: Network> Link<N> {
    pub fn new(replica: usize, address: ServerAddress, way: CommitPath) -> Self {
        Self {
            address,
            replica,
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

    pub fn is_over_shared_memory(&self) -> bool {
        self.way == CommitPath::SharedMemory
    }

    fn path(&self) -> Option<&Path> {
        match &self.phase {
            Phase::Joined { path, .. } => Some(path),
            _ => None,
        }
    }

    pub fn is_joined(&self) -> bool {
        self.path().is_some()
    }

    /// Whether the logger is joined and its port is not yet connected.
    pub fn is_connecting(&self) -> bool {
        matches!(self.path(), Some(Path::Remote(ring)) if !ring.is_connected())
    }

    pub fn connection(&self) -> Option<&N::Wire> {
        match &self.phase {
            Phase::Joining(connection)
            | Phase::Surveyed(connection, _)
            | Phase::Joined { connection, .. } => Some(connection),
            Phase::Away { .. } | Phase::Left => None,
        }
    }

    /// One round of joining, sending and receiving; never blocks.
    pub fn advance(&mut self, with: &mut Environment<'_, N>, now: Duration) -> Outcome {
        if self.connection().is_some() && with.committer.is_lost(self.replica) {
            // The replica has less than this life began with, or is too slow.
            self.trouble = Some("it has to catch up with the others".to_owned());
            let retry_at = Some(now + self.retry_wait);
            self.phase = Phase::Away { retry_at };
        }
        if let Phase::Away { retry_at } = &self.phase
            && retry_at.is_none_or(|at| now >= at)
        {
            self.say_hello(with)?;
        }
        if let Phase::Joining(_) = &self.phase {
            self.await_welcome(with)?;
        }
        if let Phase::Surveyed(connection, survey) = &mut self.phase {
            return survey.advance(self.replica, connection, with.committer);
        }
        if !self.is_joined() || with.committer.is_lost(self.replica) {
            return Ok(());
        }
        self.send_batches(with)?;
        if self.is_time_to_look(with, now) {
            self.hear(with)?;
        }
        self.say_leave(with)
    }

    fn say_hello(&mut self, with: &mut Environment<'_, N>) -> Outcome {
        let mut connection = with.network.begin(&self.address)?;
        self.is_surveying = with.is_to_survey();
        let first_kept = with.committer.joins(self.replica);
        let begins = with.committer.beginning().map(|life| Begins {
            start: life.start,
            clock_before: life.clock_before,
            follows: life.follows,
        });
        connection.say(&ToLogger::Hello(Hello {
            job: with.options.job,
            rank: with.options.rank,
            incarnation: with.options.incarnation,
            first_kept,
            begins,
            way: match self.is_surveying {
                true => CommitPath::Messages,
                false => self.way,
            },
        }))?;
        self.phase = Phase::Joining(connection);
        Ok(())
    }

    /// Marks the replica as lost until the next attempt.
    pub fn lose(&mut self, committer: &mut Committer, now: Duration, trouble: Trouble) {
        let had = self.had.take();
        if had.is_some_and(|had| committer.confirmed(self.replica) > had) {
            self.retry_wait = RETRY_MIN;
        }
        committer.lose(self.replica);
        self.is_refused = trouble.is_refusal;
        self.trouble = Some(trouble.reason);
        let retry_at = Some(now + self.retry_wait);
        self.phase = Phase::Away { retry_at };
        self.retry_wait = (self.retry_wait * 2).min(RETRY_MAX);
    }

    fn await_welcome(&mut self, with: &mut Environment<'_, N>) -> Outcome {
        let Phase::Joining(connection) = &mut self.phase else {
            return Ok(());
        };
        connection.flush()?;
        let welcome = match connection.hear()? {
            None => return Ok(()),
            Some(ToClient::Welcome(welcome)) => welcome,
            Some(other) => return Err(unexpected(other)),
        };
        // Determinants that the logger has count as confirmed from now on. EL-1
        if welcome.level < with.options.level {
            return Err(Trouble::refusal(TOO_LOW));
        }
        self.join(with, &welcome)
    }

    fn join(&mut self, with: &mut Environment<'_, N>, welcome: &Welcome) -> Outcome {
        let gone = Phase::Away { retry_at: None };
        let Phase::Joining(mut connection) = core::mem::replace(&mut self.phase, gone) else {
            return Ok(());
        };
        if with.is_to_survey() {
            let whose = (with.options.job, with.options.rank);
            let survey = Survey::begin(&mut connection, welcome.logger, whose)?;
            self.phase = Phase::Surveyed(connection, survey);
            return Ok(());
        }
        if self.is_surveying {
            // The hello was sent before it was known where this life begins.
            with.committer.lose(self.replica);
            return Ok(());
        }
        let path = open_path(self.way, &mut connection, with, welcome)?;
        let (end, clock) = (welcome.end, welcome.last_clock);
        with.committer
            .welcomed(self.replica, welcome.logger, end, clock)?;
        if let Some(clock) = with.trimmed {
            connection.say(&ToLogger::Trim { clock: clock.0 })?;
        }
        self.phase = Phase::Joined {
            connection,
            path,
            has_said_leave: false,
        };
        self.had = Some(end);
        self.trouble = None;
        self.is_refused = false;
        Ok(())
    }

    /// Sends the batches that this replica lacks, as far as there is room.
    pub fn send_batches(&mut self, with: &mut Environment<'_, N>) -> Outcome {
        let replica = self.replica;
        let Phase::Joined {
            connection, path, ..
        } = &mut self.phase
        else {
            return Ok(());
        };
        match path {
            Path::Ring(ring) => place_batches(ring, replica, with),
            Path::Remote(ring) => write_batches(ring, replica, with),
            Path::Messages => {
                connection.flush()?;
                while connection.has_room() {
                    let Some(batch) = with.committer.next_for(replica) else {
                        break;
                    };
                    let batch = batch.to_vec();
                    connection.say(&ToLogger::Commit { batch })?;
                    with.committer.sent(replica);
                }
                Ok(())
            }
        }
    }

    /// Whether to read the socket now: at once when an answer may have come, else rarely.
    fn is_time_to_look(&mut self, with: &Environment<'_, N>, now: Duration) -> bool {
        let Phase::Joined {
            path,
            has_said_leave,
            ..
        } = &self.phase
        else {
            return false;
        };
        let waits = with.committer.confirmed(self.replica) < with.committer.end();
        let is_awaited = match path {
            Path::Messages => waits,
            Path::Remote(ring) => {
                let waits_for_disk = waits && with.options.level == Level::Durable;
                ring.is_full() || waits_for_disk || *has_said_leave
            }
            Path::Ring(_) => *has_said_leave,
        };
        let is_time = is_awaited || now.saturating_sub(self.looked_at) >= LOOK_EVERY;
        if is_time {
            self.looked_at = now;
        }
        is_time
    }

    /// Reads the logger's messages, and notices its death.
    pub fn hear(&mut self, with: &mut Environment<'_, N>) -> Outcome {
        loop {
            let Phase::Joined {
                connection,
                has_said_leave,
                path,
            } = &mut self.phase
            else {
                return Ok(());
            };
            match connection.hear()? {
                None => return Ok(()),
                Some(ToClient::Stable { level, .. }) if level < with.options.level => {
                    self.trouble = Some(TOO_LOW.to_owned());
                }
                Some(ToClient::Stable {
                    logger,
                    rank,
                    incarnation,
                    clock,
                    end,
                    ..
                }) => {
                    let ack = Acknowledgement {
                        logger,
                        rank: Rank(rank),
                        incarnation: Incarnation(incarnation),
                        clock: Clock(clock),
                        end: EventIndex(end),
                    };
                    with.committer.acknowledged(self.replica, &ack)?;
                    if *has_said_leave && ack.end >= with.committer.end() {
                        self.phase = Phase::Left;
                    }
                }
                Some(ToClient::Consumed { position }) => {
                    // Rings in shared memory show their consumed position themselves.
                    if let Path::Remote(ring) = path {
                        let consumed = ring.consumed(Cursor(position));
                        consumed.map_err(|error| Trouble::refusal(error.to_string()))?;
                    }
                }
                Some(other) => return Err(unexpected(other)),
            }
        }
    }

    fn say_leave(&mut self, with: &mut Environment<'_, N>) -> Outcome {
        let Phase::Joined {
            connection,
            path,
            has_said_leave,
        } = &mut self.phase
        else {
            return Ok(());
        };
        let is_sent = with.committer.is_sent_all(self.replica)
            && !matches!(path, Path::Remote(ring) if !ring.is_placed());
        if !with.is_leaving || *has_said_leave || !is_sent {
            return Ok(());
        }
        *has_said_leave = true;
        connection.say(&ToLogger::Leave)?;
        if let Path::Ring(ring) = path {
            ring.ring_bell();
        }
        Ok(())
    }

    /// Sends that determinants up to this clock are no longer needed. GC-1
    pub fn say_trim(&mut self, clock: Clock) {
        if let Phase::Joined { connection, .. } = &mut self.phase {
            // The next read notices a lost connection.
            let _ = connection.say(&ToLogger::Trim { clock: clock.0 });
        }
    }
}

fn place_batches<N>(
    ring: &mut RingWriter,
    replica: usize,
    with: &mut Environment<'_, N>,
) -> Outcome {
    while let Some(batch) = with.committer.next_for(replica) {
        match ring.place(batch, false) {
            Placement::Placed if with.options.level == Level::Placed => {
                with.committer.placed(replica);
            }
            Placement::Placed => with.committer.sent(replica),
            Placement::Full => {
                if !ring.was_rung() {
                    ring.ring_bell();
                }
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
        with.committer.ring_says(replica, end, clock)?;
    }
    match ring.is_closed() {
        true => Err(Trouble::passing("it closed its ring".to_owned())),
        false => Ok(()),
    }
}

/// Begins to place batches as far as there is room, and handles completions.
fn write_batches<N>(
    ring: &mut RemoteWriter,
    replica: usize,
    with: &mut Environment<'_, N>,
) -> Outcome {
    while let Some(batch) = with.committer.next_for(replica) {
        if ring.write(batch)?.is_err() {
            break;
        }
        with.committer.sent(replica);
    }
    let placed = ring.take_placed()?;
    if let (Some((end, clock)), Some(logger)) = (placed, with.committer.logger(replica))
        && with.options.level == Level::Placed
    {
        let ack = Acknowledgement {
            logger,
            rank: with.options.rank,
            incarnation: with.options.incarnation,
            clock,
            end,
        };
        with.committer.acknowledged(replica, &ack)?;
    }
    Ok(())
}

fn open_path<N: Network>(
    way: CommitPath,
    connection: &mut N::Wire,
    with: &mut Environment<'_, N>,
    welcome: &Welcome,
) -> Result<Path, Trouble> {
    let options = with.options;
    match way {
        CommitPath::Messages => Ok(Path::Messages),
        CommitPath::SharedMemory => {
            let descriptors = (connection.take_descriptor(), connection.take_descriptor());
            let (Some(ring), Some(bell)) = descriptors else {
                return Err(Trouble::refusal("its welcome has no ring and no doorbell"));
            };
            let identity = RingIdentity {
                job: options.job,
                rank: options.rank,
                incarnation: options.incarnation,
                logger: welcome.logger,
                start: welcome.end,
            };
            RingWriter::open(ring, bell, &identity, options.level)
                .map(Path::Ring)
                .map_err(Trouble::refusal)
        }
        CommitPath::Libfabric => {
            let no_ring = "its welcome does not say where to write over libfabric";
            let ring = welcome.remote.as_ref();
            let ring = ring.ok_or_else(|| Trouble::refusal(no_ring))?;
            let writer = with.network.open_writer(options, ring);
            let writer = writer.map_err(Trouble::refusal)?;
            Ok(Path::Remote(Box::new(writer)))
        }
    }
}
