//! What one logger asks of another, and what it makes of the answers. EL-3

use super::host::{Fetched, Wanted};
use crate::acceptor::Row;
use crate::message::{HeldRow, ToClient, ToLogger};

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

/// Asks one replica how its row is made up and, if it lends that to the life
/// that begins, for all that is not here already. What the replica has given up
/// is told with its row. GC-1
#[derive(Debug)]
pub struct Inquiry {
    wanted: Wanted,
}

impl Inquiry {
    /// The inquiry, and its first question.
    pub fn begin(wanted: Wanted) -> (Self, ToLogger) {
        let (job, rank) = (wanted.job, wanted.rank.0);
        (Self { wanted }, ToLogger::Row { job, rank })
    }

    /// Takes an answer.
    ///
    /// # Errors
    /// The replica cannot, or answers to something else; for people.
    pub fn take(&mut self, answer: ToClient) -> Result<Learned, String> {
        match answer {
            ToClient::Row(held) => self.take_row(&held),
            ToClient::Events { batches, is_last } => Ok(take_events(batches, is_last)),
            ToClient::Refused { reason } => Err(reason),
            other => Err(format!("it answered {other:?}")),
        }
    }

    fn take_row(&mut self, held: &HeldRow) -> Result<Learned, String> {
        let theirs = Row::told(held).ok_or("its row contradicts itself")?;
        let Wanted {
            job,
            rank,
            life,
            row,
        } = &self.wanted;
        if theirs.lends(life).is_none() {
            // It may have it later; who asks comes back.
            let (end, last) = (theirs.end, theirs.last_incarnation().0);
            let reason =
                format!("a replica ends at {end}, in incarnation {last}: it has it neither");
            return Ok(Learned {
                said: vec![Fetched::Failed(reason)],
                question: None,
                is_whole: true,
            });
        }
        let from = row.common_end(&theirs).unwrap_or(theirs.first);
        Ok(Learned {
            said: vec![Fetched::Row(theirs)],
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

fn take_events(batches: Vec<u8>, is_last: bool) -> Learned {
    let mut said = Vec::new();
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
