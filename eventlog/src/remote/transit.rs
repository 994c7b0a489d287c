//! A client's batches that are not known to be placed: assigns bytes to writes,
//! and tracks which bytes may be reused. Pure.

use crate::ring::{Cursor, DATA_BYTES, Full, LINE_BYTES};
use std::collections::VecDeque;

/// Maximum length of one write: batches that wait for the provider's room go out together,
/// up to the length that `ofi_rxm` sends without a handshake.
pub(super) const WRITE_BYTES_MAX: usize = 16 << 10;

/// Bytes that one RMA write transfers: one batch, or several consecutive
/// ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// Their position, on both sides.
    pub(super) at: Cursor,
    pub(super) bytes: usize,
    /// The position behind them.
    end: Cursor,
}

impl Span {
    /// Adds a batch if it lies right behind the span and the write stays short enough.
    fn extend(&mut self, batch: &Span) -> bool {
        let padded = self.bytes.next_multiple_of(LINE_BYTES);
        let is_next = self.at.0 + padded as u64 == batch.at.0
            && self.at.offset() + padded + batch.bytes <= DATA_BYTES;
        if !is_next || padded + batch.bytes > WRITE_BYTES_MAX {
            return false;
        }
        self.bytes = padded + batch.bytes;
        self.end = batch.end;
        true
    }
}

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct Transit {
    next: Cursor,
    placed: Cursor,
    consumed: Cursor,
    waiting: VecDeque<Span>,
    /// Ends of the writes under way, oldest first, and whether each has completed.
    under_way: VecDeque<(Cursor, bool)>,
    /// Token of the oldest write under way; tokens are consecutive.
    oldest: u64,
}

impl Transit {
    /// Finds the position of a batch.
    ///
    /// # Errors
    /// [`Full`]: the server has not consumed the bytes there, or their write is
    /// still under way, so that the provider may read them again.
    pub(super) fn admit(&mut self, bytes: usize) -> Result<Cursor, Full> {
        let at = self.next;
        if at.is_full(bytes, self.consumed.min(self.placed)) {
            return Err(Full);
        }
        self.next = at.after(bytes);
        let span = Span {
            at,
            bytes,
            end: self.next,
        };
        let is_taken_up = self
            .waiting
            .back_mut()
            .is_some_and(|last| last.extend(&span));
        if !is_taken_up {
            self.waiting.push_back(span);
        }
        Ok(at)
    }

    /// The next write, and its token.
    pub(super) fn to_post(&self) -> Option<(Span, u64)> {
        let token = self.oldest + self.under_way.len() as u64;
        self.waiting.front().map(|span| (*span, token))
    }

    /// The provider has taken the write of [`Transit::to_post`].
    pub(super) fn posted(&mut self) {
        if let Some(span) = self.waiting.pop_front() {
            self.under_way.push_back((span.end, false));
        }
    }

    /// Completes a write; returns whether it was under way.
    pub(super) fn completed(&mut self, token: u64) -> bool {
        let index = token.checked_sub(self.oldest);
        let write = index
            .and_then(|index| usize::try_from(index).ok())
            .and_then(|index| self.under_way.get_mut(index));
        let Some((_, is_over @ false)) = write else {
            return false;
        };
        *is_over = true;
        while let Some(&(end, true)) = self.under_way.front() {
            self.placed = end;
            self.oldest += 1;
            self.under_way.pop_front();
        }
        true
    }

    /// The server has stored everything before that position elsewhere. Returns whether
    /// the position was written.
    pub(super) fn consume(&mut self, told: Cursor) -> bool {
        if told > self.next {
            return false;
        }
        self.consumed = self.consumed.max(told);
        true
    }

    /// Position before which everything is placed. EL-1
    pub(super) fn placed(&self) -> Cursor {
        self.placed
    }

    /// The position of the next batch.
    pub(super) fn written(&self) -> Cursor {
        self.next
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.under_way.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
    use refrain_logging::determinant::batch::{BATCH_BYTES_MAX, HEADER_BYTES};

    #[derive(Clone, Debug)]
    enum Step {
        Admit(usize),
        Post,
        Complete(usize),
        Consume,
    }

    /// Sometimes the provider keeps up, sometimes nothing completes for a long time.
    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let bytes = prop_oneof![
            Just(HEADER_BYTES + 1),
            Just(BATCH_BYTES_MAX),
            HEADER_BYTES + 1..=BATCH_BYTES_MAX
        ];
        let with = move |(posts, completes): (u32, u32)| {
            let step = prop_oneof![
                8 => bytes.clone().prop_map(Step::Admit),
                posts => Just(Step::Post),
                completes => (0..1_usize << 16).prop_map(Step::Complete),
                2 => Just(Step::Consume),
            ];
            proptest::collection::vec(step, 1..1500)
        };
        (
            prop_oneof![1..3_u32, 4..12_u32],
            prop_oneof![1..2_u32, 4..12_u32],
        )
            .prop_flat_map(with)
    }

    /// A model that tracks each batch. EL-1: a batch counts as placed once it
    /// and all earlier ones have completed; bytes are reused only when the
    /// server has consumed them and no write reads them.
    #[derive(Default)]
    struct Model {
        // Position, bytes, token of its write, whether it has completed.
        batches: Vec<(Cursor, usize, Option<u64>, bool)>,
        under_way: Vec<(u64, Span)>,
        consumed: Cursor,
    }

    impl Model {
        fn covered(&mut self, span: &Span) -> Vec<usize> {
            let within = |at: Cursor| at >= span.at && at.0 < span.at.0 + span.bytes as u64;
            (0..self.batches.len())
                .filter(|&index| within(self.batches[index].0))
                .collect()
        }

        fn placed(&self) -> Cursor {
            let open = self.batches.iter().find(|batch| !batch.3);
            let last = self.batches.last();
            open.map(|batch| batch.0)
                .or(last.map(|batch| batch.0.after(batch.1)))
                .unwrap_or_default()
        }
    }

    fn run(steps: &[Step]) -> (usize, u64) {
        let (mut transit, mut model, mut merged) = (Transit::default(), Model::default(), 0);
        for step in steps {
            match *step {
                Step::Admit(bytes) => {
                    let free_to = model.consumed.min(model.placed());
                    let is_full = transit.written().is_full(bytes, free_to);
                    match transit.admit(bytes) {
                        Ok(at) => {
                            assert!(!is_full, "bytes are given out that are not free");
                            model.batches.push((at, bytes, None, false));
                        }
                        Err(Full) => assert!(is_full, "free bytes are not given out"),
                    }
                }
                Step::Post => {
                    let Some((span, token)) = transit.to_post() else {
                        assert!(model.batches.iter().all(|batch| batch.2.is_some()));
                        continue;
                    };
                    transit.posted();
                    assert!(span.at.offset() + span.bytes <= DATA_BYTES);
                    let covered = model.covered(&span);
                    merged += covered.len() - 1;
                    for &index in &covered {
                        let batch = &mut model.batches[index];
                        assert!(batch.2.replace(token).is_none(), "written twice");
                    }
                    let last = covered.last().expect("a write of some batch");
                    let (at, bytes, ..) = model.batches[*last];
                    assert_eq!(at.0 + bytes as u64, span.at.0 + span.bytes as u64);
                    model.under_way.push((token, span));
                }
                Step::Complete(which) => {
                    if model.under_way.is_empty() {
                        assert!(!transit.completed(which as u64));
                        continue;
                    }
                    let which = which % model.under_way.len();
                    let (token, _) = model.under_way.swap_remove(which);
                    assert!(transit.completed(token));
                    assert!(!transit.completed(token), "a write is over once");
                    for batch in &mut model.batches {
                        batch.3 |= batch.2 == Some(token);
                    }
                }
                Step::Consume => {
                    model.consumed = transit.written();
                    assert!(transit.consume(model.consumed));
                    assert!(transit.consume(Cursor::default()), "old news");
                    assert!(!transit.consume(Cursor(model.consumed.0 + 64)));
                }
            }
            assert_eq!(transit.placed(), model.placed());
            let all_done = model.batches.iter().all(|batch| batch.3);
            assert_eq!(transit.is_idle(), all_done);
        }
        (merged, transit.written().0 / DATA_BYTES as u64)
    }

    #[test]
    fn bytes_are_used_again_only_when_nobody_needs_them() {
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
        let config = Config {
            cases: 200,
            failure_persistence: None,
            ..Config::default()
        };
        let (mut merged, mut laps) = (0, 0);
        let reached = core::cell::Cell::new((0, 0));
        TestRunner::new_with_rng(config, rng)
            .run(&steps(), |steps| {
                let (more, deep) = run(&steps);
                let (merged, laps) = reached.get();
                reached.set((merged + more, laps.max(deep)));
                Ok(())
            })
            .unwrap_or_else(|error| panic!("{error}"));
        (merged, laps) = {
            let (more, deep) = reached.get();
            (merged + more, laps + deep)
        };
        assert!(merged > 100 && laps >= 2, "{merged} merged, {laps} laps");
    }

    #[test]
    fn what_waits_goes_out_together_but_not_across_the_end() {
        let mut transit = Transit::default();
        let full = (0..).find(|_| transit.admit(100).is_err()).unwrap();
        // The last position that takes a batch of any length.
        assert_eq!(full, (DATA_BYTES - BATCH_BYTES_MAX) / 128 + 1);
        let mut spans = Vec::new();
        while let Some((span, _)) = transit.to_post() {
            transit.posted();
            spans.push(span);
        }
        assert_eq!(spans[0].bytes, WRITE_BYTES_MAX - 28);
        assert_eq!(spans.len(), full.div_ceil(WRITE_BYTES_MAX / 128));
        for token in (0..spans.len() as u64).rev() {
            assert_eq!(transit.placed(), Cursor(0));
            assert!(transit.completed(token));
        }
        assert_eq!(transit.placed(), transit.written());
    }
}
