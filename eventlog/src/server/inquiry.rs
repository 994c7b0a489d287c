//! What one logger asks of another, and what it makes of the answers. EL-3

use super::host::{Fetched, Wanted};
use crate::message::{Holding, ToClient, ToLogger};
use refrain_logging::determinant::EventIndex;
use refrain_ring::Clock;

/// What follows from an answer.
#[derive(Debug, Default)]
pub struct Learned {
    /// To be handed on, in this order.
    pub said: Vec<Fetched>,
    /// To be asked next.
    pub question: Option<ToLogger>,
    /// All was given.
    pub is_whole: bool,
}

/// Asks one replica for all that it has from some number on, or from where it
/// begins by now: what is before that may have been given up. GC-1
#[derive(Debug)]
pub struct Inquiry {
    wanted: Wanted,
    /// Where the replica's row begins and ends, once it was asked for it; none:
    /// nothing is to be told of it.
    begins_later: Option<Holding>,
}

impl Inquiry {
    /// The inquiry, and its first question.
    pub fn begin(wanted: Wanted) -> (Self, ToLogger) {
        let inquiry = Self {
            wanted,
            begins_later: None,
        };
        (inquiry, ToLogger::List)
    }

    /// Takes an answer.
    ///
    /// # Errors
    /// The replica cannot, or answers to something else; for people.
    pub fn take(&mut self, answer: ToClient) -> Result<Learned, String> {
        match answer {
            ToClient::Ranks { ranks } => Ok(self.take_holdings(&ranks)),
            ToClient::Events { batches, is_last } => Ok(self.take_events(batches, is_last)),
            ToClient::Refused { reason } => Err(reason),
            other => Err(format!("it answered {other:?}")),
        }
    }

    fn take_holdings(&mut self, ranks: &[Holding]) -> Learned {
        let Wanted { job, rank, from } = self.wanted;
        let of_rank = |holding: &&Holding| (holding.job, holding.rank) == (job, rank.0);
        let holding = ranks.iter().find(of_rank).cloned();
        self.begins_later = holding.filter(|holding| holding.first > from.0);
        let question = ToLogger::Read {
            job,
            rank: rank.0,
            from: self.begins_later.as_ref().map_or(from.0, |it| it.first),
            after_clock: None,
        };
        Learned {
            question: Some(question),
            ..Learned::default()
        }
    }

    fn take_events(&mut self, batches: Vec<u8>, is_last: bool) -> Learned {
        let mut said = Vec::new();
        if let Some(holding) = self.begins_later.take() {
            let first = EventIndex(holding.first);
            let clock = Clock(holding.clock_before);
            said.push(Fetched::Begins { first, clock });
        }
        if !batches.is_empty() {
            said.push(Fetched::Batches(batches));
        }
        if is_last {
            said.push(Fetched::Whole);
        }
        Learned {
            said,
            question: None,
            is_whole: is_last,
        }
    }
}
