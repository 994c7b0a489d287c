//! What a later life collects, and the replay of its program in the reference: recovery up to the
//! replay on a real engine. REC-1 to REC-4
//!
//! A life collects the newest stable checkpoint from the checkpoint store, its determinants after
//! the checkpoint from the event loggers
//! ([`determinants`](refrain_logging::determinant::row::determinants)), and from the logs of its
//! peers the messages that were not delivered before the checkpoint: a living peer's engine reads
//! them ([`Asking`]); those of a dead peer are read from the memory and files that it left on its
//! host ([`of_remains`], LOG-5). The real readers do all this; nothing comes from the memory of the
//! process that died, other than its log. Then the reference replays the program
//! ([`Recollection::play`]), which must emit everything that other ranks have seen from it.

#[cfg(test)]
mod tests;

use crate::choices::Choices;
use crate::collective::Contributions;
use crate::happening::{Breach, Life};
use crate::oracle::orphan::Again;
use crate::reference::{Reference, Stop};
use crate::saved::Saved;
use refrain_logging::assembly::{Added, Assembly};
use refrain_logging::determinant::Determinant;
use refrain_logging::image::{LogImage, LogKey, RankMemory, ReadFailure, Selection};
use refrain_logging::segment::Channel;
use refrain_logging::store::faulty::LeftFile;
use refrain_ring::{Frontier, Position, Rank, RecordHeader, Region, Ssn};
use refrain_transport::engine::{Engine, Progress, ReadBack};
use refrain_transport::protocol::Protocol;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// A message that was read from a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its tag.
    pub tag: i32,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// The messages of one channel, by SSN.
pub type Messages = BTreeMap<Ssn, Message>;

/// The progress of a request for messages.
#[derive(Debug)]
pub enum Heard {
    /// The request is not complete: step again.
    NotYet,
    /// All messages that have left the peer so far.
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

    /// Reads at most one chunk. The engine must be the one given to [`Asking::new`].
    ///
    /// # Errors
    /// When the log cannot be read, or no longer has the first requested message. LOG-2, LOG-4
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

/// What the next life of a rank has collected.
#[derive(Clone, Debug)]
pub struct Recollection {
    /// The rank.
    pub rank: Rank,
    /// The rank's newest stable checkpoint, or the beginning of its program.
    pub saved: Saved,
    /// The determinants after the checkpoint.
    pub determinants: Vec<Determinant>,
    /// By sender: messages to the rank that were not delivered before the checkpoint.
    pub messages: Vec<Messages>,
    /// What members have given to collectives.
    pub contributions: Contributions,
}

impl Recollection {
    /// The first message of a sender that was not delivered before the checkpoint: the first one
    /// that the life requests. REC-3
    pub fn first_wanted(saved: &Saved, source: Rank) -> Ssn {
        saved.beginning.tally.delivered[source.index()].before
    }

    /// Replays the program and returns what it emits. `may_wait`: the replay may block, on a
    /// message of which only the beginning has left its sender. REC-4, REC-5
    ///
    /// # Errors
    /// When the program does not fit what was collected, or stops before the records end because a
    /// message is missing.
    pub fn play(&self, may_wait: bool) -> Result<Again, Breach> {
        let oracle = "recollect";
        let choices = Choices::of(&self.determinants);
        let choices = choices.map_err(|what| Breach { oracle, what })?;
        let beginning = &self.saved.beginning;
        let contributions = Rc::new(RefCell::new(self.contributions.clone()));
        let reference = Reference::new(self.rank, beginning, choices);
        let mut reference = reference.with_contributions(contributions);
        for (source, messages) in (0..).map(Rank).zip(&self.messages) {
            let messages = messages.iter().filter(|(ssn, _)| ssn.is_program());
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
                "rank {}, replayed from clock {}, stops at clock {clock} ({stop:?}); its records go to {end:?}",
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

/// Memory and files that a dead life left.
#[derive(Clone, Debug)]
pub struct Remains {
    /// The life.
    pub life: Life,
    /// The job.
    pub job: u64,
    /// The memory of its logs; it begins with the chunks.
    pub memory: Region,
    /// The files of its logs.
    pub files: Vec<LeftFile>,
}

/// The complete messages that a dead life has sent to `receiver`: of the program's stream from SSN
/// `from` on, of the others all.
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
    let mut read = match image.messages(&key, Frontier::from(from)) {
        // No log: the life never sent anything to that rank.
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

/// The log image of a dead life for one receiver, or for all, from its memory and files.
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
