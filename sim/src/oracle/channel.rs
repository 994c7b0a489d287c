//! Messages arrive as they were sent: each once, complete, in order.
//!
//! Frames: the frames from one life of a sender to one receiver begin messages in the order of
//! their SSNs, without a gap; each fragment begins where the one before ends, until the message is
//! complete; its bytes are those that the program gave. Messages: none is delivered to a program
//! twice or changed, nor with other arbitrary bytes to a later life of the program (REC-8); of two
//! messages of one sender that match the same pattern, the earlier one goes to the receive that was
//! posted earlier. At the end of the job every program has ended and has received each message that
//! was sent to it once.
//! sent to it once.

use super::rule::{Oracle, Pairs, Witness, index};
use crate::explorer::hash_words;
use crate::happening::{Happening, Life};
use crate::plan::Process;
use crate::plan::STAMP_BYTES;
use crate::program::{Answer, Call, Ended, From, RequestNumber, Stamp, garbage, is_part};
use crate::saved::Delivered;
use refrain_ring::{Frontier, Incarnation, Rank, RecordHeader, RecordKind, Ssn, Stream};
use refrain_transport::control::Control;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash};

/// See the [module](self).
#[derive(Debug)]
pub struct Channels {
    /// By (sender, receiver).
    sent: Pairs<Vec<Sent>>,
    posting: Pairs<Posting>,
    /// By (sender, receiver): the first message of each stream that each life of the receiver has
    /// asked for, while the sender may still answer that life. REC-3
    missed: Pairs<BTreeMap<Incarnation, Frontier>>,
    /// By sender: whether it has sent on other streams than the program's.
    has_steps: Vec<bool>,
    /// Whether steps of closed collectives may be left out. WHOLE-5
    pub leaves_out: bool,
    /// By receiver.
    receiving: Vec<Receiving>,
    /// A rank whose events are lost, if any: it may send other messages instead of those that were
    /// posted and that no program got. The outcome oracle judges what programs got. REC-9
    lossy: Option<Rank>,
    /// By rank, the number of its correlated set; empty: each is alone. SET-1
    pub set_of_rank: Vec<u32>,
}

/// A message that a program has sent.
#[derive(Debug)]
struct Sent {
    payload: Vec<u8>,
    tag: i32,
    synchronous: bool,
    /// Whether a peer may have seen the message.
    has_left: bool,
    /// The arbitrary bytes in the message at its first reception. REC-8
    garbage: Option<Vec<u8>>,
}

impl Sent {
    /// Judges the first frame of the message.
    fn judge_envelope(&self, header: &RecordHeader) -> Result<(), &'static str> {
        let wants_answer = header.flags & RecordHeader::WANT_ACK != 0;
        if (header.tag, wants_answer) != (self.tag, self.synchronous) {
            return Err("its envelope is another");
        }
        if header.extent != self.payload.len() as u64 {
            return Err("its length is another");
        }
        Ok(())
    }
}

/// The frames that one life has posted to a receiver.
#[derive(Debug, Default)]
struct Posting {
    next: BTreeMap<Stream, Ssn>,
    /// Incomplete messages, with the number of bytes posted and their lengths.
    open: BTreeMap<Ssn, (u64, u64)>,
}

/// A pattern (source, tag), and a sender.
type Class = (Option<Rank>, Option<i32>, Rank);

/// The receives of one life.
#[derive(Debug, Default)]
struct Receiving {
    /// The pattern of the receive that is being posted.
    posts: Option<From>,
    /// Patterns of receives that have not ended.
    patterns: BTreeMap<RequestNumber, From>,
    /// By pattern and sender: the message that each receive got.
    given: BTreeMap<Class, BTreeMap<RequestNumber, u64>>,
    /// By sender: the messages that were delivered.
    delivered: BTreeMap<Rank, Delivered>,
    /// Whether the program has ended.
    is_over: bool,
}

impl Channels {
    /// The oracle of a job with `ranks` ranks.
    pub fn new(ranks: u32) -> Self {
        Self {
            sent: Pairs::new(ranks),
            posting: Pairs::new(ranks),
            missed: Pairs::new(ranks),
            has_steps: vec![false; ranks as usize],
            leaves_out: false,
            receiving: (0..ranks).map(|_| Receiving::default()).collect(),
            lossy: None,
            set_of_rank: Vec::new(),
        }
    }

    /// Whether a log keeps the messages of one rank to another.
    fn is_kept(&self, sender: Rank, receiver: Rank) -> bool {
        let set_of = |rank: Rank| self.set_of_rank.get(rank.index());
        sender != receiver && (set_of(sender).is_none() || set_of(sender) != set_of(receiver))
    }

    /// Loggers have lost events of this rank. REC-9
    pub fn lose_events(&mut self, rank: Rank) {
        self.lossy = Some(rank);
    }

    /// Hashes its state, without messages that never left.
    pub(super) fn hash_into(&self, hash: &mut DefaultHasher) {
        hash_words(hash, &(&self.posting, &self.missed, &self.receiving));
        for sent in &self.sent.places {
            for sent in sent.iter().filter(|sent| sent.has_left) {
                (&sent.payload, sent.tag, &sent.garbage).hash(hash);
            }
            0.hash(hash);
        }
    }

    fn began(&mut self, rank: Rank) {
        self.posting.row(rank).fill_with(Posting::default);
        self.missed.row(rank).fill_with(BTreeMap::new);
        self.receiving[rank.index()] = Receiving::default();
    }

    /// The program does not get messages again that its checkpoint covers.
    fn resumed(&mut self, life: Life, delivered: &[Delivered]) {
        let receiving = &mut self.receiving[life.rank.index()];
        receiving.delivered = (0..).map(Rank).zip(delivered.iter().cloned()).collect();
    }

    /// The lane to a peer begins anew with the next connection.
    fn fenced(&mut self, by: Life, of: Life) {
        self.posting[(by.rank, of.rank)] = Posting::default();
        let missed = &mut self.missed[(by.rank, of.rank)];
        missed.retain(|life, _| *life > of.incarnation);
    }

    fn called(&mut self, life: Life, call: &Call) -> Result<(), String> {
        let receiving = &mut self.receiving[life.rank.index()];
        receiving.posts = match call {
            Call::Irecv { from, .. } | Call::Recv { from, .. } => Some(*from),
            _ => None,
        };
        receiving.is_over |= *call == Call::Finish;
        self.has_steps[life.rank.index()] |= matches!(call, Call::Collective(_));
        let Call::Isend {
            to,
            tag,
            payload,
            synchronous,
        } = call
        else {
            return Ok(());
        };
        let sent = &mut self.sent[(life.rank, *to)];
        let stamp =
            Stamp::decode(payload).map(|stamp| (stamp.source, stamp.destination, stamp.number));
        let number = match stamp {
            Some((source, destination, number)) if (source, destination) == (life.rank, *to) => {
                index(Ssn(number))
            }
            _ => return Err(format!("{life:?} sends {stamp:?} to {to}")),
        };
        let message = Sent {
            payload: payload.clone(),
            tag: *tag,
            synchronous: *synchronous,
            has_left: false,
            garbage: None,
        };
        match sent.get(number) {
            // No peer has seen the message: without a record, a later life may send another one.
            Some(first) if !first.has_left => {
                sent.truncate(number);
                sent.push(message);
            }
            None if number == sent.len() => sent.push(message),
            None => {
                let sent = sent.len();
                return Err(format!("{life:?} sends {to} number {number} after {sent}"));
            }
            // A later life sends the message again. REC-8
            Some(first) if first.payload == message.payload && first.tag == *tag => {}
            Some(_) if self.lossy == Some(life.rank) => {
                sent[number] = Sent {
                    has_left: true,
                    ..message
                };
            }
            Some(_) => {
                return Err(format!(
                    "{life:?} sends {to} another message {number} than its earlier life"
                ));
            }
        }
        Ok(())
    }

    fn judge_frame(
        &mut self,
        from: Life,
        to: Rank,
        (header, payload): (&RecordHeader, &[u8]),
        world: &dyn Witness,
    ) -> Result<(), &'static str> {
        let ssn = header.ssn;
        if (header.source, header.incarnation) != (from.rank, from.incarnation) {
            return Err("it names another sender");
        }
        if header.payload_bytes as usize != payload.len() {
            return Err("its payload is not as long as it says");
        }
        if !world.is_present(from) {
            return Ok(());
        }
        // Results are given to whom asks, in no order. WHOLE-2
        if ssn.stream() == Stream::RESULTS {
            return Ok(());
        }
        // The contents of steps are judged by the oracle of collectives.
        if !ssn.is_program() {
            return self.judge_order(from.rank, to, header).map(drop);
        }
        let sent = self.sent[(from.rank, to)].get_mut(index(ssn));
        sent.ok_or("no program sent it")?.has_left = true;
        let at = self.judge_order(from.rank, to, header)?;
        let sent = &self.sent[(from.rank, to)][index(ssn)];
        if header.kind != RecordKind::Fragment {
            sent.judge_envelope(header)?;
        }
        let is_sent = usize::try_from(at).is_ok_and(|at| is_part(&sent.payload, at, payload));
        if !is_sent {
            return Err("its bytes are not those that were sent");
        }
        Ok(())
    }

    /// Judges the place of a frame among those of its lane. Returns where it begins in its message.
    fn judge_order(
        &mut self,
        from: Rank,
        to: Rank,
        header: &RecordHeader,
    ) -> Result<u64, &'static str> {
        let (ssn, has_steps) = (header.ssn, self.has_steps[from.index()]);
        let leaves_out = self.leaves_out;
        let posting = &mut self.posting[(from, to)];
        let (at, bytes) = match header.kind {
            RecordKind::Link => return Err("a link is no frame"),
            RecordKind::Fragment => match posting.open.remove(&ssn) {
                Some((before, bytes)) if before == header.extent => (before, bytes),
                Some(_) => return Err("it does not begin where the previous one ended"),
                None => return Err("its message has not begun, or is whole already"),
            },
            RecordKind::Eager | RecordKind::Rendezvous => {
                let begins = &self.missed[(from, to)];
                // Streams are mixed in the log, so the lane may begin before what was asked for.
                let may_begin = |missed: &Frontier| {
                    let missed = missed.of(ssn.stream());
                    let is_left_out = leaves_out && !ssn.is_program();
                    ssn == missed || has_steps && ssn < missed || is_left_out
                };
                let is_next = match posting.next.get(&ssn.stream()) {
                    Some(next) if self.leaves_out && !ssn.is_program() => *next <= ssn,
                    Some(next) => *next == ssn,
                    None => begins.is_empty() || begins.values().any(may_begin),
                };
                if !is_next {
                    return Err("it is not the next");
                }
                posting.next.insert(ssn.stream(), ssn.next());
                (0, header.extent)
            }
        };
        let end = at + u64::from(header.payload_bytes);
        if end != bytes || header.kind == RecordKind::Rendezvous {
            posting.open.insert(ssn, (end, bytes));
        }
        Ok(at)
    }

    fn answered(&mut self, life: Life, answer: &Answer) -> Result<(), String> {
        let receiving = &mut self.receiving[life.rank.index()];
        let posts = receiving.posts.take();
        match answer {
            Answer::Posted(number) => {
                if let Some(from) = posts {
                    receiving.patterns.insert(*number, from);
                }
            }
            Answer::Ended(all) => {
                // A blocking receive gets its number only now.
                if let (Some(from), [ended]) = (posts, &all[..]) {
                    receiving.patterns.insert(ended.request, from);
                }
                for ended in all {
                    self.ended(life, ended)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Judges the end of a receive; sends are not judged here.
    fn ended(&mut self, life: Life, ended: &Ended) -> Result<(), String> {
        let is_kept = self.is_kept(ended.peer, life.rank);
        let receiving = &mut self.receiving[life.rank.index()];
        let pattern = receiving.patterns.remove(&ended.request);
        let is_message = !ended.cancelled && ended.collective.is_none();
        if !is_message || ended.payload.len() < STAMP_BYTES {
            return Ok(());
        }
        let source = ended.peer;
        let wrong = |what: &str| {
            let request = ended.request;
            Err(format!(
                "{life} receives from {source}, {request:?}: {what}"
            ))
        };
        let Some(stamp) = Stamp::decode(&ended.payload) else {
            return wrong("no message");
        };
        if (stamp.source, stamp.destination) != (source, life.rank) {
            return wrong("a message of another channel");
        }
        let number = stamp.number;
        let Some(sent) = self.sent[(source, life.rank)].get_mut(index(Ssn(number))) else {
            return wrong("a message that was not sent");
        };
        let garbage = garbage(&ended.payload);
        let before = sent.garbage.get_or_insert_with(|| garbage.to_vec());
        let both = before.len().min(garbage.len());
        // No log has the messages of a rank to itself, or of members of a set to each other: the next
        // life has its own arbitrary bytes in them.
        if before[..both] != garbage[..both] && is_kept {
            return wrong("other garbage than an earlier life of it got");
        }
        if !is_part(&sent.payload, 0, &ended.payload)
            || (ended.tag, ended.bytes) != (sent.tag, sent.payload.len() as u64)
        {
            return wrong("other bytes than were sent, or another tag");
        }
        let delivered = receiving.delivered.entry(source).or_default();
        if delivered.has(Ssn(number)) {
            return wrong(&format!("message {number}, which it had already"));
        }
        delivered.add(Ssn(number));
        let Some(pattern) = pattern else {
            return Ok(());
        };
        let class = (pattern.source, pattern.tag, source);
        let given = receiving.given.entry(class).or_default();
        let earlier = given.range(..ended.request).next_back();
        let later = given.range(ended.request..).next();
        if earlier.is_some_and(|(_, before)| *before > number)
            || later.is_some_and(|(_, after)| *after < number)
        {
            return wrong(&format!("message {number}, which overtook another"));
        }
        given.insert(ended.request, number);
        Ok(())
    }
}

impl Channels {
    fn judge_end(&self, receiver: Rank) -> Result<(), String> {
        let receiving = &self.receiving[receiver.index()];
        if !receiving.is_over {
            return Err(format!("the program of {receiver} never ends"));
        }
        for sender in (0..self.receiving.len() as u32).map(Rank) {
            let delivered = receiving.delivered.get(&sender);
            let missing = delivered.map_or(Ssn(0), |delivered| delivered.before);
            if index(missing) < self.sent[(sender, receiver)].len() {
                return Err(format!(
                    "message {missing} of {sender} was never delivered to {receiver}"
                ));
            }
        }
        Ok(())
    }
}

impl Oracle for Channels {
    fn name(&self) -> &'static str {
        "channel"
    }

    fn see(&mut self, happening: &Happening<'_>, world: &dyn Witness) -> Result<(), String> {
        match happening {
            Happening::Began(Life { rank, .. }) | Happening::Died(Process::Rank(rank)) => {
                self.began(*rank);
            }
            Happening::Resumed { life, saved, .. } => {
                self.resumed(*life, &saved.beginning.tally.delivered)
            }
            Happening::Posted(from, to, header, payload) => {
                let judged = self.judge_frame(*from, *to, (header, payload), world);
                return judged.map_err(|what| {
                    let ssn = header.ssn;
                    format!("a frame of {from} to {to}, message {ssn}: {what} ({header:?})")
                });
            }
            Happening::Fenced(life, _)
            | Happening::PostedControl(life, ..)
            | Happening::Called(life, ..)
            | Happening::Answered(life, ..)
                if !world.is_present(*life) => {}
            Happening::Fenced(by, of) => self.fenced(*by, *of),
            Happening::PostedControl(life, to, Control::Restart { ssn, .. }) => {
                let missed = &mut self.missed[(*to, life.rank)];
                missed.entry(life.incarnation).or_default().set(*ssn);
            }
            Happening::Called(life, _, call) => return self.called(*life, call),
            Happening::Answered(life, _, answer) => return self.answered(*life, answer),
            _ => {}
        }
        Ok(())
    }

    fn at_end(&mut self, _world: &dyn Witness) -> Result<(), String> {
        (0..self.receiving.len() as u32).try_for_each(|rank| self.judge_end(Rank(rank)))
    }
}
