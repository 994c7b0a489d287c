//! Checking everything: every checksum of every copy of every chunk.

use super::ahead::OpenFiles;
use super::checked::{CheckedChunk, ChunkFault};
use super::files::StrangeFile;
use super::index::{ChunkPlace, Copy, LogIndex};
use super::{LogImage, LogKey};
use std::collections::BTreeMap;

/// Copies that the system is asked to read ahead.
const AHEAD_COPIES: usize = 16;

/// What a copy that is not whole means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Another copy of the chunk is whole: nothing is lost.
    Replaced,
    /// Being written when the rank or its host died (or at this moment): nothing
    /// behind it in its log is whole.
    Torn,
    /// Left out when the rank or its host died, while chunks behind it were written
    /// (or about to be written).
    Unwritten,
    /// Anything else.
    Damaged,
}

/// A copy of a chunk that is not whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which chunk of its log.
    pub sequence: u64,
    /// Where the copy is.
    pub place: ChunkPlace,
    /// What is wrong.
    pub why: ChunkFault,
    /// What it means.
    pub verdict: Verdict,
}

/// What was found in one log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogVerification {
    /// Chunks with a whole copy.
    pub whole_chunks: u64,
    /// Records in them.
    pub records: u64,
    /// Their payload, in bytes.
    pub payload_bytes: u64,
    /// Slots of its files that were never written.
    pub empty_slots: u64,
    /// Slots that hold what was there before the file was used again.
    pub stale_slots: u64,
    /// Copies that are not whole, by sequence number.
    pub findings: Vec<Finding>,
    /// Chunks that are missing between others. What lies before them was freed.
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

/// What was found altogether.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// By log.
    pub logs: BTreeMap<LogKey, LogVerification>,
    /// Files that look like segment files and are none that can be read.
    pub strange_files: Vec<StrangeFile>,
}

impl Verification {
    /// Whether anything is damaged: not what was replaced, and not what was being
    /// written, or left out, at the end.
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
            // A running job may write a chunk while it is read: the second read sees it whole.
            let mut load = || copy.load(image, key, &mut open, &mut chunk);
            match load().or_else(|_| load()) {
                Ok(()) if is_whole => {}
                Ok(()) => {
                    is_whole = true;
                    count(&chunk, &mut found);
                }
                // Freed since the folder was looked at: its job runs.
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
    // A place in one file that another file's chunk has made needless.
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

/// The next `count` copies are going to be read.
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
