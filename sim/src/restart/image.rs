//! Taking a checkpoint, by the code that the runtime takes it with.

use super::life::{Image, Life, Position};
use super::size::Bug;
use refrain_rank::checkpoint::{LogSaving, Saved, encode_engine};
use refrain_ring::{Rank, Ssn};
use refrain_transport::engine::{Beginning, Horizon};

impl Life {
    /// A checkpoint of now, if it can be taken now. LOG-5
    pub(super) fn take(&mut self) -> Result<Option<(Image, Horizon)>, String> {
        let beginning = match self.engine.state() {
            Ok(beginning) => beginning,
            Err(why) if why.ends_by_progress() => return Ok(None),
            Err(why) => return Err(format!("rank {}: {why}", self.rank)),
        };
        let own = Rank(self.rank as u32);
        let mut logs = Vec::new();
        for to in (0..self.at.sent.len() as u32).map(Rank) {
            let log = match to == own {
                true => Some(Vec::new()),
                false => self.log(to, &beginning)?,
            };
            let Some(log) = log else {
                return Ok(None);
            };
            logs.push(log);
        }
        let image = Image {
            at: Position {
                place: self.at.place + 1,
                ..self.at.clone()
            },
            engine: encode_engine(own, &self.spoilt(beginning)),
            logs,
        };
        Ok(Some((image, self.engine.horizon())))
    }

    /// None: part of it waits until events are stable.
    fn log(&mut self, to: Rank, beginning: &Beginning) -> Result<Option<Vec<u8>>, String> {
        let mut log = Vec::new();
        let pair = (Rank(self.rank as u32), to);
        let saving = LogSaving::begin(&self.engine, pair, beginning, &mut log);
        let mut saving = saving.map_err(|error| error.to_string())?;
        loop {
            match saving.step(&mut self.engine, &mut log) {
                Ok(Saved::Done) => return Ok(Some(log)),
                Ok(Saved::Some) => {}
                Ok(Saved::Waiting) => return Ok(None),
                Err(error) => return Err(format!("LOG-5: {error}")),
            }
        }
    }

    fn spoilt(&self, mut beginning: Beginning) -> Beginning {
        for delivered in &mut beginning.delivered {
            match self.bug {
                Some(Bug::UnreceivedSaved) => delivered.except.clear(),
                Some(Bug::ReceivedForgotten) => {
                    let until = &mut delivered.until;
                    until.set(Ssn(until.program.0.saturating_sub(1)));
                    delivered.except.retain(|ssn| until.is_beyond(*ssn));
                }
                _ => {}
            }
        }
        beginning
    }
}
