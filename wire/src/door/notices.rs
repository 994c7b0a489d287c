//! Log lines, at most one a second.

use std::time::{Duration, Instant};

/// Time between two lines.
const EVERY: Duration = Duration::from_secs(1);

/// Keeps the first note of a second, and counts the others.
#[derive(Debug, Default)]
pub struct Notices {
    /// The earliest time of the next line.
    next_at: Option<Instant>,
    first: Option<String>,
    more: u64,
}

impl Notices {
    /// Adds a note.
    pub fn note(&mut self, text: String) {
        match self.first {
            None => self.first = Some(text),
            Some(_) => self.more += 1,
        }
    }

    /// The line, if one is due.
    pub fn take(&mut self, now: Instant) -> Option<String> {
        match self.next_at.is_some_and(|at| now < at) {
            true => None,
            false => {
                let line = self.rest()?;
                self.next_at = Some(now + EVERY);
                Some(line)
            }
        }
    }

    /// The notes that were not reported, due or not; for the end.
    pub fn rest(&mut self) -> Option<String> {
        let text = self.first.take()?;
        Some(match core::mem::take(&mut self.more) {
            0 => text,
            more => format!("{text} (and {more} more like this)"),
        })
    }

    /// The time when the next line is due, if a note waits.
    pub fn deadline(&self) -> Option<Instant> {
        self.first.as_ref().and(self.next_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_a_line_a_second_and_a_count() {
        let (mut notices, start) = (Notices::default(), Instant::now());
        let mut lines = Vec::new();
        for ms in 0..2_000 {
            notices.note(format!("stranger {ms}"));
            lines.extend(notices.take(start + Duration::from_millis(ms)));
        }
        let expected = ["stranger 0", "stranger 1 (and 999 more like this)"];
        assert_eq!(lines, expected);
        assert_eq!(notices.deadline(), Some(start + 2 * EVERY));
        let rest = notices.rest();
        assert_eq!(
            rest.as_deref(),
            Some("stranger 1001 (and 998 more like this)")
        );
        assert_eq!(notices.deadline(), None);
    }
}
