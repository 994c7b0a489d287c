//! Limits the launcher's own messages about a rank.

use std::time::{Duration, Instant};

/// Number of lines that may be printed at once.
const BURST: u32 = 8;
/// After that, one line per this time.
const EVERY: Duration = Duration::from_secs(1);

/// How many lines about a rank may be printed now.
#[derive(Clone, Copy, Debug)]
pub struct RateLimit {
    left: u32,
    /// When `left` grew last.
    since: Instant,
    /// Lines that were omitted since the last printed line.
    omitted: u64,
}

impl RateLimit {
    /// A limit for a rank about which no line was printed.
    pub fn new(now: Instant) -> Self {
        Self {
            left: BURST,
            since: now,
            omitted: 0,
        }
    }

    /// The line to print now, with the number of lines omitted before it; `None`: this line is
    /// omitted.
    pub fn pass(&mut self, line: String, now: Instant) -> Option<String> {
        while self.left < BURST && now.saturating_duration_since(self.since) >= EVERY {
            self.left += 1;
            self.since += EVERY;
        }
        if self.left == BURST {
            self.since = now;
        }
        if self.left == 0 {
            self.omitted += 1;
            return None;
        }
        self.left -= 1;
        Some(match std::mem::take(&mut self.omitted) {
            0 => line,
            omitted => format!("{line} ({omitted} earlier lines about this rank were omitted)"),
        })
    }

    /// Number of lines omitted since the last printed line. Resets it to 0.
    pub fn take_omitted(&mut self) -> u64 {
        std::mem::take(&mut self.omitted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_repeat_are_counted() {
        let begin = Instant::now();
        let at = |milliseconds| begin + Duration::from_millis(milliseconds);
        let mut limit = RateLimit::new(begin);
        let mut said = Vec::new();
        for milliseconds in (0..3000).step_by(10) {
            said.extend(limit.pass("x".into(), at(milliseconds)));
        }
        assert_eq!(said.len(), 8 + 2, "{said:?}");
        assert!(said[..8].iter().all(|line| line == "x"));
        assert_eq!(said[8], "x (92 earlier lines about this rank were omitted)");
        assert_eq!(said[9], "x (99 earlier lines about this rank were omitted)");
        assert_eq!(limit.take_omitted(), 99);
        let line = limit.pass("y".into(), at(60_000));
        assert_eq!(line.as_deref(), Some("y"));
    }
}
