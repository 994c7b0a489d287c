//! Messages from a peer that is dead: its log survives the process in the memory
//! that its host keeps, and in its files. LOG-2, LOG-5

use super::{Message, Messages};
use crate::happening::Life;
use refrain_logging::image::{LogImage, LogKey, RankMemory, ReadFailure, Selection};
use refrain_logging::segment::Channel;
use refrain_logging::store::faulty::LeftFile;
use refrain_ring::{Rank, Region, Ssn};

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
