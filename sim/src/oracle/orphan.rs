//! What other ranks have seen of a dead rank, its next life emits again: there are no orphans.
//!
//! While a rank lives, the oracle only records: events, messages, printed words, and how many of
//! these left. When the rank is dead, the oracle judges what the next life has collected
//! ([`Orphans::judge_held`]), and what the program emits from that in the reference
//! ([`Orphans::judge_again`]). REC-2, REC-5, REC-8

use super::rule::{Oracle, Pairs, Witness, breach, digest, index};
use crate::choices::Choices;
use crate::happening::{Breach, Happening, Life};
use crate::program::{Call, Stamp};
use refrain_logging::determinant::Determinant;
use refrain_ring::{Clock, Incarnation, Rank, Ssn};

/// See the [module](self).
#[derive(Debug)]
pub struct Orphans {
    /// By (sender, receiver).
    pub(super) sent: Pairs<Sent>,
    pub(super) ranks: Vec<History>,
}

#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Digest and tag of each message.
    pub(super) made: Vec<(u64, i32)>,
    /// Number of messages, from the first one on, that were posted at least in part.
    pub(super) posted: usize,
}

#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// The life whose events count: loggers take events of the life before until the next one has
    /// joined them.
    plays: Incarnation,
    happened: Choices,
    /// Words that are output.
    pub(super) seen: Vec<u64>,
    /// Number of these words that the present life has printed again, or its checkpoint covers.
    printed_again: usize,
}

/// The emissions of a program in its replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// By receiver, one item for each rank: the messages before this one were sent before the
    /// checkpoint at which the replay begins.
    pub sent_before: Vec<Ssn>,
    /// Messages from there on, in order: receiver, tag, payload.
    pub sent: Vec<(Rank, i32, Vec<u8>)>,
    /// Number of words printed before the checkpoint.
    pub printed_before: usize,
    /// Words from there on.
    pub printed: Vec<u64>,
}

impl Orphans {
    /// The oracle of a job with `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            sent: Pairs::new(ranks),
            ranks: vec![History::default(); ranks as usize],
        }
    }

    /// Whether a message of this channel was sent by the program and never posted.
    pub fn is_held_back(&self, sender: Rank, receiver: Rank) -> bool {
        let sent = &self.sent[(sender, receiver)];
        sent.posted < sent.made.len()
    }

    /// Number of messages of this channel that were posted, at least in part.
    pub fn posted(&self, sender: Rank, receiver: Rank) -> u64 {
        self.sent[(sender, receiver)].posted as u64
    }

    /// Words of a rank that are output.
    pub fn seen(&self, rank: Rank) -> &[u64] {
        &self.ranks[rank.index()].seen
    }

    /// Judges the determinants that were collected for a rank, after the clock of its checkpoint
    /// (`None`: from the beginning). EL-5, REC-2
    ///
    /// # Errors
    /// When a determinant differs from what happened, or a stable one is missing.
    pub fn judge_held(
        &self,
        rank: Rank,
        held: &[Determinant],
        after: Option<Clock>,
        world: &dyn Witness,
    ) -> Result<(), Breach> {
        let ends = [held.first(), held.last()].map(|it| it.map(Determinant::at));
        let words = format!("{} records behind {after:?}: {ends:?}", held.len());
        let happened = &self.ranks[rank.index()].happened;
        let judged = Choices::of(held)
            .and_then(|held| happened.judge(&held, after, world.stable_clock(rank)));
        judged.map_err(|what| {
            let held = format!("of what is held of {rank} ({words})");
            breach(self.name(), format!("{held}: {what}"))
        })
    }

    /// Judges the emissions of a dead rank's program in its replay from what was collected.
    /// `may_lack`: the end may be missing, because the rest of a message that the program waits for
    /// remains to be sent. REC-5, REC-8
    ///
    /// # Errors
    /// When an emission differs from before, or one that others have seen is missing.
    pub fn judge_again(&self, rank: Rank, again: &Again, may_lack: bool) -> Result<(), Breach> {
        let wrong = |what: String| {
            let again = format!("the replay of {rank}");
            Err(breach(self.name(), format!("{again} {what}")))
        };
        let mut next = again.sent_before.clone();
        for (to, tag, payload) in &again.sent {
            let sent = &self.sent[(rank, *to)];
            let next = &mut next[to.index()];
            let made = sent.made.get(index(*next));
            // A message that no peer has seen may differ.
            let is_seen = index(*next) < sent.posted;
            if is_seen && made != Some(&(digest(payload), *tag)) {
                return wrong(format!("sends {to} another message {next}"));
            }
            *next = next.next();
        }
        for (to, next) in (0..).map(Rank).zip(next) {
            let posted = self.posted(rank, to);
            if next.0 < posted && !may_lack {
                return wrong(format!(
                    "sends {next} messages to {to}, which may have seen {posted}"
                ));
            }
        }
        let must = self.seen(rank).get(again.printed_before..);
        let (must, printed) = (must.unwrap_or_default(), &again.printed);
        let lacks = may_lack && must.starts_with(printed);
        if !printed.starts_with(must) && !lacks {
            return wrong(format!("prints {printed:?}; the output was {must:?}"));
        }
        Ok(())
    }

    fn plays(&self, life: Life) -> bool {
        self.ranks[life.rank.index()].plays == life.incarnation
    }

    fn called(&mut self, life: Life, call: &Call) {
        if let Call::Isend {
            to, tag, payload, ..
        } = call
        {
            let number = Stamp::decode(payload).map_or(0, |stamp| stamp.number);
            let number = index(Ssn(number));
            // No peer has seen the message: without a record, a later life may send another one.
            if number >= self.sent[(life.rank, *to)].posted {
                self.sent[(life.rank, *to)].made.truncate(number);
            }
            let made = &mut self.sent[(life.rank, *to)].made;
            if number == made.len() {
                made.push((digest(payload), *tag));
            }
        }
    }

    /// A later life begins. Events that loggers did not hold do not count.
    fn resumed(&mut self, life: Life, printed: usize, held: &[Determinant]) -> Result<(), String> {
        let told = &mut self.ranks[life.rank.index()];
        told.happened = Choices::of(held)?;
        told.printed_again = printed;
        told.plays = life.incarnation;
        Ok(())
    }

    /// A later life prints the same words again that were output. REC-5
    fn seen_before(&mut self, life: Life, word: u64) -> Result<(), String> {
        let told = &mut self.ranks[life.rank.index()];
        let before = told.seen.get(told.printed_again).copied();
        told.printed_again += 1;
        match before == Some(word) {
            true => Ok(()),
            false => Err(format!(
                "{life:?} prints {word} again, the output was {before:?}"
            )),
        }
    }
}

impl Oracle for Orphans {
    fn name(&self) -> &'static str {
        "orphan"
    }

    fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), String> {
        match happening {
            Happening::Event(life, event) if self.plays(*life) => {
                let told = &mut self.ranks[life.rank.index()];
                let added = told.happened.add(event);
                return added.map_err(|what| format!("{life:?}: {what}"));
            }
            Happening::Resumed {
                life,
                saved,
                events,
                ..
            } => return self.resumed(*life, saved.beginning.tally.printed, events),
            Happening::SeenBefore(life, word) => return self.seen_before(*life, *word),
            // The fence oracle judges what a replaced life posts and prints.
            Happening::Called(life, ..)
            | Happening::Posted(life, ..)
            | Happening::Seen(life, _)
                if !world.is_present(*life) => {}
            Happening::Called(life, _, call) => self.called(*life, call),
            Happening::Posted(from, to, header, _) if header.ssn.is_program() => {
                let sent = &mut self.sent[(from.rank, *to)];
                sent.posted = sent.posted.max(index(header.ssn) + 1);
            }
            Happening::Seen(life, word) => self.ranks[life.rank.index()].seen.push(*word),
            _ => {}
        }
        Ok(())
    }
}
