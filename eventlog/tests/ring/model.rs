//! Random work on both sides of a ring, with writes that are torn at random
//! words, against a queue.

use crate::fixed_seed::cases;
use crate::slots::{LIFE, Ring};
use proptest::collection::vec;
use proptest::prelude::*;
use refrain_logging::determinant::batch::BatchHeader;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
enum Action {
    /// The client writes a batch.
    Write { count: u16 },
    /// The client is stopped in the middle of writing one: only these of its
    /// words arrive, then, later, all.
    Tear { count: u16, words: u64 },
    /// The client makes a batch ready; then it writes that one, or another.
    Prepare { count: u16, other: Option<u16> },
    /// The server takes at most `most` batches.
    Take { most: usize },
    /// The server frees the room of the batches that it took.
    Release,
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![
        4 => (1..=1024_u16).prop_map(|count| Action::Write { count }),
        2 => (1..=40_u16).prop_map(|count| Action::Write { count }),
        1 => (1..=1024_u16, any::<u64>()).prop_map(|(count, words)| Action::Tear { count, words }),
        2 => (1..=60_u16, proptest::option::of(1..=60_u16))
            .prop_map(|(count, other)| Action::Prepare { count, other }),
        3 => (1..60_usize).prop_map(|most| Action::Take { most }),
        2 => Just(Action::Release),
    ]
}

/// The client's words as they may have arrived when it was stopped: any of them,
/// but the first only when all others did.
fn torn(batch: &[u8], words: u64) -> Vec<(usize, &[u8])> {
    let pieces = batch.chunks(8).enumerate().skip(1);
    pieces
        .filter(|(index, _)| words >> (index % 64) & 1 == 1)
        .map(|(index, piece)| (index * 8, piece))
        .collect()
}

struct Model {
    ring: Ring,
    next: u64,
    /// Batches placed and not taken.
    queue: VecDeque<Vec<u8>>,
    /// Batches taken whose room is not freed.
    held: VecDeque<Vec<u8>>,
}

impl Model {
    fn write(&mut self, count: u16) {
        let batch = LIFE.batch(self.next, count);
        if self.ring.writer.write(&batch).is_ok() {
            self.next += u64::from(count);
            self.queue.push_back(batch);
        } else {
            let held = self.queue.iter().chain(&self.held);
            let bytes: usize = held.map(|batch| batch.len().next_multiple_of(64)).sum();
            assert!(bytes > 0, "full, and nothing is in it");
        }
    }

    fn tear(&mut self, count: u16, words: u64) {
        let batch = LIFE.batch(self.next, count);
        let position = self.ring.writer.position();
        if position.is_full(batch.len(), self.ring.writer.consumed()) {
            return;
        }
        for (at, piece) in torn(&batch, words) {
            self.ring.put(position.offset() + at, piece);
        }
        self.take_all();
        assert_eq!(self.ring.take(), None, "half a batch");
        self.write(count);
    }

    // EL-2
    fn prepare(&mut self, count: u16, other: Option<u16>) {
        let batch = LIFE.batch(self.next, count);
        let had_room = self.ring.writer.prepare(&batch).is_ok();
        self.check_remains();
        if had_room {
            self.take_all();
            assert_eq!(self.ring.take(), None, "it was only prepared");
        }
        match other {
            Some(other) => self.write(other),
            None => {
                let written = self.ring.writer.write_prepared(&batch);
                // Room may have been freed since; it is never reduced.
                assert!(written.is_ok() || !had_room);
                if written.is_ok() {
                    self.next += u64::from(count);
                    self.queue.push_back(batch);
                }
            }
        }
    }

    fn take_all(&mut self) {
        while self.take() {}
    }

    fn take(&mut self) -> bool {
        let expected = self.queue.pop_front();
        assert_eq!(self.ring.take(), expected);
        let is_some = expected.is_some();
        self.held.extend(expected);
        is_some
    }

    /// A server that finds the ring now takes all batches that were not stored. EL-3
    fn check_remains(&self) {
        let found = self.ring.remains();
        let mut end = None;
        for batch in &found {
            let (header, _) = BatchHeader::read(batch).expect("only batches");
            assert_eq!(
                *batch,
                LIFE.batch(header.first.0, header.count),
                "as written"
            );
            assert!(end <= Some(header.first), "in order");
            end = Some(header.first);
        }
        let needed: Vec<_> = self.held.iter().chain(&self.queue).cloned().collect();
        assert!(found.ends_with(&needed), "all that no file has yet");
    }
}

#[test]
fn a_ring_is_a_queue_whatever_is_torn() {
    let actions = vec(action(), 1..400);
    proptest!(cases(60), |(actions in actions, start in 0..1_u64 << 33)| {
        let mut model = Model {
            ring: Ring::new(start),
            next: start,
            queue: VecDeque::new(),
            held: VecDeque::new(),
        };
        for action in actions {
            match action {
                Action::Write { count } => model.write(count),
                Action::Tear { count, words } => model.tear(count, words),
                Action::Prepare { count, other } => model.prepare(count, other),
                Action::Take { most } => {
                    for _ in 0..most {
                        if !model.take() {
                            break;
                        }
                    }
                }
                Action::Release => {
                    model.ring.reader.release();
                    model.held.clear();
                }
            }
        }
        model.check_remains();
        model.take_all();
    });
}
