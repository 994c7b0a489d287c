//! Reads the end of a replica's log of the rank, for a survey. The question follows the fence
//! of earlier lives, so that the answer stays true (FENCE-1).

use super::committer::{Committer, LogEnd};
use super::network::Wire;
use super::trouble::{Outcome, Trouble, unexpected};
use crate::LoggerId;
use crate::acceptor::RankLog;
use crate::message::{ToClient, ToLogger};
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::Rank;

#[derive(Debug)]
pub(super) struct Survey {
    logger: LoggerId,
    job: u64,
    rank: Rank,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// Waits for the description of the log.
    Log,
    /// Waits for the log's last batch.
    LastBatch {
        said: LogEnd,
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
        connection.say(&ToLogger::RankLog { job, rank: rank.0 })?;
        Ok(Self {
            logger,
            job,
            rank,
            stage: Stage::Log,
        })
    }

    /// Handles answers.
    pub fn advance(
        &mut self,
        replica: usize,
        connection: &mut impl Wire,
        committer: &mut Committer,
    ) -> Outcome {
        connection.flush()?;
        while let Some(answer) = connection.hear()? {
            let row_end = match answer {
                ToClient::RankLog(log) => self.take_log(connection, &log)?,
                ToClient::Events { batches, is_last } => self.take_batches(&batches, is_last)?,
                other => return Err(unexpected(other)),
            };
            if let Some(said) = row_end {
                self.stage = Stage::Done;
                committer.answered(replica, self.logger, said)?;
            }
        }
        Ok(())
    }

    fn take_log(
        &mut self,
        connection: &mut impl Wire,
        log: &RankLog,
    ) -> Result<Option<LogEnd>, Trouble> {
        if !log.is_sound() {
            return Err(Trouble::refusal("its log of this rank contradicts itself"));
        }
        let writer = log.writer_before(log.end).unwrap_or_default();
        let said = LogEnd {
            life: log.last_incarnation(),
            end: log.end,
            clock: log.last_clock,
            writer,
            made_by: writer,
        };
        if log.end <= log.first {
            return Ok(Some(said));
        }
        connection.say(&ToLogger::Read {
            job: self.job,
            rank: self.rank.0,
            from: log.end.0 - 1,
            after_clock: None,
        })?;
        self.stage = Stage::LastBatch { said, last: None };
        Ok(None)
    }

    fn take_batches(
        &mut self,
        mut batches: &[u8],
        is_last: bool,
    ) -> Result<Option<LogEnd>, Trouble> {
        let Stage::LastBatch { said, last } = &mut self.stage else {
            return Err(Trouble::refusal("events that were not requested"));
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
        let expected = (said.end, said.clock, said.writer);
        match last {
            Some(last) if (last.end(), last.last_clock, last.incarnation) == expected => {
                Ok(Some(LogEnd {
                    made_by: last.made_by(),
                    ..*said
                }))
            }
            _ => Err(Trouble::refusal(format!(
                "it says that it has determinants before {} with clock {} of incarnation {}, \
                 but the last batch that it sent is {last:?}",
                said.end, said.clock, said.writer
            ))),
        }
    }
}
