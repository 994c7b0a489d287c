//! Output that waits until the events before it are stable (`--gate-output`,
//! GATE-1). Pure.

use super::printed::Position;
use std::collections::VecDeque;

/// What one rank may have printed and not made stable, at most. It cannot just
/// be left in the pipe: a rank that waits for room there makes nothing stable.
pub const HELD_BYTES_MAX: usize = 64 << 20;

/// Whole lines that were read at once.
#[derive(Debug)]
struct Waiting {
    /// So many events have to be stable first.
    events: u64,
    /// Where they end in their stream.
    end: Position,
    lines: Vec<u8>,
}

/// Whole lines of one stream, in order.
#[derive(Debug, Default)]
pub struct Held {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl Held {
    /// Keeps lines, which end at `end`, until `events` events are stable.
    pub fn push(&mut self, events: u64, end: Position, lines: Vec<u8>) {
        if lines.is_empty() {
            return;
        }
        self.bytes += lines.len();
        self.waiting.push_back(Waiting { events, end, lines });
    }

    /// Hands on what waits for no more than `stable` events. Returns where that
    /// ends, if it is anything.
    pub fn release(&mut self, stable: u64, out: &mut Vec<u8>) -> Option<Position> {
        self.release_while(|waiting| waiting.events <= stable, out)
    }

    /// A life that begins with a checkpoint will not print again what lies before
    /// it: the events before that are never undone. The rest of what waits is
    /// dropped: they may be. Returns as [`release`](Self::release).
    pub fn settle(&mut self, before: Position, out: &mut Vec<u8>) -> Option<Position> {
        let end = self.release_while(|waiting| waiting.end.bytes <= before.bytes, out);
        self.drop_all();
        end
    }

    fn release_while(
        &mut self,
        may_go: impl Fn(&Waiting) -> bool,
        out: &mut Vec<u8>,
    ) -> Option<Position> {
        let mut end = None;
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| may_go(waiting)) {
            self.bytes -= waiting.lines.len();
            out.extend_from_slice(&waiting.lines);
            end = Some(waiting.end);
        }
        end
    }

    /// Nothing waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What waits, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops what waits: the events before it will never be stable.
    pub fn drop_all(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(bytes: usize) -> Position {
        let mut position = Position::default();
        position.advance(&vec![b'x'; bytes]);
        position
    }

    fn of_four() -> Held {
        let mut held = Held::default();
        held.push(0, at(2), b"a\n".to_vec());
        held.push(3, at(4), b"b\n".to_vec());
        held.push(3, at(6), b"c\n".to_vec());
        held.push(4, at(8), b"d\n".to_vec());
        held.push(4, at(8), Vec::new());
        held
    }

    // GATE-1
    #[test]
    fn lines_go_in_order_and_only_when_their_events_are_stable() {
        let (mut held, mut out) = (of_four(), Vec::new());
        assert_eq!(held.release(2, &mut out), Some(at(2)));
        assert_eq!(out, b"a\n");
        assert_eq!(held.release(2, &mut out), None);
        assert_eq!(held.release(3, &mut out), Some(at(6)));
        assert_eq!(out, b"a\nb\nc\n");
        assert_eq!(held.bytes(), 2);
        held.drop_all();
        held.release(u64::MAX, &mut out);
        assert_eq!((out.len(), held.bytes(), held.is_empty()), (6, 0, true));
    }

    // GATE-1
    #[test]
    fn what_lies_before_a_checkpoint_goes_and_the_rest_is_dropped() {
        let (mut held, mut out) = (of_four(), Vec::new());
        assert_eq!(held.settle(at(4), &mut out), Some(at(4)));
        assert_eq!(out, b"a\nb\n");
        assert_eq!((held.bytes(), held.is_empty()), (0, true));
        assert_eq!(of_four().settle(at(0), &mut out), None);
        assert_eq!(out.len(), 4);
    }
}
