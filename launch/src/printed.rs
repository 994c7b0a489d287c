//! What a rank has printed, over all its lives. Pure.
//!
//! A later life prints again what the lives before it have printed since the
//! checkpoint that it begins with. What was handed on then is not handed on a
//! second time: positions count the bytes of a stream from the beginning of the
//! program, and a life that begins with a checkpoint begins at the position that
//! was noted for it. A hash over everything up to a position tells whether the
//! later life has printed the same.

use super::lines::Lines;
use std::collections::BTreeMap;

/// FNV-1a, 64 bits.
const HASH_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0000_0100_0000_01b3;

/// A place in one stream of a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// So many bytes lie before it.
    pub bytes: u64,
    /// Of all of them.
    hash: u64,
}

impl Default for Position {
    fn default() -> Self {
        Self {
            bytes: 0,
            hash: HASH_BASIS,
        }
    }
}

impl Position {
    /// Goes on behind these bytes.
    pub fn advance(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hash = bytes.iter().fold(self.hash, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(HASH_PRIME)
        });
    }

    /// The later of the two.
    pub fn max(self, other: Self) -> Self {
        if other.bytes > self.bytes {
            other
        } else {
            self
        }
    }
}

/// Where a stream was when a checkpoint was taken.
#[derive(Clone, Debug, Default)]
struct Mark {
    at: Position,
    /// Behind the last whole line.
    cut: Position,
    /// The line that was not ended: what lies between the two.
    partial: Vec<u8>,
}

/// One output stream of one rank.
#[derive(Debug)]
pub struct Printed {
    lines: Lines,
    /// What this life has printed, as if it had begun at the beginning.
    taken: Position,
    /// Behind the last whole line of it.
    cut: Position,
    /// What lives before this one have printed and was handed on.
    before: Position,
    /// `Some`: this life has not said where it begins; what came meanwhile.
    early: Option<Vec<u8>>,
    /// By checkpoint.
    marks: BTreeMap<u64, Mark>,
    stable: u64,
    differs: bool,
}

impl Printed {
    /// Of a first life.
    pub fn new(lines: Lines) -> Self {
        Self {
            lines,
            taken: Position::default(),
            cut: Position::default(),
            before: Position::default(),
            early: None,
            marks: BTreeMap::new(),
            stable: 0,
            differs: false,
        }
    }

    /// Takes what the rank printed and appends to `out` the lines that are whole
    /// and new.
    pub fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        if let Some(early) = &mut self.early {
            early.extend_from_slice(bytes);
            return;
        }
        let again = self.before.bytes.saturating_sub(self.taken.bytes);
        let again = usize::try_from(again).map_or(bytes.len(), |again| again.min(bytes.len()));
        let (again, new) = bytes.split_at(again);
        if !again.is_empty() {
            self.swallow(again);
        }
        if !new.is_empty() {
            self.cut_lines(new, out);
        }
    }

    fn swallow(&mut self, again: &[u8]) {
        self.taken.advance(again);
        self.cut = self.taken;
        if self.taken.bytes == self.before.bytes {
            self.differs |= self.taken.hash != self.before.hash;
        }
    }

    fn cut_lines(&mut self, new: &[u8], out: &mut Vec<u8>) {
        let before = self.lines.partial().len();
        self.lines.push(new, out);
        let partial = self.lines.partial().len();
        if partial == before + new.len() {
            return self.taken.advance(new);
        }
        // Something was handed out, so what is left are the last of these bytes.
        let (whole, rest) = new.split_at(new.len() - partial);
        self.cut = self.taken;
        self.cut.advance(whole);
        self.taken = self.cut;
        self.taken.advance(rest);
    }

    /// Behind the last line that [`take`](Self::take) has handed out, in this life
    /// or one before it.
    pub fn handed_out(&self) -> Position {
        self.before.max(self.cut)
    }

    /// The stream has ended in order: appends a last line that was not ended.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.lines.finish(out);
        self.cut = self.taken;
    }

    /// Notes where the stream is, for a later life that begins with this
    /// checkpoint.
    pub fn mark(&mut self, checkpoint: u64) {
        let mark = Mark {
            at: self.taken,
            cut: self.cut,
            partial: self.lines.partial().to_vec(),
        };
        self.marks.insert(checkpoint, mark);
    }

    /// No life will begin before the last but one stable checkpoint.
    pub fn forget_before(&mut self, stable: u64) {
        let previous = std::mem::replace(&mut self.stable, stable).min(stable);
        self.marks = self.marks.split_off(&previous);
    }

    /// The life has ended, and what it printed was handed on up to here. A line
    /// that it did not end is dropped; the next life prints it again.
    pub fn end_life(&mut self, handed_on: Position) {
        self.before = self.before.max(handed_on);
        self.cut = self.before;
        self.lines.drop_partial();
        self.early = Some(Vec::new());
    }

    /// What was printed since the life began, while nobody knows where.
    pub fn early_bytes(&self) -> usize {
        self.early.as_ref().map_or(0, Vec::len)
    }

    /// Whether it is known where in the stream this life prints.
    pub fn has_begun(&self) -> bool {
        self.early.is_none()
    }

    /// Up to where all that was printed belongs to a checkpoint, in whole lines;
    /// `None`: the checkpoint was never marked.
    pub fn lines_before(&self, checkpoint: u64) -> Option<Position> {
        self.mark_of(checkpoint).map(|mark| mark.cut)
    }

    fn mark_of(&self, checkpoint: u64) -> Option<Mark> {
        match checkpoint {
            0 => Some(Mark::default()),
            _ => self.marks.get(&checkpoint).cloned(),
        }
    }

    /// This life begins with a checkpoint; `handed_on` was handed on meanwhile.
    /// What it has printed up to now was printed at the beginning of the program:
    /// it is new only to a life that begins there.
    ///
    /// # Errors
    /// A checkpoint that was never marked.
    pub fn begin(
        &mut self,
        checkpoint: u64,
        handed_on: Position,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let mark = self.mark_of(checkpoint).ok_or_else(|| {
            format!("continues from checkpoint {checkpoint}, which it has not marked")
        })?;
        self.before = self.before.max(handed_on);
        (self.taken, self.cut) = (mark.at, mark.cut);
        if self.before.bytes < mark.at.bytes {
            let handed = self.before.bytes.saturating_sub(mark.cut.bytes) as usize;
            self.lines.resume(&mark.partial[handed..]);
            self.cut = self.before;
        }
        // It will take the later ones again.
        self.marks.retain(|marked, _| *marked <= checkpoint);
        let early = self.early.take().unwrap_or_default();
        if checkpoint == 0 {
            self.take(&early, out);
        }
        Ok(())
    }

    /// Whether the life has printed something else than those before it; said
    /// once.
    pub fn take_difference(&mut self) -> bool {
        std::mem::take(&mut self.differs)
    }
}

#[cfg(test)]
mod tests;
