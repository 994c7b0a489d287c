//! What a replica has of a rank's lives before this one: it is asked once it has
//! fenced them, so that the answer stays true (FENCE-1).

use super::committer::RowEnd;
use super::link::{Surroundings, Trouble, unexpected};
use super::network::{Network, Wire};
use crate::LoggerId;
use crate::acceptor::Row;
use crate::message::{HeldRow, ToClient, ToLogger};
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::Rank;

#[derive(Debug)]
pub(super) struct Survey {
    logger: LoggerId,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// It was asked what it has.
    Row,
    /// It was asked for its last batch.
    LastBatch {
        said: RowEnd,
        last: Option<BatchHeader>,
    },
    Done,
}

impl Survey {
    pub fn begin(
        connection: &mut impl Wire,
        logger: LoggerId,
        (job, rank): (u64, Rank),
    ) -> Result<Self, Trouble> {
        let rank = rank.0;
        connection.say(&ToLogger::Row { job, rank })?;
        let stage = Stage::Row;
        Ok(Self { logger, stage })
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
                ToClient::Row(held) => self.take_row(connection, with, &held)?,
                ToClient::Events { batches, is_last } => self.take_batches(&batches, is_last)?,
                other => return Err(unexpected(other)),
            };
            if let Some(said) = row_end {
                self.stage = Stage::Done;
                with.committer
                    .answered(index, self.logger, said)
                    .map_err(|fault| Trouble::refusal(fault.to_string()))?;
            }
        }
        Ok(())
    }

    fn take_row<N: Network>(
        &mut self,
        connection: &mut N::Wire,
        with: &Surroundings<'_, N>,
        held: &HeldRow,
    ) -> Result<Option<RowEnd>, Trouble> {
        let row = Row::told(held)
            .ok_or_else(|| Trouble::refusal("its row contradicts itself".to_owned()))?;
        let said = RowEnd {
            life: row.last_incarnation(),
            end: row.end,
            clock: row.last_clock,
            writer: row.writer_before(row.end).unwrap_or_default(),
        };
        if row.end <= row.first {
            return Ok(Some(said));
        }
        connection.say(&ToLogger::Read {
            job: with.options.job,
            rank: with.options.rank.0,
            from: row.end.0 - 1,
            after_clock: None,
        })?;
        self.stage = Stage::LastBatch { said, last: None };
        Ok(None)
    }

    fn take_batches(
        &mut self,
        mut batches: &[u8],
        is_last: bool,
    ) -> Result<Option<RowEnd>, Trouble> {
        let Stage::LastBatch { said, last } = &mut self.stage else {
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
        let RowEnd {
            end, clock, writer, ..
        } = *said;
        match last {
            Some(last)
                if (last.end(), last.last_clock, last.incarnation) == (end, clock, writer) =>
            {
                Ok(Some(*said))
            }
            _ => Err(Trouble::refusal(format!(
                "it says that it has determinants before {end} with clock {} of incarnation {}, \
                 and gives {last:?} as the last",
                clock.0, writer.0
            ))),
        }
    }
}
