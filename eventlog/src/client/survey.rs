//! What a replica has of a rank's lives before this one: it is asked once it has
//! fenced them, so that the answer stays true (FENCE-1).

use super::link::{Surroundings, Trouble, unexpected};
use super::network::{Network, Wire};
use crate::LoggerId;
use crate::message::{Holding, ToClient, ToLogger};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Incarnation};

/// A row that ends with this life, there, with this clock.
type RowEnd = (Incarnation, EventIndex, Clock);

#[derive(Debug)]
pub(super) struct Survey {
    logger: LoggerId,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// It was asked what it has.
    Holdings,
    /// It was asked for its last batch.
    LastBatch {
        holding: Holding,
        last: Option<BatchHeader>,
    },
    Done,
}

impl Survey {
    pub fn begin(connection: &mut impl Wire, logger: LoggerId) -> Result<Self, Trouble> {
        connection.say(&ToLogger::List)?;
        Ok(Self {
            logger,
            stage: Stage::Holdings,
        })
    }

    /// Takes in what is there of the answers.
    pub fn advance<N: Network>(
        &mut self,
        index: usize,
        connection: &mut N::Wire,
        with: &mut Surroundings<'_, N>,
    ) -> Result<(), Trouble> {
        connection.flush()?;
        while let Some(answer) = connection.hear()? {
            let row_end = match answer {
                ToClient::Ranks { ranks } => self.take_holdings(connection, with, ranks)?,
                ToClient::Events { batches, is_last } => self.take_batches(&batches, is_last)?,
                other => return Err(unexpected(other)),
            };
            if let Some((life, end, clock)) = row_end {
                self.stage = Stage::Done;
                with.committer
                    .answered(index, self.logger, life, end, clock)
                    .map_err(|fault| Trouble::refusal(fault.to_string()))?;
            }
        }
        Ok(())
    }

    fn take_holdings<N: Network>(
        &mut self,
        connection: &mut N::Wire,
        with: &Surroundings<'_, N>,
        ranks: Vec<Holding>,
    ) -> Result<Option<RowEnd>, Trouble> {
        let (job, rank) = (with.options.job, with.options.rank.0);
        let mut ranks = ranks.into_iter();
        let Some(holding) = ranks.find(|holding| (holding.job, holding.rank) == (job, rank)) else {
            return Ok(Some((Incarnation(0), EventIndex(0), Clock(0))));
        };
        if holding.end <= holding.first {
            let end = EventIndex(holding.end);
            return Ok(Some((Incarnation(0), end, Clock(holding.last_clock))));
        }
        connection.say(&ToLogger::Read {
            job,
            rank,
            from: holding.end - 1,
            after_clock: None,
        })?;
        self.stage = Stage::LastBatch {
            holding,
            last: None,
        };
        Ok(None)
    }

    fn take_batches(
        &mut self,
        mut batches: &[u8],
        is_last: bool,
    ) -> Result<Option<RowEnd>, Trouble> {
        let Stage::LastBatch { holding, last } = &mut self.stage else {
            return Err(Trouble::refusal("events that nobody asked for".to_owned()));
        };
        while !batches.is_empty() {
            let (header, _) = BatchHeader::read(batches)
                .map_err(|error| Trouble::refusal(format!("its last batch: {error}")))?;
            batches = &batches[header.batch_bytes()..];
            *last = Some(header);
        }
        if !is_last {
            return Ok(None);
        }
        let (end, clock) = (EventIndex(holding.end), Clock(holding.last_clock));
        match last {
            Some(last) if last.end() == end && last.last_clock == clock => {
                Ok(Some((last.incarnation, end, clock)))
            }
            _ => Err(Trouble::refusal(format!(
                "it says that it has determinants before {end} with clock {}, and gives {last:?} as the last",
                clock.0
            ))),
        }
    }
}
