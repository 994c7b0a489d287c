//! What a later life collects, and what its program makes of it: recovery up to the replay.
//! REC-1 to REC-4
//!
//! From the checkpoint store the newest stable checkpoint, from the event loggers
//! its determinants behind that ([`determinants`](refrain_logging::determinant::row::determinants)), from the logs of its peers the
//! messages that were not delivered before it: of those that live by their
//! engines ([`Asking`]), of those that are dead by what is left of their hosts'
//! memory and files ([`of_remains`], LOG-5). All by the real readers; nothing is
//! taken from the memory of the process that died. Then its program is replayed
//! in the reference ([`Recollection::play`]), and has to make everything that
//! other ranks have seen of it.

#[cfg(test)]
mod tests;

use crate::choices::Choices;
use crate::happening::{Breach, Life};
use crate::oracle::orphan::Again;
use crate::reference::{Reference, Stop};
use crate::saved::Saved;
use refrain_logging::assembly::{Added, Assembly};
use refrain_logging::determinant::Determinant;
use refrain_logging::image::{LogImage, LogKey, RankMemory, ReadFailure, Selection};
use refrain_logging::segment::Channel;
use refrain_logging::store::faulty::LeftFile;
use refrain_ring::{Position, Rank, RecordHeader, Region, Ssn};
use refrain_transport::engine::{Engine, Progress, ReadBack};
use refrain_transport::protocol::Protocol;
use std::collections::BTreeMap;

/// A message that was read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its tag.
    pub tag: i32,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// The messages of one channel, by number.
pub type Messages = BTreeMap<Ssn, Message>;

/// How far a request for messages has come.
#[derive(Debug)]
pub enum Heard {
    /// To be asked again.
    NotYet,
    /// Everything that has left the peer so far.
    All(Messages),
}

/// A request of one rank to a peer for its messages.
#[derive(Debug)]
pub struct Asking {
    reader: ReadBack,
    from: Ssn,
    assembly: Assembly,
    messages: Messages,
}

impl Asking {
    /// Asks for all messages to `receiver` from number `from` on. REC-3
    pub fn new(engine: &Engine<impl Protocol>, receiver: Rank, from: Ssn) -> Self {
        Self {
            reader: engine.read_back(receiver, from),
            from,
            assembly: Assembly::default(),
            messages: Messages::new(),
        }
    }

    /// Reads on, one chunk at most. Ask the same engine.
    ///
    /// # Errors
    /// When the log cannot be read, or does not reach back to the first message
    /// that was asked for. LOG-2, LOG-4
    pub fn step(&mut self, engine: &mut Engine<impl Protocol>) -> Result<Heard, String> {
        let (assembly, messages) = (&mut self.assembly, &mut self.messages);
        let mut damage = None;
        let mut give = |header: &RecordHeader, payload: &[u8]| match assembly.add(
            header,
            payload,
            Position(0),
        ) {
            Ok(Added::Whole(message)) => {
                let bytes = Message {
                    tag: message.tag,
                    payload: message.bytes,
                };
                messages.insert(message.ssn, bytes);
            }
            Ok(Added::Part | Added::WithoutBeginning) => {}
            Err(what) => damage = Some(format!("message {}: {what}", header.ssn)),
        };
        let progress = engine
            .read_on(&mut self.reader, &mut give)
            .map_err(|error| error.to_string())?;
        if let Some(damage) = damage {
            return Err(damage);
        }
        match progress {
            Progress::Records(_) | Progress::Waiting => Ok(Heard::NotYet),
            Progress::Passed(first) if first <= self.from => Ok(Heard::NotYet),
            Progress::Passed(first) => Err(format!(
                "messages from {} on were asked for, those below {first} are gone",
                self.from
            )),
            Progress::End => {
                let mut messages = core::mem::take(&mut self.messages);
                messages.retain(|ssn, _| *ssn >= self.from);
                Ok(Heard::All(messages))
            }
        }
    }
}

/// All that the next life of a rank has collected.
#[derive(Clone, Debug)]
pub struct Recollection {
    /// Which rank.
    pub rank: Rank,
    /// Its newest stable checkpoint, or its beginning.
    pub saved: Saved,
    /// What happened to it behind that.
    pub determinants: Vec<Determinant>,
    /// By sender: messages to it that were not delivered before.
    pub messages: Vec<Messages>,
}

impl Recollection {
    /// The first message of each sender that was not delivered before the
    /// checkpoint: what its peers are asked for. REC-3
    pub fn first_wanted(saved: &Saved, source: Rank) -> Ssn {
        saved.beginning.tally.delivered[source.index()].before
    }

    /// Plays the program again: what it makes. `may_wait`: it may wait for a message
    /// of which only the beginning has left its sender. REC-4, REC-5
    ///
    /// # Errors
    /// When it does not fit to what was collected, or when a message is missing so
    /// that records are left over.
    pub fn play(&self, may_wait: bool) -> Result<Again, Breach> {
        let oracle = "recollect";
        let choices = Choices::of(&self.determinants);
        let choices = choices.map_err(|what| Breach { oracle, what })?;
        let beginning = &self.saved.beginning;
        let mut reference = Reference::new(self.rank, beginning, choices);
        for (source, messages) in (0..).map(Rank).zip(&self.messages) {
            for (ssn, message) in messages {
                reference.deliver(source, *ssn, message.tag, message.payload.clone().into());
            }
        }
        let stop = reference.run();
        let end = self.determinants.last().map(Determinant::at);
        let waits = may_wait && stop == Stop::Blocked;
        let is_left_over = stop != Stop::Finished && !waits && end > Some(reference.clock());
        if matches!(stop, Stop::Diverged { .. }) || is_left_over {
            let clock = reference.clock();
            let what = format!(
                "rank {}, played again from clock {}, comes to clock {clock} ({stop:?}); its records go to {end:?}",
                self.rank, beginning.clock
            );
            return Err(Breach { oracle, what });
        }
        let sent = reference.sends().iter();
        Ok(Again {
            sent_before: beginning.tally.next_ssn_to.clone(),
            sent: sent
                .map(|sent| (sent.to, sent.tag, sent.payload.to_vec()))
                .collect(),
            printed_before: beginning.tally.printed,
            printed: reference.prints().to_vec(),
        })
    }
}

/// What a life left behind.
#[derive(Clone, Debug)]
pub struct Remains {
    /// Whose.
    pub life: Life,
    /// Of which job.
    pub job: u64,
    /// The memory of its logs, chunks from its beginning on.
    pub memory: Region,
    /// The files of its logs.
    pub files: Vec<LeftFile>,
}

/// All messages that a dead life has sent to `receiver`, from number `from` on,
/// as far as they are whole.
///
/// # Errors
/// When its log is damaged.
pub fn of_remains(remains: &Remains, receiver: Rank, from: Ssn) -> Result<Messages, ReadFailure> {
    let Life { rank, incarnation } = remains.life;
    let job = remains.job;
    let image = image_of(remains, Some(receiver));
    let key = LogKey {
        job,
        channel: Channel {
            source: rank,
            incarnation,
            destination: receiver,
        },
    };
    let mut read = match image.messages(&key, from) {
        // It never sent that rank anything.
        Err(ReadFailure::NoLog(_)) => return Ok(Messages::new()),
        read => read?,
    };
    let mut messages = Messages::new();
    while let Some(message) = read.next()? {
        let bytes = Message {
            tag: message.tag,
            payload: message.bytes,
        };
        messages.insert(message.ssn, bytes);
    }
    Ok(messages)
}

/// What a dead life has sent to one rank, or to all, as its memory and its files
/// have it.
pub fn image_of(remains: &Remains, receiver: Option<Rank>) -> LogImage {
    let Life { rank, incarnation } = remains.life;
    let job = remains.job;
    let selection = Selection {
        job: Some(job),
        source: Some(rank),
        incarnation: Some(incarnation),
        destination: receiver,
    };
    let files = remains.files.iter();
    let contents = files.map(|file| (file.name.clone(), file.bytes.clone()));
    let mut image = LogImage::of_contents(contents, selection);
    image.add_memory(RankMemory {
        region: remains.memory.clone(),
        arena: 0..remains.memory.bytes(),
        job,
        source: rank,
        incarnation,
    });
    image
}
