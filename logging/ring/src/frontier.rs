//! [`Frontier`]: a position in each stream of a pair of ranks.

use crate::{Ssn, Stream};

/// One message of each stream of a pair of ranks; it stands for all messages before them, or
/// for all from there on. It takes the place of a single number, which would suffice for one
/// stream: what a horizon frees, what a receiver misses first, where a chunk ends. STREAM-3
///
/// The program's stream is stored inline. Streams that were never used are not stored, and
/// stand at their first message.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Frontier {
    /// SSN in the program's stream.
    pub program: Ssn,
    /// SSNs in stream 1 and the following ones, up to the last that is beyond its first message.
    internal: Vec<Ssn>,
}

impl From<Ssn> for Frontier {
    /// At this message of its stream, and at the first message of all others.
    fn from(ssn: Ssn) -> Self {
        let mut frontier = Self::default();
        frontier.raise_to(ssn);
        frontier
    }
}

impl From<&Frontier> for Frontier {
    fn from(other: &Frontier) -> Self {
        other.clone()
    }
}

impl Frontier {
    /// Its message in a stream.
    #[inline]
    pub fn of(&self, stream: Stream) -> Ssn {
        match stream {
            Stream::PROGRAM => self.program,
            _ => self.of_internal(stream),
        }
    }

    fn of_internal(&self, stream: Stream) -> Ssn {
        let known = self.internal.get(stream.internal_index());
        known.copied().unwrap_or(Ssn::first(stream))
    }

    /// Its messages in the program's stream and in all streams that may be beyond their first
    /// message.
    pub fn all(&self) -> impl Iterator<Item = Ssn> {
        core::iter::once(self.program).chain(self.internal.iter().copied())
    }

    /// The inverse of [`Frontier::all`]; `None` for messages that it does not give.
    pub fn of_all(ssns: &[Ssn]) -> Option<Self> {
        let mut frontier = Self::default();
        for (stream, ssn) in ssns.iter().enumerate() {
            if usize::from(ssn.stream().0) != stream {
                return None;
            }
            frontier.raise_to(*ssn);
        }
        (frontier.all().count() == ssns.len()).then_some(frontier)
    }

    /// Whether the frontier is beyond this message.
    #[inline]
    pub fn is_beyond(&self, ssn: Ssn) -> bool {
        ssn < self.of(ssn.stream())
    }

    /// The message of the first stream in which the frontier is beyond `other`.
    pub fn first_beyond(&self, other: &Frontier) -> Option<Ssn> {
        self.all().find(|ssn| *ssn > other.of(ssn.stream()))
    }

    /// Whether the frontier is beyond `other` in no stream.
    pub fn is_within(&self, other: &Frontier) -> bool {
        self.first_beyond(other).is_none()
    }

    /// Moves to this message of its stream, forward or back.
    pub fn set(&mut self, ssn: Ssn) {
        match ssn.is_program() {
            true => self.program = ssn,
            false => {
                let index = ssn.stream().internal_index();
                if let Some(known) = self.internal.get_mut(index) {
                    *known = ssn;
                }
                self.raise_internal(ssn);
            }
        }
        while self.internal.pop_if(|last| last.count() == 0).is_some() {}
    }

    /// Moves back to this message of its stream, if the frontier is beyond it.
    pub fn lower_to(&mut self, ssn: Ssn) {
        if self.is_beyond(ssn) {
            self.set(ssn);
        }
    }

    /// A frontier with this one's program stream and the internal streams of `other`.
    #[must_use]
    pub fn with_internal_of(&self, other: &Frontier) -> Frontier {
        Self {
            program: self.program,
            internal: other.internal.clone(),
        }
    }

    /// Moves on to this message of its stream, if the frontier is before it.
    #[inline]
    pub fn raise_to(&mut self, ssn: Ssn) {
        match ssn.is_program() {
            true => self.program = self.program.max(ssn),
            false => self.raise_internal(ssn),
        }
    }

    /// Moves behind `ssn` and returns true, if it is the next message of an internal stream that
    /// was used before.
    #[inline]
    pub fn pass_internal(&mut self, ssn: Ssn) -> bool {
        let index = usize::from(ssn.stream().0).wrapping_sub(1);
        let next = self.internal.get_mut(index);
        next.is_some_and(|next| {
            let is_next = *next == ssn;
            if is_next {
                *next = ssn.next();
            }
            is_next
        })
    }

    #[inline]
    fn raise_internal(&mut self, ssn: Ssn) {
        let index = ssn.stream().internal_index();
        if let Some(known) = self.internal.get_mut(index) {
            *known = ssn.max(*known);
        } else if ssn.count() > 0 {
            self.reach(index, ssn);
        }
    }

    /// Raises a stream that was never used to this message.
    #[cold]
    fn reach(&mut self, index: usize, ssn: Ssn) {
        for stream in self.internal.len()..=index {
            self.internal.push(Ssn::first(Stream(stream as u16 + 1)));
        }
        self.internal[index] = ssn;
    }

    /// Moves on to `other` in each stream in which `other` is beyond.
    pub fn raise(&mut self, other: &Frontier) {
        other.all().for_each(|ssn| self.raise_to(ssn));
    }

    /// The later of both, in each stream.
    #[must_use]
    pub fn max(mut self, other: &Frontier) -> Frontier {
        self.raise(other);
        self
    }

    /// Returns the next number of a stream, and moves past it.
    #[inline]
    pub fn take_next(&mut self, stream: Stream) -> Ssn {
        let next = match stream {
            Stream::PROGRAM => Some(&mut self.program),
            _ => self.internal.get_mut(stream.internal_index()),
        };
        if let Some(next) = next {
            let following = next.next();
            return core::mem::replace(next, following);
        }
        let first = Ssn::first(stream);
        self.raise_internal(first.next());
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// STREAM-3: compared with a map from each stream to its message.
    #[test]
    fn a_frontier_is_a_place_in_each_stream() {
        let mut chance = 7u64;
        let mut random = |until: u64| {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(11);
            (chance >> 33) % until
        };
        let mut frontiers = [Frontier::default(), Frontier::default()];
        let mut maps = [BTreeMap::<u64, u64>::new(), BTreeMap::new()];
        for _ in 0..2000 {
            let (which, stream, count) = (random(2) as usize, random(5), random(40));
            let ssn = Ssn(Ssn::first(Stream(stream as u16)).0 + count);
            let before = maps[which].get(&stream).copied().unwrap_or(0);
            assert_eq!(frontiers[which].of(ssn.stream()).count(), before);
            assert_eq!(frontiers[which].is_beyond(ssn), count < before);
            match random(5) {
                0 => {
                    assert_eq!(frontiers[which].take_next(ssn.stream()).count(), before);
                    maps[which].insert(stream, before + 1);
                }
                1 => {
                    frontiers[which].lower_to(ssn);
                    maps[which].insert(stream, before.min(count));
                }
                _ => {
                    frontiers[which].raise_to(ssn);
                    maps[which].insert(stream, before.max(count));
                }
            }
            let beyond =
                (0..5).any(|stream| maps[0].get(&stream) > maps[1].get(&stream).or(Some(&0)));
            assert_eq!(frontiers[0].is_within(&frontiers[1]), !beyond);
            let both = frontiers[0].clone().max(&frontiers[1]);
            assert!(frontiers.iter().all(|one| one.is_within(&both)));
            let all: Vec<Ssn> = both.all().collect();
            assert_eq!(Frontier::of_all(&all), Some(both));
            if random(50) == 0 {
                frontiers = Default::default();
                maps = Default::default();
            }
        }
    }

    #[test]
    fn a_frontier_at_the_first_messages_is_the_default() {
        assert_eq!(Frontier::from(Ssn::first(Stream(7))), Frontier::default());
        assert_eq!(Frontier::from(Ssn(4)).program, Ssn(4));
        let first = Ssn::first(Stream(1));
        for strange in [&[][..], &[Ssn(3), first], &[first], &[Ssn(3), Ssn(3)]] {
            assert_eq!(Frontier::of_all(strange), None);
        }
    }

    /// STREAM-3
    #[test]
    fn only_the_next_message_of_a_used_stream_is_passed() {
        let first = Ssn::first(Stream(2));
        let mut frontier = Frontier::from(Ssn(4));
        assert!(!frontier.pass_internal(Ssn(4)), "the program's stream");
        assert!(!frontier.pass_internal(first), "never used");
        frontier.raise_to(first.next());
        assert!(!frontier.pass_internal(first) && !frontier.pass_internal(first.next().next()));
        assert!(frontier.pass_internal(first.next()));
        assert_eq!(frontier.of(Stream(2)), first.next().next());
        assert_eq!(frontier.program, Ssn(4));
    }

    /// STREAM-1
    #[test]
    fn a_number_names_its_stream_and_its_place() {
        let last = Ssn(Ssn::first(Stream::MAX).0 + ((1 << Ssn::COUNT_BITS) - 1));
        assert_eq!(last, Ssn(u64::MAX));
        assert_eq!(last.stream(), Stream::MAX);
        assert_eq!(Ssn((1 << 32) + 5).stream(), Stream::PROGRAM);
        let ssn = Ssn::first(Stream(3)).next().next();
        assert_eq!((ssn.stream(), ssn.count()), (Stream(3), 2));
        assert_eq!(ssn.to_string(), "2 of stream 3");
        assert_eq!(Ssn(17).to_string(), "17");
    }
}
