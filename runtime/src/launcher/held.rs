//! Output that waits until the events before it are stable (`--gate-output`,
//! GATE-1). Pure.

use std::collections::VecDeque;

/// What one rank may have printed and not made stable, at most. It cannot just
/// be left in the pipe: a rank that waits for room there makes nothing stable.
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// Whole lines of one stream, in order.
#[derive(Debug, Default)]
pub struct Held {
    /// With the number of events that have to be stable first.
    lines: VecDeque<(u64, Vec<u8>)>,
    bytes: usize,
}

impl Held {
    /// Keeps lines until `events` events are stable.
    pub fn push(&mut self, events: u64, lines: Vec<u8>) {
        if lines.is_empty() {
            return;
        }
        self.bytes += lines.len();
        self.lines.push_back((events, lines));
    }

    /// Hands on what waits for no more than `stable` events.
    pub fn release(&mut self, stable: u64, out: &mut Vec<u8>) {
        while let Some((events, _)) = self.lines.front()
            && *events <= stable
            && let Some((_, lines)) = self.lines.pop_front()
        {
            self.bytes -= lines.len();
            out.extend_from_slice(&lines);
        }
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// What waits, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops what waits: the events before it will never be stable.
    pub fn drop_all(&mut self) {
        self.lines.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // GATE-1
    #[test]
    fn lines_go_in_order_and_only_when_their_events_are_stable() {
        let mut held = Held::default();
        let mut out = Vec::new();
        held.push(0, b"a\n".to_vec());
        held.push(3, b"b\n".to_vec());
        held.push(3, b"c\n".to_vec());
        held.push(4, b"d\n".to_vec());
        held.push(4, Vec::new());
        held.release(2, &mut out);
        assert_eq!(out, b"a\n");
        held.release(3, &mut out);
        assert_eq!(out, b"a\nb\nc\n");
        assert_eq!(held.bytes(), 2);
        held.drop_all();
        held.release(u64::MAX, &mut out);
        assert_eq!((out.len(), held.bytes(), held.is_empty()), (6, 0, true));
    }
}
