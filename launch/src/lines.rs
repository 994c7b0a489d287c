//! Cuts the output of a rank into lines and marks them. Pure.

/// Longest line that is held until its end comes; longer ones are passed on in
/// pieces of this size, so that a rank that never ends a line costs no more.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// One output stream of one rank.
#[derive(Debug)]
pub struct Lines {
    prefix: Option<String>,
    partial: Vec<u8>,
}

/// What stands before each line of `rank`, as wide for each rank.
pub fn prefix(rank: u32, ranks: u32) -> String {
    let width = (ranks.saturating_sub(1)).to_string().len();
    format!("[{rank:>width$}] ")
}

impl Lines {
    /// With `prefix` before each line, or lines as they are.
    pub fn new(prefix: Option<String>) -> Self {
        Self {
            prefix,
            partial: Vec::new(),
        }
    }

    /// The line that has no end yet.
    pub fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Forgets it: its rank is dead, and prints it again.
    pub fn drop_partial(&mut self) {
        self.partial.clear();
    }

    /// Begins in the middle of a line.
    pub fn resume(&mut self, partial: &[u8]) {
        self.partial.clear();
        self.partial.extend_from_slice(partial);
    }

    /// Takes what the rank wrote and appends to `out` the lines that are whole.
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

    /// The stream has ended: appends a last line that was not ended.
    pub fn finish(&mut self, out: &mut Vec<u8>) {
        if !self.partial.is_empty() {
            self.emit(out);
        }
    }

    /// Passes on what is held. With a prefix every piece becomes a line of its
    /// own, or other ranks' lines would be glued to it; without, bytes are
    /// passed on as they are.
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What comes out when `text` goes in, in pieces of `step` bytes.
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
