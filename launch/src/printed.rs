//! Output that a rank has printed, over all its lives. Pure.
//!
//! A later life prints again what earlier lives have printed since the checkpoint with which it
//! begins. Output that was passed on then is not passed on again: positions count the bytes of a
//! stream from the beginning of the program, and a life that begins with a checkpoint begins at
//! the position that was noted for that checkpoint. A hash over all bytes up to a position shows
//! whether the later life has printed the same.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// FNV-1a, 64 bits.
const HASH_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const HASH_PRIME: u64 = 0x0000_0100_0000_01b3;

/// A position in one stream of a program's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    /// Number of bytes before the position.
    pub bytes: u64,
    /// Hash of these bytes.
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
    /// Moves the position past these bytes.
    pub fn advance(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        self.hash = bytes.iter().fold(self.hash, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(HASH_PRIME)
        });
    }

    /// The later of two positions.
    pub fn max(self, other: Self) -> Self {
        if other.bytes > self.bytes {
            other
        } else {
            self
        }
    }
}

/// Position of a stream when a checkpoint was taken.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Mark {
    at: Position,
    /// End of the last whole line.
    cut: Position,
    /// The unfinished line: the bytes from `cut` to `at`.
    partial: Vec<u8>,
}

/// How far a stream was passed on, for a later run of the job. JOB-5
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SavedPosition {
    handed_on: Position,
    marks: Vec<(u64, Mark)>,
}

/// One output stream of one rank.
#[derive(Debug)]
pub struct Printed {
    lines: Lines,
    /// End of the output of this life, counted from the beginning of the program.
    taken: Position,
    /// End of the last whole line of this life.
    cut: Position,
    /// End of the output of earlier lives that was passed on.
    before: Position,
    /// Output of this life so far, while it is not known where the life begins.
    early: Option<Vec<u8>>,
    /// Positions by checkpoint.
    marks: BTreeMap<u64, Mark>,
    stable: u64,
    differs: bool,
    /// An earlier run may have printed before checkpoints whose marks are not known.
    may_lack_marks: bool,
}

impl Printed {
    /// The stream of a first life.
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
            may_lack_marks: false,
        }
    }

    /// What a later run has to know; output was passed on up to `handed_on`.
    pub fn to_save(&self, handed_on: Position) -> SavedPosition {
        let marks = self
            .marks
            .iter()
            .map(|(number, mark)| (*number, mark.clone()));
        SavedPosition {
            handed_on: self.before.max(handed_on),
            marks: marks.collect(),
        }
    }

    /// Goes on behind what earlier runs have passed on. `None`: that is not known, and output may come
    /// again.
    pub fn go_on(&mut self, saved: Option<SavedPosition>) {
        self.may_lack_marks = true;
        if let Some(saved) = saved {
            self.before = saved.handed_on;
            self.marks = saved.marks.into_iter().collect();
        }
        self.early = Some(Vec::new());
    }

    /// Takes output of the rank, and appends the lines that are whole and new to `out`.
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
        // A line was passed on, so the unfinished line consists of the last of these bytes.
        let (whole, rest) = new.split_at(new.len() - partial);
        self.cut = self.taken;
        self.cut.advance(whole);
        self.taken = self.cut;
        self.taken.advance(rest);
    }

    /// End of the last line that [`take`](Self::take) has passed on, in this life or an earlier
    /// one.
    pub fn handed_out(&self) -> Position {
        self.before.max(self.cut)
    }

    /// The stream has ended: appends a last line without an end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        self.lines.finish(out);
        self.cut = self.taken;
    }

    /// Notes the position of the stream for a later life that begins with this checkpoint.
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

    /// The life has ended, and its output was passed on up to `handed_on`. An unfinished line is
    /// dropped; the next life prints it again.
    pub fn end_life(&mut self, handed_on: Position) {
        self.before = self.before.max(handed_on);
        self.cut = self.before;
        self.lines.drop_partial();
        self.early = Some(Vec::new());
    }

    /// Number of bytes printed since the life began, while it is not known where it begins.
    pub fn early_bytes(&self) -> usize {
        self.early.as_ref().map_or(0, Vec::len)
    }

    /// Whether it is known where in the stream this life begins.
    pub fn has_begun(&self) -> bool {
        self.early.is_none()
    }

    /// End of the whole lines that were printed before a checkpoint; `None`: the checkpoint was
    /// never marked.
    pub fn lines_before(&self, checkpoint: u64) -> Option<Position> {
        self.mark_of(checkpoint).map(|mark| mark.cut)
    }

    fn mark_of(&self, checkpoint: u64) -> Option<Mark> {
        match checkpoint {
            0 => Some(Mark::default()),
            _ => {
                let unknown = self.may_lack_marks.then(Mark::default);
                self.marks.get(&checkpoint).cloned().or(unknown)
            }
        }
    }

    /// This life begins with a checkpoint; output of the earlier life was passed on up to
    /// `handed_on`. The output of this life up to now is from the beginning of the program: it is
    /// new only if the life begins there.
    ///
    /// # Errors
    /// The checkpoint was never marked.
    pub fn begin(
        &mut self,
        checkpoint: u64,
        handed_on: Position,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let mark = self.mark_of(checkpoint).ok_or_else(|| {
            format!("continues from checkpoint {checkpoint}, which has no mark in its output")
        })?;
        if checkpoint == 0 || self.marks.contains_key(&checkpoint) {
            self.before = self.before.max(handed_on);
        } else {
            // A loss of power has undone the mark. What was passed on behind it is not known: output
            // comes again rather than to be lost, and positions count from here. JOB-5
            self.before = Position::default();
            self.marks.clear();
        }
        (self.taken, self.cut) = (mark.at, mark.cut);
        if self.before.bytes < mark.at.bytes {
            let handed = self.before.bytes.saturating_sub(mark.cut.bytes) as usize;
            self.lines.resume(&mark.partial[handed..]);
            self.cut = self.before;
        }
        // The life will take the later checkpoints again.
        self.marks.retain(|marked, _| *marked <= checkpoint);
        let early = self.early.take().unwrap_or_default();
        if checkpoint == 0 {
            self.take(&early, out);
        }
        Ok(())
    }

    /// Whether the life has printed other output than earlier ones; reported once.
    pub fn take_difference(&mut self) -> bool {
        std::mem::take(&mut self.differs)
    }
}

// Cuts output into lines and adds the prefix of the rank.

/// Maximum length of a line that is kept until its end arrives; longer lines are passed on in
/// parts of this length, so that a rank that never ends a line costs no more memory.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// One output stream of one rank.
#[derive(Debug)]
pub struct Lines {
    prefix: Option<String>,
    partial: Vec<u8>,
}

/// The prefix of the lines of `rank`; it has the same width for all ranks.
pub fn prefix(rank: u32, ranks: u32) -> String {
    let width = (ranks.saturating_sub(1)).to_string().len();
    format!("[{rank:>width$}] ")
}

impl Lines {
    /// A cutter that puts `prefix` before each line, or passes lines on unchanged.
    pub fn new(prefix: Option<String>) -> Self {
        Self {
            prefix,
            partial: Vec::new(),
        }
    }

    /// The unfinished line.
    pub fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Drops the unfinished line: its rank is dead, and its next life prints the line again.
    pub fn drop_partial(&mut self) {
        self.partial.clear();
    }

    /// Begins in the middle of a line.
    pub fn resume(&mut self, partial: &[u8]) {
        self.partial.clear();
        self.partial.extend_from_slice(partial);
    }

    /// Takes output of the rank and appends the lines that are whole to `out`.
    pub fn push(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let mut rest = line;
            while self.partial.len() + rest.len() > LINE_BYTES_MAX {
                let (piece, behind) = rest.split_at(LINE_BYTES_MAX - self.partial.len());
                self.partial.extend_from_slice(piece);
                self.emit(out);
                rest = behind;
            }
            self.partial.extend_from_slice(rest);
            if self.partial.last() == Some(&b'\n') {
                self.emit(out);
            }
        }
    }

    /// The stream has ended: appends a last line without an end.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.emit(out);
        }
    }

    /// Passes on the buffered bytes. With a prefix, each part becomes a line of its own, since
    /// otherwise output of other ranks would be appended to it; without a prefix, bytes are passed
    /// on unchanged.
    fn emit(&mut self, out: &mut Vec<u8>) {
        if let Some(prefix) = &self.prefix {
            out.extend_from_slice(prefix.as_bytes());
        }
        out.extend_from_slice(&self.partial);
        if self.prefix.is_some() && self.partial.last() != Some(&b'\n') {
            out.push(b'\n');
        }
        self.partial.clear();
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod lines_tests {
    use super::*;
    use proptest::prelude::*;

    /// The output for `text`, given in parts of `step` bytes.
    fn through(prefix: Option<&str>, text: &[u8], step: usize) -> Vec<u8> {
        let (mut lines, mut out) = (Lines::new(prefix.map(Into::into)), Vec::new());
        for piece in text.chunks(step) {
            lines.push(piece, &mut out);
        }
        lines.finish(&mut out);
        out
    }

    #[test]
    fn ranks_are_aligned() {
        assert_eq!(prefix(0, 1), "[0] ");
        assert_eq!(prefix(9, 10), "[9] ");
        assert_eq!(prefix(3, 11), "[ 3] ");
        assert_eq!(prefix(1023, 1024), "[1023] ");
    }

    #[test]
    fn each_line_has_its_prefix_and_a_last_one_its_end() {
        for step in 1..9 {
            assert_eq!(
                through(Some("> "), b"a\n\nbc\nd", step),
                b"> a\n> \n> bc\n> d\n"
            );
            assert_eq!(through(None, b"a\n\nbc\nd", step), b"a\n\nbc\nd");
            assert_eq!(through(Some("> "), b"", step), b"");
        }
    }

    #[test]
    fn a_line_without_end_is_passed_on_in_bounded_pieces() {
        let text = vec![b'x'; 2 * LINE_BYTES_MAX + 5];
        let (mut lines, mut out) = (Lines::new(Some("> ".into())), Vec::new());
        for piece in text.chunks(1000) {
            lines.push(piece, &mut out);
            assert!(lines.partial.len() <= LINE_BYTES_MAX);
        }
        lines.finish(&mut out);
        let lengths: Vec<usize> = out
            .split_inclusive(|byte| *byte == b'\n')
            .map(<[u8]>::len)
            .collect();
        assert_eq!(lengths, [LINE_BYTES_MAX + 3, LINE_BYTES_MAX + 3, 5 + 3]);
        assert_eq!(
            through(None, &text, 1000),
            text,
            "without a prefix nothing is added"
        );
    }

    proptest! {
        #[test]
        fn without_a_prefix_bytes_are_not_changed(text in prop::collection::vec(any::<u8>(), 0..300), step in 1usize..50) {
            prop_assert_eq!(through(None, &text, step), text);
        }

        #[test]
        fn with_a_prefix_taking_it_off_gives_the_lines_again(text in "[a-z\n]{0,200}", step in 1usize..50) {
            let out = String::from_utf8(through(Some("[7] "), text.as_bytes(), step)).unwrap();
            let stripped: Vec<&str> = out.lines().map(|line| line.strip_prefix("[7] ").unwrap()).collect();
            prop_assert_eq!(stripped, text.lines().collect::<Vec<_>>());
        }
    }
}
