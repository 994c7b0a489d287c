//! Generates the plan of a round from the seed.
//!
//! # Why no plan can deadlock
//!
//! Every send may be synchronous, so a plan must end for every rank even if no
//! byte is buffered anywhere. A rank's program has four stages:
//!
//! 1. receives are posted and messages sent, only with calls that return at once: every rank
//!    reaches the end of this stage;
//! 2. more sends; those that block go only to a receiver and context of which
//!    *all* receives are posted in stage 1;
//! 3. blocking receives of messages that their senders send in stages 1 and 2,
//!    mixed with *ordered items* (blocking transfers, sendrecv): these stand in
//!    one order for the whole job, so the first unfinished item always has all
//!    its partners at it;
//! 4. everything pending is completed.
//!
//! # Why no wildcard starves a receive
//!
//! Each receiver has one receive per message in each context, and more
//! specific ones are posted before those less specific that overlap with them.
//! A message then goes to a wildcard only when all receives that are for it
//! alone are satisfied. Half-open patterns of one receiver and context are all
//! open in the same half: `(any, tag)` and `(source, any)` would overlap
//! without an order. Rounds that may overlap in time have different contexts.

use super::plan::{
    Completion, Ending, Message, MessageId, Pattern, ReceiveManner, Round, SendManner, Slot,
    SlotId, Step,
};
use super::sizes;
use crate::workload::prng::{Prng, combine};
use crate::workload::shape::Shape;

/// Minimum number of rounds between two barriers. These rounds may overlap in time, and have
/// separate contexts.
pub const EPOCH_ROUNDS: u64 = 4;
/// Contexts of one round without ordered items, with the maximum message length in each.
const FREE_CONTEXTS_BYTES_MAX: [usize; 3] = [4 << 10, 64 << 10, usize::MAX];
/// The context of ordered items.
const ORDERED: u32 = FREE_CONTEXTS_BYTES_MAX.len() as u32;
/// Maximum number of bytes that a rank sends in these contexts in a round, so that a protocol that
/// keeps payload needs little memory.
const ROUND_BYTES_MAX: usize = 4 << 20;
/// Maximum length of any message.
const GIANT_BYTES_MAX: usize = 8 << 20;
const TAGS: [i32; 8] = [0, 1, 2, 3, 77, 65_535, 1 << 20, i32::MAX];
/// Tag of receives whose message is never sent.
const TAG_NEVER: i32 = 999_983;
const TAG_ORDERED: i32 = 1000;

/// Parameters of all plans.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// The seed of the whole run.
    pub seed: u64,
    /// Number of ranks of the job.
    pub ranks: u32,
    /// Maximum length of a message in bytes, except for rare giants of up to eight times that
    /// length.
    pub bytes_max: usize,
}

/// The plan of one round: the same on every rank.
#[must_use]
pub fn round(parameters: Parameters, number: u64) -> Round {
    let seed = combine(&[parameters.seed, u64::from(parameters.ranks), number]);
    let mut generator = Generator {
        parameters,
        prng: Prng::new(seed),
        round: Round {
            number,
            ..Round::default()
        },
        drafts: (0..parameters.ranks).map(|_| Draft::default()).collect(),
        all_early: Vec::new(),
    };
    for (index, bytes_max) in FREE_CONTEXTS_BYTES_MAX.into_iter().enumerate() {
        generator.free_messages(index as u32, bytes_max.min(parameters.bytes_max));
    }
    for receiver in 0..parameters.ranks {
        for index in 0..FREE_CONTEXTS_BYTES_MAX.len() as u32 {
            generator.free_receives(receiver, index);
        }
        generator.never(receiver);
    }
    generator.choose_send_manners();
    generator.ordered_items();
    generator.programs();
    generator.ending();
    generator.round
}

/// The steps of one rank, not yet merged into one sequence.
#[derive(Debug, Default)]
struct Draft {
    /// Posts of stage 1, a sequence for each context.
    early: Vec<Vec<Step>>,
    /// Receives of stage 3, a sequence for each context.
    late: Vec<Vec<Step>>,
    /// Sends that return at once.
    immediate: Vec<Step>,
    /// Sends that may block.
    blocking: Vec<Step>,
    /// The rank's part of the ordered items.
    ordered: Vec<Step>,
}

struct Generator {
    parameters: Parameters,
    prng: Prng,
    round: Round,
    drafts: Vec<Draft>,
    /// Receivers and contexts whose receives are all posted in stage 1.
    all_early: Vec<(u32, u32)>,
}

impl Generator {
    fn ranks(&self) -> usize {
        self.parameters.ranks as usize
    }

    fn context(&self, index: u32) -> u32 {
        let rounds = (self.round.number % EPOCH_ROUNDS) as u32;
        1 + rounds * (ORDERED + 1) + index
    }

    fn any_rank(&mut self) -> u32 {
        self.prng.below(self.ranks()) as u32
    }

    /// A source, or `None` for any source.
    fn any_source(&mut self) -> Option<u32> {
        self.prng.chance(2).then(|| self.any_rank())
    }

    fn message(
        &mut self,
        source: u32,
        destination: u32,
        context: u32,
        tag: i32,
        bytes: usize,
    ) -> MessageId {
        let id = self.round.messages.len();
        let (seed, number) = (self.parameters.seed, self.round.number);
        self.round.messages.push(Message {
            source,
            destination,
            context,
            tag,
            manner: SendManner::Isend,
            shape: Shape::random(&mut self.prng, bytes),
            bytes,
            seed: combine(&[seed, number, u64::from(source), id as u64]),
        });
        id
    }

    fn free_messages(&mut self, index: u32, bytes_max: usize) {
        let context = self.context(index);
        let tags: Vec<i32> = (0..self.prng.between(1, 4))
            .map(|_| self.prng.pick(&TAGS))
            .collect();
        for _ in 0..self.prng.below((6 >> index) * self.ranks() + 1) {
            let source = self.any_rank();
            let destination = match self.prng.chance(8) {
                true => source,
                false => self.any_rank(),
            };
            let tag = self.prng.pick(&tags);
            let bytes = sizes::random(&mut self.prng, bytes_max).min(self.bytes_left(source));
            self.message(source, destination, context, tag, bytes);
        }
        if index == 0 && self.prng.chance(6) {
            let (source, destination) = (self.any_rank(), self.any_rank());
            for _ in 0..self.prng.between(30, 150) {
                let tag = self.prng.pick(&tags);
                let bytes = self.prng.below(256.min(bytes_max) + 1);
                self.message(source, destination, context, tag, bytes);
            }
        }
    }

    fn bytes_left(&self, source: u32) -> usize {
        let own = self.round.messages.iter().filter(|it| it.source == source);
        ROUND_BYTES_MAX.saturating_sub(own.map(|message| message.bytes).sum())
    }

    fn slot(
        &mut self,
        receiver: u32,
        pattern: Pattern,
        manner: ReceiveManner,
        bytes: usize,
        exact: bool,
    ) -> SlotId {
        let id = self.round.slots.len();
        let room_bytes = match self.prng.below(8) {
            0 if !exact => self.prng.below(bytes + 1),
            1 | 2 => bytes + self.prng.below(100),
            _ => bytes,
        };
        self.round.slots.push(Slot {
            receiver,
            pattern,
            manner,
            shape: Shape::random(&mut self.prng, room_bytes),
            room_bytes,
            may_truncate: bytes > room_bytes,
        });
        id
    }

    fn free_receives(&mut self, receiver: u32, index: u32) {
        let context = self.context(index);
        let patterns = self.free_patterns(receiver, context);
        let early = match self.prng.below(3) {
            0 => 0,
            1 => patterns.len(),
            _ => self.prng.below(patterns.len() + 1),
        };
        if early == patterns.len() {
            self.all_early.push((receiver, context));
        }
        let mut steps = Vec::with_capacity(patterns.len());
        for (place, (pattern, bytes)) in patterns.into_iter().enumerate() {
            let immediate = place < early || self.prng.chance(2);
            let manner = self.receive_manner(immediate);
            let slot = self.slot(receiver, pattern, manner, bytes, false);
            steps.push(match immediate {
                true => Step::Post(slot),
                false => Step::Receive(slot),
            });
        }
        let draft = &mut self.drafts[receiver as usize];
        draft.late.push(steps.split_off(early));
        draft.early.push(steps);
    }

    /// A pattern for each message to `receiver` in `context`, each with the length of the longest
    /// message that it admits, most specific first.
    fn free_patterns(&mut self, receiver: u32, context: u32) -> Vec<(Pattern, usize)> {
        let open_source = self.prng.chance(2);
        let openness = self.prng.pick(&[0, 1, 2, 4]);
        let here = |it: &&Message| it.destination == receiver && it.context == context;
        let messages: Vec<&Message> = self.round.messages.iter().filter(here).collect();
        let mut patterns = Vec::with_capacity(messages.len());
        for message in &messages {
            let open = match self.prng.below(4) < openness {
                true => self.prng.between(1, 2),
                false => 0,
            };
            let pattern = Pattern {
                context,
                source: (open == 0 || (open == 1 && !open_source)).then_some(message.source),
                tag: (open == 0 || (open == 1 && open_source)).then_some(message.tag),
            };
            let admitted = messages.iter().filter(|message| pattern.admits(message));
            let longest = admitted.map(|message| message.bytes).max();
            patterns.push((pattern, longest.unwrap_or(0)));
        }
        self.prng.shuffle(&mut patterns);
        patterns.sort_by_key(|(pattern, _)| pattern.wildcards());
        patterns
    }

    fn receive_manner(&mut self, immediate: bool) -> ReceiveManner {
        match immediate {
            true => self.prng.pick(&ReceiveManner::IMMEDIATE),
            false => self.prng.pick(&ReceiveManner::BLOCKING),
        }
    }

    fn send_manner(&mut self, blocks: bool) -> SendManner {
        match blocks {
            true => self.prng.pick(&SendManner::BLOCKING),
            false => self.prng.pick(&SendManner::IMMEDIATE),
        }
    }

    fn any_context(&mut self) -> u32 {
        let index = self.prng.below(ORDERED as usize + 1) as u32;
        self.context(index)
    }

    /// Adds, at random, a receive for a message that is never sent.
    fn never(&mut self, receiver: u32) {
        if self.prng.chance(3) {
            let source = self.any_source();
            let pattern = Pattern {
                context: self.any_context(),
                source,
                tag: Some(TAG_NEVER),
            };
            let bytes = self.prng.below(200);
            let slot = self.slot(receiver, pattern, ReceiveManner::CancelNever, bytes, true);
            let draft = &mut self.drafts[receiver as usize];
            let stage = match self.prng.chance(2) {
                true => &mut draft.early,
                false => &mut draft.late,
            };
            stage.push(vec![Step::Post(slot)]);
        }
    }

    fn choose_send_manners(&mut self) {
        for id in 0..self.round.messages.len() {
            let Message {
                source,
                destination,
                context,
                ..
            } = self.round.messages[id];
            let may_block = self.all_early.contains(&(destination, context));
            let blocks = may_block && self.prng.chance(2);
            self.round.messages[id].manner = self.send_manner(blocks);
            let draft = &mut self.drafts[source as usize];
            let sends = match blocks {
                true => &mut draft.blocking,
                false => &mut draft.immediate,
            };
            sends.push(Step::Send(id));
        }
    }

    fn ordered_items(&mut self) {
        for item in 0..self.prng.below(self.ranks() + 3) {
            let tag = TAG_ORDERED + item as i32;
            let source = self.any_rank();
            let other =
                (source as usize + self.prng.between(1, self.ranks().max(2) - 1)) % self.ranks();
            match self.prng.below(4) {
                0 => self.shift(tag),
                _ if other == source as usize => self.shift(tag),
                1 => self.repeated_transfer(source, other as u32, tag),
                _ => self.transfer(source, other as u32, tag),
            }
        }
    }

    /// The pattern of an ordered receive. Ordered messages of a pair arrive in the order of the
    /// items, so the tag may be a wildcard; the tag belongs to one item only, so the source may be
    /// a wildcard.
    fn ordered_pattern(&mut self, source: u32, tag: i32) -> Pattern {
        let open = self.prng.below(3);
        Pattern {
            context: self.context(ORDERED),
            source: (open != 1).then_some(source),
            tag: (open != 2).then_some(tag),
        }
    }

    fn ordered_bytes(&mut self) -> usize {
        let bytes_max = self.parameters.bytes_max;
        if self.prng.chance(64) {
            let giant = bytes_max.saturating_mul(8).min(GIANT_BYTES_MAX);
            return sizes::long(&mut self.prng, bytes_max, giant.max(bytes_max));
        }
        sizes::random(&mut self.prng, bytes_max)
    }

    fn order(&mut self, rank: u32, step: Step) {
        self.drafts[rank as usize].ordered.push(step);
    }

    fn transfer(&mut self, source: u32, destination: u32, tag: i32) {
        let bytes = self.ordered_bytes();
        let context = self.context(ORDERED);
        let message = self.message(source, destination, context, tag, bytes);
        let blocks = self.prng.chance(2);
        self.round.messages[message].manner = self.send_manner(blocks);
        let pattern = self.ordered_pattern(source, tag);
        let immediate = self.prng.chance(3);
        let manner = self.receive_manner(immediate);
        let slot = self.slot(destination, pattern, manner, bytes, false);
        self.order(source, Step::SendAndWait(message));
        self.order(destination, Step::Receive(slot));
    }

    fn repeated_transfer(&mut self, source: u32, destination: u32, tag: i32) {
        let bytes = sizes::random(&mut self.prng, self.parameters.bytes_max.min(256 << 10));
        let context = self.context(ORDERED);
        let first = self.message(source, destination, context, tag, bytes);
        self.round.messages[first].manner = self
            .prng
            .pick(&[SendManner::Persistent, SendManner::PersistentSynchronous]);
        let times = self.prng.between(2, 4);
        let repeated = self.round.messages[first].clone();
        self.round
            .messages
            .extend(std::iter::repeat_n(repeated, times - 1));
        let pattern = self.ordered_pattern(source, tag);
        let slot = self.slot(destination, pattern, ReceiveManner::Persistent, bytes, true);
        self.order(
            source,
            Step::SendRepeatedly((first..first + times).collect()),
        );
        self.order(destination, Step::ReceiveRepeatedly(slot, times));
    }

    /// Every rank sends to the rank at the same distance, at the same time.
    fn shift(&mut self, tag: i32) {
        let ranks = self.parameters.ranks;
        let distance = self.any_rank();
        let context = self.context(ORDERED);
        let mut messages = Vec::new();
        for source in 0..ranks {
            let bytes = sizes::random(&mut self.prng, self.parameters.bytes_max);
            let message = self.message(source, (source + distance) % ranks, context, tag, bytes);
            self.round.messages[message].manner = SendManner::Sendrecv;
            messages.push(message);
        }
        for receiver in 0..ranks {
            let source = (receiver + ranks - distance) % ranks;
            let bytes = self.round.messages[messages[source as usize]].bytes;
            let pattern = self.ordered_pattern(source, tag);
            let slot = self.slot(receiver, pattern, ReceiveManner::Sendrecv, bytes, true);
            self.order(receiver, Step::Exchange(messages[receiver as usize], slot));
        }
    }

    fn programs(&mut self) {
        // Barriers after receives are posted, and after messages are sent.
        let (after_posts, after_sends) = (self.prng.chance(4), self.prng.chance(4));
        for mut draft in std::mem::take(&mut self.drafts) {
            self.prng.shuffle(&mut draft.immediate);
            self.prng.shuffle(&mut draft.blocking);
            let cut = self.prng.below(draft.immediate.len() + 1);
            let second = draft.immediate.split_off(cut);
            draft.early.push(draft.immediate);
            let awaits = (0..self.prng.below(5))
                .map(|_| Step::Await(self.prng.pick(&Completion::ALL)))
                .collect();
            draft.late.extend([draft.ordered, awaits]);

            let mut program = self.stage(draft.early);
            program.extend(after_posts.then_some(Step::Barrier));
            program.extend(self.stage(vec![second, draft.blocking]));
            program.extend(after_sends.then_some(Step::Barrier));
            program.extend(self.stage(draft.late));
            self.round.programs.push(program);
        }
    }

    /// Merges sequences, with a few steps between them that depend on no other rank.
    fn stage(&mut self, mut sequences: Vec<Vec<Step>>) -> Vec<Step> {
        let idle = (0..self.prng.below(5)).map(|_| self.idle_step()).collect();
        sequences.push(idle);
        self.prng.merge(sequences)
    }

    fn idle_step(&mut self) -> Step {
        if self.prng.chance(2) {
            return Step::Poke(self.prng.pick(&Completion::TESTS));
        }
        Step::Iprobe(Pattern {
            context: self.any_context(),
            source: self.any_source(),
            tag: self.prng.chance(2).then(|| self.prng.pick(&TAGS)),
        })
    }

    fn ending(&mut self) {
        let is_last = self.round.number % EPOCH_ROUNDS == EPOCH_ROUNDS - 1;
        self.round.publishes = (0..self.ranks())
            .map(|_| is_last || self.prng.chance(4))
            .collect();
        self.round.ends_with = match self.prng.below(8) {
            0 => Ending::Fence,
            1 => Ending::Barrier,
            _ if is_last => Ending::Barrier,
            _ => Ending::Open,
        };
    }
}
