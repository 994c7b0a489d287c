//! Checks all checksums of all copies of all chunks.

use super::ahead::OpenFiles;
use super::checked::{CheckedChunk, ChunkFault};
use super::files::StrangeFile;
use super::index::{ChunkPlace, Copy, LogIndex};
use super::{LogImage, LogKey};
use std::collections::BTreeMap;

/// Number of copies that are read ahead.
const AHEAD_COPIES: usize = 16;

/// The meaning of a copy that is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Another copy of the chunk is valid: nothing is lost.
    Replaced,
    /// The copy was being written when the rank or its host died (or is being written now):
    /// no later chunk of its log is valid.
    Torn,
    /// The chunk was left out when the rank or its host died, while later chunks were written
    /// (or it is about to be written).
    Unwritten,
    /// Any other fault.
    Damaged,
}

/// A copy of a chunk that is not valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Sequence number of the chunk in its log.
    pub sequence: u64,
    /// Place of the copy.
    pub place: ChunkPlace,
    /// The fault.
    pub why: ChunkFault,
    /// Its meaning.
    pub verdict: Verdict,
}

/// The result for one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogVerification {
    /// Number of chunks with a valid copy.
    pub whole_chunks: u64,
    /// Number of records in them.
    pub records: u64,
    /// Bytes of payload in them.
    pub payload_bytes: u64,
    /// Number of slots in its files that were never written.
    pub empty_slots: u64,
    /// Number of slots that hold a chunk from before the file was reused.
    pub stale_slots: u64,
    /// Copies that are not valid, by sequence number.
    pub findings: Vec<Finding>,
    /// Number of chunks that are missing between others. Chunks before them were freed.
    pub missing_chunks: u64,
}

impl LogVerification {
    /// Findings with this verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Finding> {
        self.findings
            .iter()
            .filter(move |finding| finding.verdict == verdict)
    }
}

/// The result for all logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// The result of each log.
    pub logs: BTreeMap<LogKey, LogVerification>,
    /// Files that look like segment files but cannot be read as such.
    pub strange_files: Vec<StrangeFile>,
}

impl Verification {
    /// Whether anything is damaged. Replaced copies do not count, and neither do copies that
    /// were being written, or left out, at the end.
    pub fn is_damaged(&self) -> bool {
        let logs = self.logs.values();
        logs.flat_map(|log| log.with(Verdict::Damaged))
            .next()
            .is_some()
            || self.strange_files.iter().any(|file| file.why.is_damage())
    }
}

pub(super) fn verify(image: &LogImage) -> Verification {
    let mut logs: BTreeMap<LogKey, LogVerification> = image
        .logs
        .iter()
        .map(|(key, index)| (*key, verify_log(image, key, index)))
        .collect();
    for file in &image.files {
        let log = logs.entry(file.key()).or_default();
        log.empty_slots += u64::from(file.empty_slots());
        log.stale_slots += u64::from(file.stale_slots);
    }
    Verification {
        logs,
        strange_files: image.strange.clone(),
    }
}

fn verify_log(image: &LogImage, key: &LogKey, index: &LogIndex) -> LogVerification {
    let mut found = LogVerification::default();
    let mut open = OpenFiles::default();
    let mut chunk = CheckedChunk::default();
    let mut last_whole = None;
    let mut last = None;
    let mut whole = Vec::new();
    let mut ahead = index.chunks.values().flatten();
    ahead_of(&mut ahead, AHEAD_COPIES, image, &mut open);
    for (sequence, copies) in &index.chunks {
        found.missing_chunks += last.map_or(0, |last: u64| sequence - last - 1);
        last = Some(*sequence);
        let mut is_whole = false;
        for copy in copies {
            ahead_of(&mut ahead, 1, image, &mut open);
            // A running job may write a chunk while it is read: the second read is complete.
            let mut load = || copy.load(image, key, &mut open, &mut chunk);
            match load().or_else(|_| load()) {
                Ok(()) if is_whole => {}
                Ok(()) => {
                    is_whole = true;
                    count(&chunk, &mut found);
                }
                // Freed by its running job since the folder was read.
                Err(ChunkFault::Another | ChunkFault::Gone) => {}
                Err(why) => found.findings.push(Finding {
                    sequence: *sequence,
                    place: copy.place(image),
                    why,
                    verdict: Verdict::Damaged,
                }),
            }
        }
        if is_whole {
            last_whole = Some(*sequence);
            whole.push(*sequence);
        }
    }
    let is_whole = |sequence: &u64| whole.binary_search(sequence).is_ok();
    // Drops empty places in one file whose chunk is in another file.
    found
        .findings
        .retain(|finding| finding.why != ChunkFault::Unwritten || !is_whole(&finding.sequence));
    for finding in &mut found.findings {
        finding.verdict = if is_whole(&finding.sequence) {
            Verdict::Replaced
        } else if last_whole.is_none_or(|last| finding.sequence > last) {
            Verdict::Torn
        } else if finding.why == ChunkFault::Unwritten {
            Verdict::Unwritten
        } else {
            Verdict::Damaged
        };
    }
    found
}

/// Begins to read the next `count` copies.
fn ahead_of<'a>(
    copies: &mut impl Iterator<Item = &'a Copy>,
    count: usize,
    image: &LogImage,
    open: &mut OpenFiles,
) {
    for copy in copies.take(count) {
        copy.will_load(image, open);
    }
}

fn count(chunk: &CheckedChunk, found: &mut LogVerification) {
    found.whole_chunks += 1;
    found.records += chunk.records() as u64;
    let payloads = (0..).map_while(|index| chunk.record(index));
    found.payload_bytes += payloads
        .map(|(_, payload, _)| payload.len() as u64)
        .sum::<u64>();
}
