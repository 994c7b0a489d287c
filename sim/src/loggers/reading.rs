//! What a recovering rank gets: the real reading of rows, of loggers that answer
//! at once.

use super::Loggers;
use super::network::TalkId;
use refrain_eventlog::client::read::{AnswerFault, Asks};
use refrain_eventlog::message::{ToClient, ToLogger};
use refrain_wire::WireError;

/// Turns that a logger may take to answer.
const TURNS_MAX: usize = 400;

/// A conversation with one logger, which has all the turns that it needs.
pub(super) struct Question<'a> {
    loggers: &'a Loggers,
    logger: usize,
    talk: TalkId,
}

impl<'a> Question<'a> {
    pub(super) fn begin(loggers: &'a Loggers, logger: usize) -> Result<Self, AnswerFault> {
        let talk = loggers.call_as_nobody(logger);
        Ok(Self {
            loggers,
            logger,
            talk: talk.ok_or(WireError::Closed)?,
        })
    }
}

impl Asks for Question<'_> {
    fn ask(&mut self, question: &ToLogger) -> Result<(), AnswerFault> {
        let mut network = self.loggers.shared.shard.network.borrow_mut();
        match network.say(self.talk, question.clone()) {
            true => {
                network.arrive_at_logger(self.talk);
                Ok(())
            }
            false => Err(WireError::Closed.into()),
        }
    }

    fn answer(&mut self) -> Result<ToClient, AnswerFault> {
        for _ in 0..TURNS_MAX {
            let heard = {
                let mut network = self.loggers.shared.shard.network.borrow_mut();
                network.arrive_at_caller(self.talk);
                network.hear(self.talk)
            };
            match heard {
                Ok(Some(ToClient::Refused { reason })) => return Err(AnswerFault::Refused(reason)),
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => self.loggers.turn(self.logger),
                Err(()) => return Err(WireError::Closed.into()),
            }
        }
        Err(AnswerFault::Timeout(super::TICK * TURNS_MAX as u32))
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        let mut network = self.loggers.shared.shard.network.borrow_mut();
        network.hang_up(self.talk);
    }
}
