//! Reads a rank's determinants from its loggers: for a recovering rank,
//! and for people. Blocks, with a timeout.
//!
//! A commit is stable when a quorum has it, so a single replica may lack some commits. The
//! reader asks enough replicas to contain one of every quorum. It takes the log of the latest
//! life, and of several such logs the longest. A recovering rank connects first (which
//! fences its earlier life), then reads up to [`Client::next`](super::Client::next).

use crate::message::{Holding, PROTOCOL, ToClient, ToLogger};
use core::time::Duration;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BatchHeader, job_tag};
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_wire::{Connection, ServerAddress, WireError};
use std::time::Instant;
use thiserror::Error;

/// Wait between attempts to read the replicas that have failed.
const RETRY_EVERY: Duration = Duration::from_millis(10);

/// A request for determinants.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: Rank,
    /// Number of the first determinant to read.
    pub from: EventIndex,
    /// Only determinants with a higher clock are read, if given.
    pub after_clock: Option<Clock>,
    /// The log must end at this number or a higher one.
    pub until: EventIndex,
    /// Incarnation that wrote the last determinant before `until`
    /// ([`Client::follows`](super::Client::follows)). A replica that is not fenced yet
    /// may have another log up to there, and more behind it. The life that asks writes its own
    /// determinants from `until` on, so later ones are not returned. `None`: any log is accepted
    /// as a whole.
    pub follows: Option<Incarnation>,
    /// Number of replicas that make a commit stable.
    pub quorum: usize,
    /// Maximum time for each replica's answer, and for further attempts at replicas that
    /// cannot be read.
    pub timeout: Duration,
}

/// Why determinants cannot be read. EL-5
#[derive(Debug, Error)]
pub enum ReadError {
    /// Too few replicas gave their logs: one of the others may have more determinants.
    #[error("{answered} of {needed} event loggers gave the events of rank {rank}: {why}")]
    TooFew {
        /// Number of replicas that gave their logs.
        answered: usize,
        /// Number that is needed.
        needed: usize,
        /// The rank.
        rank: u32,
        /// The problems of the other replicas.
        why: String,
    },
    /// No replica that answered has all stable determinants.
    #[error(
        "the event loggers have the events of rank {rank} up to number {end} only, but those up to {until} were stable"
    )]
    Incomplete {
        /// The rank.
        rank: u32,
        /// The end of the determinants found.
        end: EventIndex,
        /// The end of the stable determinants.
        until: EventIndex,
    },
    /// The answer of one logger is wrong or missing.
    #[error("event logger {address}: {fault}")]
    Logger {
        /// The logger's address.
        address: ServerAddress,
        /// The fault.
        fault: AnswerFault,
    },
}

/// What is wrong with an answer.
#[derive(Debug, Error)]
pub enum AnswerFault {
    /// The logger cannot be reached, or its message is invalid.
    #[error(transparent)]
    Connection(#[from] WireError),
    /// The logger did not answer in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The logger refused the request.
    #[error("{0}")]
    Refused(String),
    /// The answer does not match the request.
    #[error("{0}")]
    Invalid(String),
}

fn invalid(reason: String) -> AnswerFault {
    AnswerFault::Invalid(reason)
}

fn unexpected() -> AnswerFault {
    invalid("its answer is to another request".into())
}

/// Determinants of one rank, in batches, in order, without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankEvents {
    bytes: Vec<u8>,
    end: EventIndex,
    last: Option<(Incarnation, Clock)>,
}

impl RankEvents {
    /// The batches: headers, and payloads whose checksums are correct.
    pub fn batches(&self) -> impl Iterator<Item = (BatchHeader, &[u8])> {
        let batches = self.whole_batches();
        // Checked on arrival.
        batches.filter_map(|batch| BatchHeader::read(batch).ok())
    }

    /// The batches as received, each with its header.
    pub fn whole_batches(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        core::iter::from_fn(move || {
            let header = BatchHeader::peek(rest).ok()?;
            let (batch, behind) = rest.split_at(header.batch_bytes());
            rest = behind;
            Some(batch)
        })
    }

    /// One past the last determinant; if there is none, the number at which reading
    /// begins.
    pub fn end(&self) -> EventIndex {
        self.end
    }

    /// Whether there are no determinants.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the batch at the start of `bytes`, if it continues where the events end;
    /// returns its length.
    fn take(&mut self, request: &ReadRequest, bytes: &[u8]) -> Result<usize, AnswerFault> {
        let after = self.end;
        let (header, _) = BatchHeader::read(bytes)
            .map_err(|error| invalid(format!("the batch after number {after}: {error}")))?;
        if header.rank != request.rank || header.job_tag != job_tag(request.job) {
            return Err(invalid(format!(
                "a batch of rank {} that was not requested: its job or rank is another one",
                header.rank
            )));
        }
        self.check_order(request, &header)?;
        let length = header.batch_bytes();
        self.end = header.end();
        self.last = Some((header.incarnation, header.last_clock));
        let is_asked_for = request
            .after_clock
            .is_none_or(|clock| header.last_clock > clock);
        if is_asked_for && header.end() > request.from {
            self.bytes.extend_from_slice(&bytes[..length]);
        }
        Ok(length)
    }

    fn check_order(&self, request: &ReadRequest, header: &BatchHeader) -> Result<(), AnswerFault> {
        let (end, found) = (self.end, header.first);
        let gap = || {
            Err(invalid(format!(
                "after number {end} comes {found}: events are missing"
            )))
        };
        match self.last {
            // Determinants up to a clock may have been dropped: then the log begins later than
            // requested. GC-1
            None if found > request.from && request.after_clock.is_none() => gap(),
            None => Ok(()),
            Some(_) if found != end => gap(),
            Some((incarnation, clock))
                if header.incarnation < incarnation || header.first_clock < clock =>
            {
                Err(invalid(format!(
                    "clocks or incarnations go back at number {found}"
                )))
            }
            Some(_) => Ok(()),
        }
    }

    /// Whether the requested life wrote the determinant before the requested end. All
    /// logs with that property are the same up to there.
    fn goes_through(&self, request: &ReadRequest) -> bool {
        let until = request.until;
        let Some(follows) = request.follows.filter(|_| until > EventIndex(0)) else {
            return true;
        };
        let mut batches = self.batches().map(|(header, _)| header).peekable();
        // No determinant before that end is newer than the requested clock: none
        // can differ.
        let has_none = batches.peek().is_none_or(|batch| batch.first >= until);
        has_none || batches.any(|batch| batch.end() == until && batch.incarnation == follows)
    }

    /// Drops what a fenced life wrote behind the requested end. The life that asks begins
    /// to write there: later lives would not know that it has read anything else. EL-5
    fn cut(mut self, request: &ReadRequest) -> Self {
        if request.follows.is_some() && self.end > request.until {
            let batches = self.batches().map(|(header, _)| header);
            let before = batches.take_while(|header| header.end() <= request.until);
            let bytes = before.map(|header| header.batch_bytes()).sum();
            self.bytes.truncate(bytes);
            self.end = request.until;
        }
        self
    }

    /// Order among enough logs: the greatest contains all stable determinants.
    fn rank_among_rows(&self) -> (Option<Incarnation>, EventIndex) {
        (self.last.map(|(incarnation, _)| incarnation), self.end)
    }
}

/// Reads a rank's determinants from the replicas of its shard, in order and
/// complete, or fails. EL-5
///
/// # Errors
/// See [`ReadError`].
pub fn read_events(
    replicas: &[ServerAddress],
    request: &ReadRequest,
) -> Result<RankEvents, ReadError> {
    let began = Instant::now();
    let read_rank = |address: &ServerAddress| {
        let mut conversation = Conversation::begin(address, request.timeout)?;
        read_rank(&mut conversation, request)
    };
    let goes_on = || {
        let goes_on = began.elapsed() < request.timeout;
        if goes_on {
            // The loggers may be restarting.
            std::thread::sleep(RETRY_EVERY);
        }
        goes_on
    };
    read_ranks(replicas, request, read_rank, goes_on)
}

/// As [`read_events`], with any function that reads [one log](read_rank). `goes_on` waits
/// before replicas that failed are asked again, or returns false to stop.
///
/// # Errors
/// See [`ReadError`].
pub fn read_ranks(
    replicas: &[ServerAddress],
    request: &ReadRequest,
    mut read_rank: impl FnMut(&ServerAddress) -> Result<RankEvents, AnswerFault>,
    mut goes_on: impl FnMut() -> bool,
) -> Result<RankEvents, ReadError> {
    let needed = (replicas.len() + 1).saturating_sub(request.quorum).max(1);
    let is_enough = |rows: &[RankEvents]| {
        rows.len() >= needed && choose(rows, request).is_some_and(|row| row.end >= request.until)
    };
    let mut rows = Vec::new();
    let mut unheard: Vec<&ServerAddress> = replicas.iter().collect();
    loop {
        let mut faults = Vec::new();
        unheard.retain(|address| {
            if is_enough(&rows) {
                return false;
            }
            let row = read_rank(address);
            let is_unheard = row.is_err();
            match row {
                Ok(row) => rows.push(row),
                Err(fault) => faults.push(format!("{address}: {fault}")),
            }
            is_unheard
        });
        if is_enough(&rows) {
            let row = choose(&rows, request).cloned().unwrap_or_default();
            return Ok(row.cut(request));
        }
        if unheard.is_empty() || !goes_on() {
            let rank = request.rank.0;
            let longest = rows.iter().max_by_key(|row| row.rank_among_rows());
            return Err(match longest {
                Some(longest) if rows.len() >= needed => ReadError::Incomplete {
                    rank,
                    end: longest.end,
                    until: request.until,
                },
                _ => ReadError::TooFew {
                    answered: rows.len(),
                    needed,
                    rank,
                    why: faults.join("; "),
                },
            });
        }
    }
}

/// Reads a rank's log at one logger, for people. The log has no gaps, but it may lack stable
/// determinants that other replicas have.
///
/// # Errors
/// See [`ReadError`].
pub fn read_from(address: &ServerAddress, request: &ReadRequest) -> Result<RankEvents, ReadError> {
    ask(address, request.timeout, |conversation| {
        read_rank(conversation, request)
    })
}

fn ask<T>(
    address: &ServerAddress,
    timeout: Duration,
    questions: impl FnOnce(&mut Conversation) -> Result<T, AnswerFault>,
) -> Result<T, ReadError> {
    let conversation = Conversation::begin(address, timeout);
    let answer = conversation.and_then(|mut conversation| questions(&mut conversation));
    answer.map_err(|fault| ReadError::Logger {
        address: address.clone(),
        fault,
    })
}

/// Chooses the log that the asking life continues; if that is not known, the greatest, which
/// contains all stable determinants.
fn choose<'a>(rows: &'a [RankEvents], request: &ReadRequest) -> Option<&'a RankEvents> {
    let fits = |row: &&RankEvents| row.goes_through(request);
    let rows = rows.iter().filter(fits);
    rows.max_by_key(|row| row.rank_among_rows())
}

/// Reads a rank's log at one logger.
///
/// # Errors
/// See [`AnswerFault`].
pub fn read_rank(
    conversation: &mut impl Asks,
    request: &ReadRequest,
) -> Result<RankEvents, AnswerFault> {
    conversation.ask(&ToLogger::Read {
        job: request.job,
        rank: request.rank.0,
        from: request.from.0,
        after_clock: request.after_clock.map(|clock| clock.0),
    })?;
    let mut row = RankEvents {
        end: request.from,
        ..RankEvents::default()
    };
    loop {
        let ToClient::Events { batches, is_last } = conversation.answer()? else {
            return Err(unexpected());
        };
        let mut rest = batches.as_slice();
        while !rest.is_empty() {
            let length = row.take(request, rest)?;
            rest = &rest[length..];
        }
        if is_last {
            break;
        }
    }
    match request.after_clock {
        Some(clock) if row.is_empty() => end_before(clock, conversation, request, row),
        _ => Ok(row),
    }
}

/// For a log without determinants newer than the clock: takes its end from the list of
/// ranks.
fn end_before(
    clock: Clock,
    conversation: &mut impl Asks,
    request: &ReadRequest,
    mut row: RankEvents,
) -> Result<RankEvents, AnswerFault> {
    conversation.ask(&ToLogger::List)?;
    let ToClient::Ranks { ranks } = conversation.answer()? else {
        return Err(unexpected());
    };
    let of_rank = |holding: &&Holding| (holding.job, holding.rank) == (request.job, request.rank.0);
    if let Some(holding) = ranks.iter().find(of_rank)
        && holding.last_clock <= clock.0
    {
        row.end = row.end.max(EventIndex(holding.end));
    }
    Ok(row)
}

/// The determinants that a logger has, by job and rank.
///
/// # Errors
/// When the logger does not answer.
pub fn list(address: &ServerAddress, timeout: Duration) -> Result<Vec<Holding>, ReadError> {
    ask(address, timeout, |conversation| {
        conversation.ask(&ToLogger::List)?;
        match conversation.answer()? {
            ToClient::Ranks { ranks } => Ok(ranks),
            _ => Err(unexpected()),
        }
    })
}

/// Requests to one logger, and its answers.
pub trait Asks {
    /// Sends a request.
    ///
    /// # Errors
    /// The logger cannot be reached.
    fn ask(&mut self, question: &ToLogger) -> Result<(), AnswerFault>;

    /// The next answer, or a part of one: never [`ToClient::Refused`].
    ///
    /// # Errors
    /// No answer came.
    fn answer(&mut self) -> Result<ToClient, AnswerFault>;
}

/// A session in which each request waits for its answer.
struct Conversation {
    connection: Connection,
    timeout: Duration,
}

impl Conversation {
    fn begin(address: &ServerAddress, timeout: Duration) -> Result<Self, AnswerFault> {
        let connection = Connection::begin(address, &PROTOCOL)?;
        Ok(Self {
            connection,
            timeout,
        })
    }
}

impl Asks for Conversation {
    fn ask(&mut self, question: &ToLogger) -> Result<(), AnswerFault> {
        self.connection.say(question)?;
        Ok(self.connection.flush()?)
    }

    fn answer(&mut self) -> Result<ToClient, AnswerFault> {
        let until = Some(Instant::now() + self.timeout);
        match self.connection.wait_message(until) {
            Ok(ToClient::Refused { reason }) => Err(AnswerFault::Refused(reason)),
            Ok(answer) => Ok(answer),
            Err(WireError::Timeout) => Err(AnswerFault::Timeout(self.timeout)),
            Err(error) => Err(error.into()),
        }
    }
}
