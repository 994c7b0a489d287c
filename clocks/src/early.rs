//! Answers to calls before the program joins its job: the first life records them, and a later
//! life returns them in the same order, as long as its calls are of the same kinds.
//!
//! Encoding of an answer: kind (one byte), length (two bytes, little endian), bytes.

const HEAD_BYTES: usize = 3;
/// Maximum number of bytes of all recorded answers.
pub const KEPT_BYTES_MAX: usize = 60 << 10;

/// Early answers of this process.
pub struct Early {
    kept: [u8; KEPT_BYTES_MAX],
    end: usize,
    is_full: bool,
    /// In a later life: the answers of the first life that were not returned yet.
    again: Option<&'static [u8]>,
}

impl Early {
    /// Starts without recorded answers; a later life returns the answers in `again`.
    pub fn begin(&mut self, again: Option<&'static [u8]>) {
        self.end = 0;
        self.is_full = false;
        self.again = again;
    }

    /// The recorded answers of this life.
    pub fn kept(&self) -> &[u8] {
        self.kept.get(..self.end).unwrap_or_default()
    }

    /// Whether answers were not recorded for lack of room.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Records `answer`, or in a later life replaces it with that of the first life.
    pub fn answer(&mut self, kind: u8, answer: &mut [u8]) {
        match self.again {
            Some(again) => self.again = Some(give(again, kind, answer).unwrap_or_default()),
            None => self.is_full = self.is_full || self.keep(kind, answer).is_none(),
        }
    }

    fn keep(&mut self, kind: u8, answer: &[u8]) -> Option<()> {
        let [low, high] = u16::try_from(answer.len()).ok()?.to_le_bytes();
        let end = self
            .end
            .checked_add(HEAD_BYTES)?
            .checked_add(answer.len())?;
        let (head, body) = self
            .kept
            .get_mut(self.end..end)?
            .split_at_mut_checked(HEAD_BYTES)?;
        copy([kind, low, high].iter(), head);
        copy(answer.iter(), body);
        self.end = end;
        Some(())
    }
}

/// Copies the first answer of `again` to `answer`, if it has this kind and length. Returns the
/// rest.
fn give<'a>(again: &'a [u8], kind: u8, answer: &mut [u8]) -> Option<&'a [u8]> {
    let (head, rest) = again.split_first_chunk::<HEAD_BYTES>()?;
    let [of, low, high] = *head;
    let bytes = usize::from(u16::from_le_bytes([low, high]));
    if of != kind || bytes != answer.len() {
        return None;
    }
    let (given, rest) = rest.split_at_checked(bytes)?;
    copy(given.iter(), answer);
    Some(rest)
}

fn copy<'a>(from: impl Iterator<Item = &'a u8>, to: &mut [u8]) {
    for (from, to) in from.zip(to) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::boxed::Box;

    fn early() -> Early {
        Early {
            kept: [0; KEPT_BYTES_MAX],
            end: 0,
            is_full: false,
            again: None,
        }
    }

    fn ask(early: &mut Early, kind: u8, fresh: &[u8]) -> Box<[u8]> {
        let mut answer: Box<[u8]> = fresh.into();
        early.answer(kind, &mut answer);
        answer
    }

    fn again(early: &Early) -> Early {
        let mut later = self::early();
        later.begin(Some(Box::leak(early.kept().into())));
        later
    }

    #[test]
    fn a_later_life_is_given_the_answers_of_the_first() {
        let mut first = early();
        for (kind, fresh) in [(1, &b"one"[..]), (2, b""), (1, b"three")] {
            assert_eq!(*ask(&mut first, kind, fresh), *fresh);
        }
        let mut later = again(&first);
        assert_eq!(*ask(&mut later, 1, b"ONE"), *b"one");
        assert_eq!(*ask(&mut later, 2, b""), *b"");
        assert_eq!(*ask(&mut later, 1, b"THREE"), *b"three");
        assert_eq!(
            *ask(&mut later, 1, b"FOUR"),
            *b"FOUR",
            "no more answers are recorded"
        );
        assert!(later.kept().is_empty());
    }

    #[test]
    fn another_question_ends_them() {
        for (kind, fresh) in [(2, &b"ONE"[..]), (1, b"LONGER")] {
            let mut first = early();
            ask(&mut first, 1, b"one");
            ask(&mut first, 1, b"two");
            let mut later = again(&first);
            assert_eq!(*ask(&mut later, kind, fresh), *fresh);
            assert_eq!(*ask(&mut later, 1, b"TWO"), *b"TWO");
        }
    }

    #[test]
    fn what_is_kept_has_a_bound_and_no_gap() {
        let mut first = early();
        ask(&mut first, 1, &[7; 60_000]);
        assert!(!first.is_full());
        ask(&mut first, 1, &[8; 60_000]);
        assert!(first.is_full());
        ask(&mut first, 1, b"it would fit");
        assert_eq!(first.kept().len(), HEAD_BYTES + 60_000);
        let mut long = early();
        ask(&mut long, 1, &[7; 1 << 16]);
        assert!(long.is_full());
    }
}
