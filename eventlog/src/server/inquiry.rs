//! Requests of one logger to another, and the handling of the answers. EL-3
//!
//! Pure: the same code runs in the server, the simulator and the protocol model.

use super::host::{Fetched, Wanted};
use crate::acceptor::{Beginning, Fit, RankLog, Refusal};
use crate::message::{ToClient, ToLogger};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::Rank;

/// Maximum number of reasons in one refusal.
const FAILURES_NAMED_MAX: usize = 8;

/// The results of an answer.
#[derive(Debug, Default)]
pub struct Learned {
    /// Results to hand on, in this order.
    pub said: Vec<Fetched>,
    /// The next request to send.
    pub question: Option<ToLogger>,
    /// The replica has sent everything.
    pub is_whole: bool,
}

/// Asks one replica for the description of its log and, if that log can supply the life that
/// begins, for all determinants that are missing here. The description gives the first
/// determinant that the replica keeps. GC-1
#[derive(Debug)]
pub struct Inquiry {
    wanted: Wanted,
}

impl Inquiry {
    /// The inquiry, and its first request.
    pub fn begin(wanted: Wanted) -> (Self, ToLogger) {
        let (job, rank) = (wanted.job, wanted.rank.0);
        (Self { wanted }, ToLogger::RankLog { job, rank })
    }

    /// Handles an answer.
    ///
    /// # Errors
    /// The replica cannot supply the life, or its answer does not match the request; for people.
    pub fn take(&mut self, answer: ToClient) -> Result<Learned, String> {
        match answer {
            ToClient::RankLog(log) => self.take_log(log),
            ToClient::Events { batches, is_last } => {
                let batches = (!batches.is_empty()).then_some(Fetched::Batches(batches));
                let whole = is_last.then_some(Fetched::Whole);
                Ok(Learned {
                    said: batches.into_iter().chain(whole).collect(),
                    question: None,
                    is_whole: is_last,
                })
            }
            ToClient::Refused { reason } => Err(reason),
            other => Err(format!("it answered {other:?}")),
        }
    }

    fn take_log(&mut self, theirs: RankLog) -> Result<Learned, String> {
        if !theirs.is_sound() {
            return Err("its log of this rank contradicts itself".into());
        }
        let Wanted {
            job,
            rank,
            life,
            row,
        } = &self.wanted;
        if theirs.can_supply(life).is_none() {
            // The replica may have it later; the client joins again.
            let (end, last) = (theirs.end, theirs.last_incarnation().0);
            let reason =
                format!("a replica ends at {end}, in incarnation {last}: it lacks them too");
            return Ok(Learned {
                said: vec![Fetched::Failed(reason)],
                question: None,
                is_whole: true,
            });
        }
        let from = row.common_end(&theirs).unwrap_or(theirs.first);
        Ok(Learned {
            said: vec![Fetched::Log(theirs)],
            question: Some(ToLogger::Read {
                job: *job,
                rank: rank.0,
                from: from.0,
                after_clock: None,
            }),
            is_whole: false,
        })
    }
}

/// The log of one rank with its batches: in a logbook or a model.
pub trait RankLogStore {
    /// The stored log; empty if there is none.
    fn row(&self) -> RankLog;

    /// See [`RankLog::follow`].
    ///
    /// # Errors
    /// As for [`RankLog::follow`].
    fn follow(&mut self, rank: Rank, source: &RankLog, life: &Beginning) -> Result<(), Refusal>;

    /// Takes a copy of a batch from another replica.
    ///
    /// # Errors
    /// The log does not accept it.
    fn adopt(&mut self, batch: &[u8]) -> Result<(), Refusal>;
}

/// Makes a log fit a life that begins, with the batches of replicas that supply it.
#[derive(Debug)]
pub struct CatchUp {
    rank: Rank,
    life: Beginning,
    /// End of what the current replica supplies.
    lends: Option<EventIndex>,
    failures: Vec<String>,
}

impl CatchUp {
    /// `None`: the log already fits the life.
    pub fn begin(wanted: &Wanted) -> Option<Self> {
        (wanted.row.fit(&wanted.life) == Fit::Lacks).then_some(Self {
            rank: wanted.rank,
            life: wanted.life,
            lends: None,
            failures: Vec::new(),
        })
    }

    /// Handles a result of a replica. Returns true if the log now fits the life, and no other
    /// replica needs to be asked.
    pub fn take(&mut self, store: &mut impl RankLogStore, given: Fetched) -> bool {
        let taken = match given {
            Fetched::Whole => return store.row().fit(&self.life) != Fit::Lacks,
            Fetched::Failed(reason) => {
                self.fail(reason);
                return false;
            }
            Fetched::Log(source) => {
                self.lends = source.can_supply(&self.life);
                store.follow(self.rank, &source, &self.life)
            }
            Fetched::Batches(batches) => self.adopt(store, &batches),
        };
        if let Err(refusal) = taken {
            self.fail(refusal.to_string());
            self.lends = None;
        }
        false
    }

    /// Adopts the batches that begin before the end of what is supplied.
    fn adopt(&self, store: &mut impl RankLogStore, mut batches: &[u8]) -> Result<(), Refusal> {
        let Some(until) = self.lends else {
            return Ok(());
        };
        while !batches.is_empty() {
            let (header, _) = BatchHeader::read(batches)?;
            if header.rank != self.rank {
                return Err(Refusal::UnknownRank {
                    job: header.job_tag.into(),
                    rank: header.rank.0,
                });
            }
            if header.first >= until {
                break;
            }
            let (batch, rest) = batches.split_at(header.batch_bytes());
            store.adopt(batch)?;
            batches = rest;
        }
        Ok(())
    }

    /// Records each reason once, up to the maximum.
    fn fail(&mut self, reason: String) {
        if self.failures.len() < FAILURES_NAMED_MAX && !self.failures.contains(&reason) {
            self.failures.push(reason);
        }
    }

    /// The reasons why no replica could supply the life.
    pub fn failures(&self) -> String {
        match self.failures.is_empty() {
            true => "the other replicas do not have them either".into(),
            false => self.failures.join("; "),
        }
    }

    /// The life that begins.
    pub fn life(&self) -> &Beginning {
        &self.life
    }
}
