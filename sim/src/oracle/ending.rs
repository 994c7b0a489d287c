//! When nothing moves any more: a rank whose program is over has all that was
//! sent to it, each message once; and where nothing went wrong that stops a
//! program, all are over.

use super::{Oracle, Pairs, Witness, breach, index};
use crate::happening::{Breach, Happening, Life};
use crate::plan::Process;
use crate::program::{Answer, Call, Stamp};
use crate::reference::Beginning;
use refrain_ring::{Incarnation, Rank, Ssn};

const NAME: &str = "ending";

/// See the [module](self).
#[derive(Debug)]
pub struct Ending {
    /// By (receiver, sender): how often each message was delivered to the life
    /// that is there.
    delivered: Pairs<Vec<u32>>,
    /// By (sender, receiver): how many were sent.
    sent: Pairs<usize>,
    ranks: Vec<Present>,
}

#[derive(Clone, Debug, Default)]
struct Present {
    incarnation: Incarnation,
    is_over: bool,
}

impl Ending {
    /// Of a job with `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            delivered: Pairs::new(ranks),
            sent: Pairs::new(ranks),
            ranks: vec![Present::default(); ranks as usize],
        }
    }

    /// Whether the program of this rank, in the life that is there, is over.
    pub fn is_over(&self, rank: Rank) -> bool {
        self.ranks[rank.index()].is_over
    }

    fn began(&mut self, life: Life) {
        for delivered in self.delivered.row(life.rank) {
            delivered.clear();
        }
        self.ranks[life.rank.index()] = Present {
            incarnation: life.incarnation,
            is_over: false,
        };
    }

    /// A later life has in its checkpoint what came before.
    fn resumed(&mut self, life: Life, beginning: &Beginning) {
        for (sender, of) in (0..).map(Rank).zip(&beginning.delivered) {
            let delivered = &mut self.delivered[(life.rank, sender)];
            *delivered = vec![1; index(of.before)];
            for ssn in &of.and {
                delivered.resize(delivered.len().max(index(*ssn) + 1), 0);
                delivered[index(*ssn)] = 1;
            }
        }
    }

    fn called(&mut self, life: Life, call: &Call) {
        match call {
            Call::Finish => self.ranks[life.rank.index()].is_over = true,
            Call::Isend { to, payload, .. } => {
                let number = Stamp::decode(payload).map_or(0, |stamp| stamp.number);
                let sent = &mut self.sent[(life.rank, *to)];
                *sent = (*sent).max(index(Ssn(number)) + 1);
            }
            _ => {}
        }
    }

    fn answered(&mut self, life: Life, answer: &Answer) {
        let Answer::Ended(all) = answer else {
            return;
        };
        for ended in all.iter().filter(|ended| !ended.cancelled) {
            let Some(stamp) = Stamp::decode(&ended.payload) else {
                continue;
            };
            let delivered = &mut self.delivered[(life.rank, ended.peer)];
            let place = index(Ssn(stamp.number));
            delivered.resize(delivered.len().max(place + 1), 0);
            delivered[place] += 1;
        }
    }

    fn judge(&self, receiver: Rank, world: &dyn Witness) -> Result<(), Breach> {
        let present = &self.ranks[receiver.index()];
        if !present.is_over {
            return match world.must_finish() {
                true => Err(breach(
                    NAME,
                    format!("the program of {receiver} never ends"),
                )),
                false => Ok(()),
            };
        }
        for sender in (0..self.ranks.len() as u32).map(Rank) {
            let sent = self.sent[(sender, receiver)];
            let delivered = &self.delivered[(receiver, sender)];
            let times = |ssn: usize| delivered.get(ssn).copied().unwrap_or(0);
            if let Some(ssn) = (0..sent.max(delivered.len())).find(|ssn| times(*ssn) != 1) {
                return Err(breach(
                    NAME,
                    format!(
                        "message {ssn} of {sender} was delivered to {receiver} {} times",
                        times(ssn)
                    ),
                ));
            }
        }
        Ok(())
    }
}

impl Oracle for Ending {
    fn see(&mut self, happening: &Happening<'_>, _world: &dyn Witness) -> Result<(), Breach> {
        let is_present =
            |life: &Life| self.ranks[life.rank.index()].incarnation == life.incarnation;
        match happening {
            Happening::Began(life) => self.began(*life),
            Happening::Died(Process::Rank(rank)) => self.began(Life {
                rank: *rank,
                incarnation: self.ranks[rank.index()].incarnation,
            }),
            Happening::Resumed { life, saved, .. } => self.resumed(*life, &saved.beginning),
            Happening::Called(life, _, call) if is_present(life) => self.called(*life, call),
            Happening::Answered(life, _, answer) if is_present(life) => {
                self.answered(*life, answer);
            }
            _ => {}
        }
        Ok(())
    }

    fn at_end(&mut self, world: &dyn Witness) -> Result<(), Breach> {
        (0..self.ranks.len() as u32).try_for_each(|rank| self.judge(Rank(rank), world))
    }
}
