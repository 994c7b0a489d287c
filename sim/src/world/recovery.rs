//! A later life collects its checkpoint, records and messages, one at a time; then the oracles
//! judge them. REC-1 to REC-4

use super::World;
use super::assembly::LifeBeginning;
use super::events::HeldStore;
use super::launcher::News;
use super::rank::{Joining, RankSlot};
use super::stage::Count;
use crate::happening::{Breach, Happening, Life};
use crate::loggers::JOB;
use crate::planted::Planted;
use crate::program::Program;
use crate::recollect::{Asking, Heard, Message, Messages, Recollection, of_remains};
use crate::saved::{Beginning, Saved};
use refrain_logging::determinant::row::determinants;
use refrain_logging::determinant::{Determinant, EventIndex};
use refrain_ring::{Clock, Incarnation, Rank, Ssn};
use refrain_transport::fabric::Fabric;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Number of steps after which reading a log counts as stuck.
const ASKED_MAX: u32 = 100_000;
/// Numbers reserved for the checkpoints of one life; no life takes more.
const NUMBERS_OF_A_LIFE: u32 = 10_000;

/// What a later life has collected so far.
#[derive(Debug)]
pub struct Collecting {
    /// The life.
    pub joining: Joining,
    /// The checkpoint and its number; 0 is the beginning of the program.
    from: Option<(u32, Saved)>,
    events: Option<Vec<Determinant>>,
    /// By sender.
    messages: Vec<Option<Messages>>,
    /// The peer whose log is being read, with the request.
    asking: Option<(Rank, Asking)>,
    /// Whether everything is collected and the oracles have judged it.
    is_judged: bool,
}

/// The number of a life's first checkpoint; no two lives share a number.
fn first_number(life: Life) -> u32 {
    life.incarnation.0 * NUMBERS_OF_A_LIFE + 1
}

impl Collecting {
    /// A life that has collected nothing.
    pub fn new(joining: Joining, ranks: u32) -> Self {
        Self {
            joining,
            from: None,
            events: None,
            messages: vec![None; ranks as usize],
            asking: None,
            is_judged: false,
        }
    }
}

impl World<'_> {
    /// A later life collects its next part. Returns whether there was anything to do.
    pub(super) fn recollect(&mut self, rank: Rank) -> Result<bool, Breach> {
        let RankSlot::Returning(collecting) = &mut self.slots[rank.index()] else {
            return Ok(false);
        };
        // Until a quorum has admitted the life, a survey may still find what a dead life wrote
        // after this life's beginning. FENCE-1
        let client = &mut collecting.joining.events;
        if client.held().is_some() && client.start().is_none() {
            return Ok(false);
        }
        if client.start().is_none() || client.live() < self.plan.loggers.quorum as usize {
            return Ok(false);
        }
        if collecting.from.is_none() {
            return self.find_checkpoint(rank);
        }
        if collecting.events.is_none() {
            return self.read_events(rank);
        }
        let missing = collecting.messages.iter().position(Option::is_none);
        // If events are lost, only the end of the job is judged.
        let is_in_set = self.rounds.goes_back_to(rank).is_some();
        let is_judged = collecting.is_judged || self.lossy == Some(rank) || is_in_set;
        match missing {
            // Later lives of peers rebuild their logs in replay: missing messages arrive later.
            _ if is_judged || !self.peers_are_first_lives(rank) => self.begin_again(rank),
            Some(peer) => self.read_messages(rank, Rank(peer as u32)),
            None => self.play_again(rank),
        }
    }

    /// Whether two ranks are in one set: no messages between them are kept. SET-1
    fn are_in_one_set(&self, one: Rank, other: Rank) -> bool {
        self.rounds.members(one).contains(&other)
    }

    /// Whether the logs of all peers are those of their first lives.
    fn peers_are_first_lives(&self, rank: Rank) -> bool {
        let mut peers = self.ranks().filter(|peer| *peer != rank);
        peers.all(|peer| {
            let remains = self.remains[peer.index()].last();
            let life = match &self.slots[peer.index()] {
                RankSlot::Living(process) => Some(process.life),
                _ => remains.map(|remains| remains.life),
            };
            life.is_none_or(|life| life.incarnation == Incarnation(0))
        })
    }

    /// Everything is collected: replays the program on a real engine. REC-4
    fn begin_again(&mut self, rank: Rank) -> Result<bool, Breach> {
        let index = rank.index();
        let dead = RankSlot::Dead(self.slots[index].life());
        let slot = core::mem::replace(&mut self.slots[index], dead);
        let RankSlot::Returning(collecting) = slot else {
            unreachable!("it collects");
        };
        let Collecting {
            mut joining,
            from: Some((number, saved)),
            events: Some(events),
            ..
        } = *collecting
        else {
            unreachable!("both were collected");
        };
        let Some(start) = joining.events.start() else {
            unreachable!("a quorum has answered");
        };
        self.resume(joining, start, (number, saved), events)?;
        Ok(true)
    }

    /// Starts a life that replays the program of the last one.
    pub(super) fn resume(
        &mut self,
        joining: Joining,
        start: EventIndex,
        (number, saved): (u32, Saved),
        events: Vec<Determinant>,
    ) -> Result<(), Breach> {
        let life = joining.life;
        let (rank, index) = (life.rank, life.rank.index());
        self.stage.tell(&Happening::Resumed {
            life,
            number,
            saved: &saved,
            events: &events,
        });
        let seen = self.stage.oracles.borrow().orphan.seen(rank).len();
        let end = self.connect_to_network(life);
        let address = end.fabric.address();
        let begins = LifeBeginning {
            number,
            seen_before: seen.saturating_sub(saved.beginning.tally.printed),
            saved,
            next_number: first_number(life),
            events,
            remains: self.remains[index].clone(),
        };
        self.live(joining, start, end, begins)?;
        self.stage.count(Count::LaterLives);
        let others = self.reachable.iter().flatten();
        let ups = others.map(|(life, address)| News::Up(*life, address.clone()));
        // Behind what it was told while it collected.
        self.news[index].extend(ups);
        self.reachable[index] = Some((life, address.clone()));
        self.tell_others(rank, &News::Up(life, address));
        Ok(())
    }

    fn collecting(&mut self, rank: Rank) -> &mut Collecting {
        match &mut self.slots[rank.index()] {
            RankSlot::Returning(collecting) => collecting,
            other => unreachable!("{other:?} collects nothing"),
        }
    }

    /// Finds the newest stable checkpoint. REC-1
    fn find_checkpoint(&mut self, rank: Rank) -> Result<bool, Breach> {
        if self.checkpoints.is_dead() {
            return Ok(false);
        }
        let newest = match self.rounds.goes_back_to(rank) {
            None => self.checkpoints.newest(rank),
            _ if self.plan.planted == Some(Planted::NewestOfEach) => self.checkpoints.newest(rank),
            Some(0) => None,
            Some(number) => self.checkpoints.at(rank, number as u32),
        };
        let from = match newest {
            Some(checkpoint) => (checkpoint.number, checkpoint.contents.clone()),
            None => (0, self.beginning(rank)),
        };
        self.stage.oracles.borrow().log.restarted(rank, from.0)?;
        let next = first_number(self.slots[rank.index()].life());
        self.checkpoints.fence(rank, from.0, next);
        self.collecting(rank).from = Some(from);
        Ok(true)
    }

    pub(super) fn beginning(&self, rank: Rank) -> Saved {
        let program = Program::new(self.plan, rank);
        let first = Clock(self.plan.first_clock);
        Saved {
            beginning: Beginning::new(program, self.plan.ranks, first),
            engine: None,
        }
    }

    /// Reads the determinants from the loggers. REC-2, EL-5
    fn read_events(&mut self, rank: Rank) -> Result<bool, Breach> {
        let loggers = self.loggers.clone();
        let collecting = self.collecting(rank);
        let Some((number, saved)) = &collecting.from else {
            return Ok(false);
        };
        let after = saved.beginning.clock;
        let after_checkpoint = (*number > 0).then_some(after);
        let incarnation = collecting.joining.life.incarnation;
        let held = match collecting.joining.events.held() {
            Some(HeldStore {
                collected: Some(collected),
                loggers,
                ..
            }) => Some((collected.sealed(JOB, rank), loggers.is_some())),
            _ => None,
        };
        let (held, are_logged) = held.unwrap_or((Vec::new(), true));
        let mut batches = Vec::new();
        if are_logged {
            match loggers.read(rank, incarnation, after) {
                Ok(logged) => batches = logged,
                // Too few loggers answer: try again later.
                Err(_) => return Ok(false),
            }
        }
        batches.extend(held);
        let batches = batches.iter().map(Vec::as_slice);
        let events = determinants(rank, JOB, batches, after_checkpoint);
        let events = events.map_err(|error| breach(&format!("events of rank {rank}: {error}")))?;
        let (oracles, facts) = (self.stage.oracles.borrow(), &self.stage.facts);
        if self.lossy != Some(rank) {
            let orphan = &oracles.orphan;
            orphan.judge_held(rank, &events, after_checkpoint, facts)?;
        }
        drop(oracles);
        self.collecting(rank).events = Some(events);
        Ok(true)
    }

    /// Reads the messages of one peer from its log. REC-3, LOG-2, LOG-5
    fn read_messages(&mut self, rank: Rank, peer: Rank) -> Result<bool, Breach> {
        if peer == rank {
            self.collecting(rank).messages[peer.index()] = Some(Messages::new());
            return Ok(true);
        }
        let Some((_, saved)) = &self.collecting(rank).from else {
            return Ok(false);
        };
        let from = Recollection::first_wanted(saved, peer);
        let still_runs = self.replaced.iter().any(|old| old.life.rank == peer);
        let asking = self.collecting(rank).asking.take();
        let asking = asking.filter(|(asked, _)| *asked == peer);
        let messages = match (
            &mut self.slots[peer.index()],
            self.remains[peer.index()].last(),
        ) {
            (RankSlot::Living(process), _) if process.pause_steps > 0 => None,
            // The peer's host reads nothing before the process has ended.
            _ if still_runs => None,
            (RankSlot::Living(process), _) => {
                let asking = asking.map(|(_, asking)| asking);
                let mut asking = asking.unwrap_or_else(|| Asking::new(&process.engine, rank, from));
                let heard = asking.step(&mut process.engine);
                match heard.map_err(|error| breach(&format!("log of rank {peer}: {error}")))? {
                    Heard::All(messages) => Some(messages),
                    Heard::NotYet => {
                        self.collecting(rank).asking = Some((peer, asking));
                        None
                    }
                }
            }
            (_, Some(remains)) => {
                let messages = of_remains(remains, rank, from);
                let what = |error| breach(&format!("what is left of rank {peer}: {error}"));
                Some(messages.map_err(what)?)
            }
            // The peer has not begun, or died before it did.
            (_, None) => Some(Messages::new()),
        };
        let Some(messages) = messages else {
            return Ok(true);
        };
        let payloads = payloads(&messages);
        let oracles = self.stage.oracles.borrow();
        oracles.read_back((peer, rank), from, &payloads)?;
        drop(oracles);
        self.collecting(rank).messages[peer.index()] = Some(messages);
        Ok(true)
    }

    /// At the end, whichever processes died, every log can be read back to where a restart may ask
    /// for it. LOG-2
    pub(super) fn read_all_logs(&mut self) -> Result<(), Breach> {
        let pairs = self.ranks().flat_map(|sender| {
            let others = self.ranks().filter(move |receiver| *receiver != sender);
            others.map(move |receiver| (sender, receiver))
        });
        for (sender, receiver) in pairs.collect::<Vec<_>>() {
            if self.are_in_one_set(sender, receiver) {
                continue;
            }
            let RankSlot::Living(process) = &mut self.slots[sender.index()] else {
                continue;
            };
            let from = self.stage.oracles.borrow().log.kept(sender, receiver);
            let mut asking = Asking::new(&process.engine, receiver, from);
            let wrong = |error| breach(&format!("log of rank {sender} at the end: {error}"));
            let mut messages = None;
            for _ in 0..ASKED_MAX {
                if let Heard::All(all) = asking.step(&mut process.engine).map_err(wrong)? {
                    messages = Some(all);
                    break;
                }
            }
            let Some(messages) = messages else {
                return Err(breach(&format!(
                    "the log of rank {sender} is never read to its end"
                )));
            };
            let payloads = payloads(&messages);
            let oracles = self.stage.oracles.borrow();
            oracles.read_back((sender, receiver), from, &payloads)?;
        }
        Ok(())
    }

    /// Replays the program in the reference first. REC-4, REC-5, REC-8
    fn play_again(&mut self, rank: Rank) -> Result<bool, Breach> {
        let stage = Rc::clone(&self.stage);
        let oracles = stage.oracles.borrow();
        let collecting = self.collecting(rank);
        let (Some((_, saved)), Some(determinants)) =
            (collecting.from.clone(), collecting.events.clone())
        else {
            unreachable!("both were collected");
        };
        let messages = core::mem::take(&mut collecting.messages);
        collecting.is_judged = true;
        let recollection = Recollection {
            rank,
            saved,
            determinants,
            messages: messages.into_iter().flatten().collect(),
            contributions: oracles.collective.contributions().clone(),
        };
        // A message that was matched by its first record cannot be replayed before its sender,
        // which was fenced in the middle of the message, sends the rest.
        let mut peers = self.ranks().filter(|peer| *peer != rank);
        let waits = peers.any(|peer| oracles.log.has_begun_to_send(peer, rank));
        let again = recollection.play(waits)?;
        oracles.orphan.judge_again(rank, &again, waits)?;
        if !waits {
            self.stage.count(Count::Recollections);
        }
        Ok(true)
    }
}

fn payloads(messages: &Messages) -> BTreeMap<Ssn, Vec<u8>> {
    let payload = |(ssn, message): (&Ssn, &Message)| (*ssn, message.payload.clone());
    messages.iter().map(payload).collect()
}

fn breach(what: &str) -> Breach {
    Breach {
        oracle: "recollect",
        what: what.to_owned(),
    }
}
