//! Reading a rank's determinants back from its loggers: for a recovering rank,
//! and for people. Blocks, with a limit.
//!
//! A commit is stable when a quorum has it, so that a single replica may lack some. The
//! reader asks enough replicas to contain one of every quorum, and takes the longest log:
//! of the latest life first, then by length. A recovering rank connects first (which
//! fences its life before), then reads up to [`Client::next`](super::Client::next).

use crate::message::{Holding, PROTOCOL, ToClient, ToLogger};
use core::time::Duration;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BatchHeader, job_tag};
use refrain_ring::{Clock, Incarnation, Rank};
use refrain_wire::{Connection, ServerAddress, WireError};
use std::time::Instant;
use thiserror::Error;

/// Between two attempts to reach those that could not be read.
const RETRY_EVERY: Duration = Duration::from_millis(10);

/// A request for determinants.
#[derive(Clone, Copy, Debug)]
pub struct ReadRequest {
    /// The job.
    pub job: u64,
    /// The rank.
    pub rank: Rank,
    /// From this number on …
    pub from: EventIndex,
    /// … and only those with a higher clock, if one is given.
    pub after_clock: Option<Clock>,
    /// The log has to reach this number at least.
    pub until: EventIndex,
    /// Which life wrote the last determinant before that
    /// ([`Client::follows`](super::Client::follows)): a replica that is not fenced yet
    /// may have others there, and more behind. The life that asks writes its own there,
    /// so none of that is given. `None`: any log will do, with all that it has.
    pub follows: Option<Incarnation>,
    /// How many replicas make a commit stable.
    pub quorum: usize,
    /// How long each replica may take to answer, and for how long those that cannot be
    /// read are tried again.
    pub timeout: Duration,
}

/// Why determinants cannot be read. EL-5
#[derive(Debug, Error)]
pub enum ReadError {
    /// Too few replicas gave their logs: one with more may be among the others.
    #[error("{answered} of {needed} event loggers gave the events of rank {rank}: {why}")]
    TooFew {
        /// How many did.
        answered: usize,
        /// How many are needed.
        needed: usize,
        /// Whose.
        rank: u32,
        /// What is wrong with the others.
        why: String,
    },
    /// No replica that answered has all of them.
    #[error(
        "the event loggers have the events of rank {rank} up to number {end}; those up to {until} were stable"
    )]
    Incomplete {
        /// Whose.
        rank: u32,
        /// What there is.
        end: EventIndex,
        /// What there should be.
        until: EventIndex,
    },
    /// One logger did not answer as asked.
    #[error("event logger {address}: {fault}")]
    Logger {
        /// Which.
        address: ServerAddress,
        /// What is wrong.
        fault: AnswerFault,
    },
}

/// What is wrong with an answer.
#[derive(Debug, Error)]
pub enum AnswerFault {
    /// It cannot be reached, or says something that cannot be read.
    #[error(transparent)]
    Connection(#[from] WireError),
    /// It said nothing for too long.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// It will not.
    #[error("{0}")]
    Refused(String),
    /// The answer does not fit the question.
    #[error("{0}")]
    Invalid(String),
}

fn invalid(reason: String) -> AnswerFault {
    AnswerFault::Invalid(reason)
}

fn unexpected() -> AnswerFault {
    invalid("an answer to something else".into())
}

/// Determinants of one rank, in batches, in order, without gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankEvents {
    bytes: Vec<u8>,
    end: EventIndex,
    last: Option<(Incarnation, Clock)>,
}

impl RankEvents {
    /// The batches: headers, and payloads whose checksums were right.
    pub fn batches(&self) -> impl Iterator<Item = (BatchHeader, &[u8])> {
        let batches = self.whole_batches();
        // Checked as they came.
        batches.filter_map(|batch| BatchHeader::read(batch).ok())
    }

    /// The same batches as they came, each with its header.
    pub fn whole_batches(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        core::iter::from_fn(move || {
            let header = BatchHeader::peek(rest).ok()?;
            let (batch, behind) = rest.split_at(header.batch_bytes());
            rest = behind;
            Some(batch)
        })
    }

    /// One past the last determinant; where reading was to begin, if there is
    /// none.
    pub fn end(&self) -> EventIndex {
        self.end
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Takes the batch at the start of `bytes`, if it continues where the events end;
    /// returns its length.
    fn take(&mut self, request: &ReadRequest, bytes: &[u8]) -> Result<usize, AnswerFault> {
        let after = self.end;
        let (header, _) = BatchHeader::read(bytes)
            .map_err(|error| invalid(format!("the batch behind number {after}: {error}")))?;
        if header.rank != request.rank || header.job_tag != job_tag(request.job) {
            return Err(invalid(format!(
                "a batch of rank {} of another job or rank than asked for",
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
            // What is before a clock may have been dropped: then the log begins later than
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

    /// Whether that life wrote the determinant before the end that was asked for. All
    /// logs of which that is true are the same up to there.
    fn goes_through(&self, request: &ReadRequest) -> bool {
        let until = request.until;
        let Some(follows) = request.follows.filter(|_| until > EventIndex(0)) else {
            return true;
        };
        let mut batches = self.batches().map(|(header, _)| header).peekable();
        // Nothing before that end is newer than the clock asked for: nothing that
        // could differ.
        let has_none = batches.peek().is_none_or(|batch| batch.first >= until);
        has_none || batches.any(|batch| batch.end() == until && batch.incarnation == follows)
    }

    /// Drops what a fenced life wrote behind the requested end. The life that asks begins
    /// to write there: later lives would not know of what else it has read. EL-5
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

    /// What is stable is in the greatest of enough logs.
    fn rank_among_rows(&self) -> (Option<Incarnation>, EventIndex) {
        (self.last.map(|(incarnation, _)| incarnation), self.end)
    }
}

/// Reads a rank's determinants from the replicas of its shard: in order and
/// complete, or not at all. EL-5
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
            // They may be starting again.
            std::thread::sleep(RETRY_EVERY);
        }
        goes_on
    };
    read_ranks(replicas, request, read_rank, goes_on)
}

/// The same with any way to read [one log](read_rank); `goes_on` waits before those that
/// gave none are asked again, or says that it was enough.
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

/// Reads what one logger has of a rank, for people: without gaps, but where there are
/// other replicas it may lack stable determinants.
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

/// The log that the asking life continues; where that is not known, what is stable is in
/// the greatest.
fn choose<'a>(rows: &'a [RankEvents], request: &ReadRequest) -> Option<&'a RankEvents> {
    let fits = |row: &&RankEvents| row.goes_through(request);
    let rows = rows.iter().filter(fits);
    rows.max_by_key(|row| row.rank_among_rows())
}

/// Reads what one logger has of a rank.
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

/// Nothing is newer than the clock; where the log ends, only the list says.
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

/// What a logger has, by job and rank.
///
/// # Errors
/// When it does not say.
pub fn list(address: &ServerAddress, timeout: Duration) -> Result<Vec<Holding>, ReadError> {
    ask(address, timeout, |conversation| {
        conversation.ask(&ToLogger::List)?;
        match conversation.answer()? {
            ToClient::Ranks { ranks } => Ok(ranks),
            _ => Err(unexpected()),
        }
    })
}

/// Questions to one logger, and its answers.
pub trait Asks {
    /// Asks.
    ///
    /// # Errors
    /// It cannot be reached.
    fn ask(&mut self, question: &ToLogger) -> Result<(), AnswerFault>;

    /// The next answer, or piece of one: never [`ToClient::Refused`].
    ///
    /// # Errors
    /// There is none.
    fn answer(&mut self) -> Result<ToClient, AnswerFault>;
}

/// A session in which each question waits for its answer.
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
