//! Logs keep what a restart may ask for, and it can be read back.
//!
//! A rank restarts from its newest stable checkpoint, or from the one before it as long as that is
//! not superseded (GC-1). It asks its peers for the messages that were not delivered to its program
//! before that checkpoint: a message that was only received is asked for again (LOG-4). These
//! messages are kept, and the determinants after that checkpoint. Until then, a message that has
//! left completely is in its sender's log, bit for bit (LOG-1, LOG-2, LOG-5), and so is a delivered
//! one. A message that waits at the gate need not be in the log: its sender sends it again.

use super::rule::{Oracle, Pairs, Witness, breach, digest, index};
use crate::explorer::hash_words;
use crate::happening::{Breach, Happening, Life};
use crate::plan::Process;
use crate::program::{Answer, Call, Stamp};
use crate::saved::{Delivered, delivered_by};
use refrain_ring::{Clock, Incarnation, Rank, RecordHeader, Ssn};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash};

/// LOG-1, LOG-2, LOG-4, LOG-5, GC-1; see the [module](self).
#[derive(Debug)]
pub struct Logs {
    /// By (sender, receiver).
    sent: Pairs<Vec<Sent>>,
    /// By (sender, receiver): the first message that the log keeps.
    kept: Pairs<Ssn>,
    ranks: Vec<Present>,
    /// A rank whose events are lost, if any: it may send other messages instead of those that no
    /// program got. REC-9
    lossy: Option<Rank>,
    /// By rank, the number of its correlated set; empty: each is alone. SET-1
    pub set_of_rank: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    digest: u64,
    /// Number of bytes that have not left; `None`: not even the beginning has.
    left_bytes: Option<u64>,
    bytes: u64,
    is_delivered: bool,
}

#[derive(Clone, Debug)]
struct Present {
    /// Whether the first life has ended: later ones may send messages that the first has not sent.
    was_replaced: bool,
    /// By sender: the messages that were delivered.
    delivered: Vec<Delivered>,
    /// Collectives that have ended.
    ended: BTreeSet<u32>,
    /// By number, from 0 (the beginning of the program), without superseded ones.
    checkpoints: BTreeMap<u32, Taken>,
}

/// A checkpoint, and the messages delivered before it.
#[derive(Clone, Debug)]
struct Taken {
    /// The clock of the checkpoint; `None` for the beginning of the program.
    clock: Option<Clock>,
    delivered: Vec<Delivered>,
    ended: BTreeSet<u32>,
    is_stable: bool,
}

impl Logs {
    /// The oracle of a job with `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        let nothing = vec![Delivered::default(); ranks as usize];
        let beginning = Taken {
            clock: None,
            delivered: nothing.clone(),
            ended: BTreeSet::new(),
            is_stable: true,
        };
        let present = Present {
            was_replaced: false,
            delivered: nothing,
            ended: BTreeSet::new(),
            checkpoints: [(0, beginning)].into(),
        };
        Self {
            sent: Pairs::new(ranks),
            kept: Pairs::new(ranks),
            ranks: vec![present; ranks as usize],
            lossy: None,
            set_of_rank: Vec::new(),
        }
    }

    /// Loggers have lost events of this rank. REC-9
    pub fn lose_events(&mut self, rank: Rank) {
        self.lossy = Some(rank);
    }

    /// The first message that the log of `sender` to `receiver` keeps.
    pub fn kept(&self, sender: Rank, receiver: Rank) -> Ssn {
        self.kept[(sender, receiver)]
    }

    /// Judges the messages that the real readers returned from a log: every message that must be
    /// there from `from` on, and no message that was never sent.
    ///
    /// # Errors
    /// When a message is missing or differs. LOG-1, LOG-2, LOG-5
    pub fn read_back(
        &self,
        sender: Rank,
        receiver: Rank,
        from: Ssn,
        messages: &BTreeMap<Ssn, Vec<u8>>,
    ) -> Result<(), Breach> {
        let sent = &self.sent[(sender, receiver)];
        let wrong = |ssn: usize, what: &str| {
            let what = format!("message {ssn} in the log of {sender} to {receiver}: {what}");
            Err(breach(self.name(), what))
        };
        let first = index(from.max(self.kept[(sender, receiver)]));
        for (ssn, sent) in sent.iter().enumerate().skip(first) {
            let has_left = sent.left_bytes == Some(0) || sent.is_delivered;
            if has_left && !messages.contains_key(&Ssn(ssn as u64)) {
                return wrong(ssn, "it has left, and cannot be read back");
            }
        }
        for (ssn, payload) in messages.iter().filter(|(ssn, _)| ssn.is_program()) {
            match sent.get(index(*ssn)) {
                Some(sent) if sent.digest == digest(payload) => {}
                // No peer has seen the message: a later life sent another one.
                Some(sent)
                    if sent.left_bytes.is_none() && self.ranks[sender.index()].was_replaced => {}
                Some(_) => return wrong(index(*ssn), "it is not what was sent"),
                // A replaced life may have sent messages that were not observed.
                None if self.ranks[sender.index()].was_replaced => {}
                None => return wrong(index(*ssn), "it was never sent"),
            }
        }
        Ok(())
    }

    /// Whether a restart of a rank may need the messages of this collective.
    pub fn may_need(&self, rank: Rank, id: u32) -> bool {
        self.restarts(rank)
            .any(|(_, taken)| !taken.ended.contains(&id))
    }

    /// Whether only a part of some message has left its sender: the receiver may have matched the
    /// message, and the rest remains to be sent.
    pub fn has_begun_to_send(&self, sender: Rank, receiver: Rank) -> bool {
        let sent = self.sent[(sender, receiver)].iter();
        sent.rev()
            .any(|sent| sent.left_bytes.is_some_and(|left| left > 0))
    }

    /// Judges the choice of the checkpoint from which a life starts.
    ///
    /// # Errors
    /// When the checkpoint is older than the newest stable one, or was never taken. REC-1, GC-1
    pub fn restarted(&self, rank: Rank, number: u32) -> Result<(), Breach> {
        let newest = self.restarts(rank).next().map_or(0, |(newest, _)| *newest);
        let is_taken = self.ranks[rank.index()].checkpoints.contains_key(&number);
        if number >= newest && is_taken {
            return Ok(());
        }
        let from = format!("{rank} is started again from checkpoint {number}");
        let what = format!("{from}, though {newest} was called stable");
        Err(breach(self.name(), what))
    }

    /// The checkpoints from which a restart may begin: the newest stable one, and the one before it
    /// if it is not superseded.
    fn restarts(&self, rank: Rank) -> impl Iterator<Item = (&u32, &Taken)> {
        let checkpoints = self.ranks[rank.index()].checkpoints.iter().rev();
        checkpoints.filter(|(_, taken)| taken.is_stable).take(2)
    }

    /// Hashes its state, without messages that never left.
    pub(super) fn hash_into(&self, hash: &mut DefaultHasher) {
        hash_words(hash, &(&self.kept, &self.ranks));
        for sent in &self.sent.places {
            for sent in sent.iter().filter(|sent| sent.left_bytes.is_some()) {
                (sent.left_bytes, sent.is_delivered).hash(hash);
            }
            0.hash(hash);
        }
    }

    /// The next life has what its newest stable checkpoint covers.
    fn died(&mut self, rank: Rank) {
        let newest = self.restarts(rank).next();
        let newest = newest.map(|(_, taken)| (taken.delivered.clone(), taken.ended.clone()));
        let present = &mut self.ranks[rank.index()];
        if let Some(newest) = newest {
            (present.delivered, present.ended) = newest;
        }
    }

    /// A life has begun with this checkpoint, so it is stable; later ones are void.
    fn resumed(&mut self, life: Life, number: u32) {
        let present = &mut self.ranks[life.rank.index()];
        if let Some(taken) = present.checkpoints.get_mut(&number) {
            taken.is_stable = true;
            present.delivered = taken.delivered.clone();
            present.ended = taken.ended.clone();
        }
        present.checkpoints.retain(|of, _| *of <= number);
    }

    fn called(&mut self, life: Life, call: &Call) {
        if let Call::Isend { to, payload, .. } = call {
            let number = Stamp::decode(payload).map_or(0, |stamp| stamp.number);
            let sent = &mut self.sent[(life.rank, *to)];
            let number = index(Ssn(number));
            let digest = digest(payload);
            let is_lossy = self.lossy == Some(life.rank);
            // No peer has seen the message: without a record, a later life may send another one.
            let may_be_another = |it: &Sent| {
                it.left_bytes.is_none() || is_lossy && !it.is_delivered && it.digest != digest
            };
            if sent.get(number).is_some_and(may_be_another) {
                sent.truncate(number);
            }
            if number == sent.len() {
                sent.push(Sent {
                    digest,
                    left_bytes: None,
                    bytes: payload.len() as u64,
                    is_delivered: false,
                });
            }
        }
    }

    fn posted(&mut self, from: Life, to: Rank, header: &RecordHeader) {
        if let Some(sent) = self.sent[(from.rank, to)].get_mut(index(header.ssn)) {
            let left = sent.left_bytes.unwrap_or(sent.bytes);
            sent.left_bytes = Some(left.saturating_sub(header.payload_bytes.into()));
        }
    }

    fn answered(&mut self, life: Life, answer: &Answer) {
        if let Answer::Ended(all) = answer {
            let ended = all.iter().filter_map(|ended| ended.collective);
            self.ranks[life.rank.index()].ended.extend(ended);
        }
        for (source, ssn) in delivered_by(answer) {
            let present = &mut self.ranks[life.rank.index()];
            present.delivered[source.index()].add(ssn);
            let sent = &mut self.sent[(source, life.rank)];
            if let Some(sent) = sent.get_mut(index(ssn)) {
                sent.is_delivered = true;
            }
        }
    }

    fn taken(&mut self, life: Life, number: u32, clock: Clock) {
        let present = &mut self.ranks[life.rank.index()];
        let taken = Taken {
            clock: Some(clock),
            delivered: present.delivered.clone(),
            ended: present.ended.clone(),
            is_stable: false,
        };
        present.checkpoints.insert(number, taken);
    }

    fn stable(&mut self, rank: Rank, number: u32) -> Result<(), String> {
        let checkpoints = &mut self.ranks[rank.index()].checkpoints;
        let taken = checkpoints.get_mut(&number);
        let not_taken = || format!("checkpoint {number} of {rank} is stable, and was not taken");
        taken.ok_or_else(not_taken)?.is_stable = true;
        Ok(())
    }

    fn superseded(&mut self, rank: Rank, number: u32) -> Result<(), String> {
        let checkpoints = &mut self.ranks[rank.index()].checkpoints;
        let mut newer = checkpoints.range(number + 1..);
        if !newer.any(|(_, taken)| taken.is_stable) {
            return Err(format!(
                "checkpoint {number} of {rank} is superseded by none that is stable"
            ));
        }
        *checkpoints = checkpoints.split_off(&(number + 1));
        Ok(())
    }

    fn freed(&mut self, sender: Rank, receiver: Rank, first: Ssn) -> Result<(), String> {
        let set_of = |rank: Rank| self.set_of_rank.get(rank.index());
        if set_of(sender).is_some() && set_of(sender) == set_of(receiver) {
            return Ok(());
        }
        for (number, taken) in self.restarts(receiver) {
            let asked = taken.delivered[sender.index()].before;
            if first > asked {
                return Err(format!(
                    "{sender} frees what it sent to {receiver} below {first}; from checkpoint \
                     {number} on {receiver} asks for {asked}"
                ));
            }
        }
        let kept = &mut self.kept[(sender, receiver)];
        *kept = first.max(*kept);
        Ok(())
    }

    /// Loggers trim no determinants that a restart may ask for.
    fn forgotten(&self, rank: Rank, world: &dyn Witness) -> Result<(), String> {
        let Some(forgotten) = world.forgotten_clock(rank) else {
            return Ok(());
        };
        for (number, Taken { clock, .. }) in self.restarts(rank) {
            if *clock < Some(forgotten) {
                return Err(format!(
                    "loggers have forgotten what happened to {rank} up to clock {forgotten}; \
                     checkpoint {number} is of {clock:?}"
                ));
            }
        }
        Ok(())
    }
}

impl Oracle for Logs {
    fn name(&self) -> &'static str {
        "log"
    }

    fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), String> {
        match happening {
            Happening::Began(life) => {
                let ranks = &mut self.ranks[life.rank.index()];
                ranks.was_replaced = life.incarnation > Incarnation(0);
            }
            Happening::Resumed { life, number, .. } => self.resumed(*life, *number),
            Happening::Called(life, ..)
            | Happening::Answered(life, ..)
            | Happening::Posted(life, ..)
                if !world.is_present(*life) => {}
            Happening::Called(life, _, call) => self.called(*life, call),
            Happening::Answered(life, _, answer) => self.answered(*life, answer),
            Happening::Posted(from, to, header, _) if header.ssn.is_program() => {
                self.posted(*from, *to, header);
            }
            Happening::CheckpointTaken(life, number, clock) => self.taken(*life, *number, *clock),
            Happening::CheckpointStable(rank, number) => {
                self.stable(*rank, *number)?;
                return self.forgotten(*rank, world);
            }
            Happening::CheckpointsSuperseded(rank, number) => {
                self.superseded(*rank, *number)?;
                return self.forgotten(*rank, world);
            }
            Happening::Freed(sender, receiver, first) => {
                return self.freed(*sender, *receiver, *first);
            }
            Happening::Died(Process::Rank(rank)) => {
                self.died(*rank);
                return self.forgotten(*rank, world);
            }
            _ => {}
        }
        Ok(())
    }

    fn at_end(&mut self, world: &dyn Witness) -> Result<(), String> {
        (0..self.ranks.len() as u32).try_for_each(|rank| self.forgotten(Rank(rank), world))
    }
}
