//! The format of payloads as the document describes it, by a plain reader: it keeps all
//! determinants, and searches them from the end for what predicts the next one.

use crate::batches::batch_of;
use crate::fixed_seed::cases;
use proptest::prelude::*;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::record::{decode, encode};
use refrain_logging::determinant::{Determinant, Match, Matched};
use refrain_ring::{Clock, Rank, Ssn};

/// Kinds of determinants, as far as they predict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Match,
    CompletedMatch,
    Set,
    Other,
}

/// A determinant that names a request: its kind, and the two kinds before it.
struct Named {
    row: [Kind; 3],
    step: u64,
    further: u64,
    lag: u64,
}

/// A message of a source.
struct Message {
    place: usize,
    ssn: u64,
}

#[derive(Default)]
struct Reader<'a> {
    bytes: &'a [u8],
    clock: u64,
    request: u64,
    kinds: Vec<Kind>,
    named: Vec<Named>,
    messages: Vec<Message>,
    /// By place.
    sources: Vec<u32>,
    ssn: u64,
    is_named: bool,
    tags: Vec<i32>,
    length: u64,
    numbers: [i64; 16],
}

impl Reader<'_> {
    fn byte(&mut self) -> u8 {
        let (first, rest) = self.bytes.split_first().expect("a byte");
        self.bytes = rest;
        *first
    }

    fn number(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        loop {
            let byte = self.byte();
            value |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return value;
            }
        }
    }

    fn difference(&mut self) -> u64 {
        let number = self.number();
        (number / 2) ^ (number % 2).wrapping_neg()
    }

    fn pair(&mut self) -> (u64, u64) {
        let byte = u64::from(self.byte());
        let mut pair = (byte / 32, byte % 32);
        if pair.0 == 7 {
            pair.0 += self.number();
        }
        if pair.1 == 31 {
            pair.1 += self.number();
        }
        pair
    }

    fn row(&self, kind: Kind) -> [Kind; 3] {
        let before = |back: usize| {
            let at = self.kinds.len().checked_sub(back);
            at.map_or(Kind::Other, |at| self.kinds[at])
        };
        [kind, before(1), before(2)]
    }

    /// Step, request and lag that are predicted.
    fn expected(&self, kind: Kind) -> (u64, u64, u64) {
        let row = self.row(kind);
        let mut latest = self.named.iter().rev();
        let mut alike = self.named.iter().rev();
        let found = alike.find(|it| it.row == row);
        match found.or_else(|| latest.find(|it| it.row[0] == kind)) {
            Some(it) => (it.step, self.request.wrapping_add(it.further), it.lag),
            None => (0, self.request, 0),
        }
    }

    /// Notes a determinant that names requests.
    fn note(&mut self, kind: Kind, step: u64, request: u64, last: u64) -> Clock {
        let at = self.clock + step;
        self.named.push(Named {
            row: self.row(kind),
            step,
            further: request.wrapping_sub(self.request),
            lag: at.wrapping_sub(request),
        });
        self.request = last;
        self.note_other(kind, step)
    }

    fn note_other(&mut self, kind: Kind, step: u64) -> Clock {
        self.kinds.push(kind);
        self.clock += step;
        Clock(self.clock)
    }

    /// The number that the next message of this source has, as predicted.
    fn expected_ssn(&self, place: usize) -> u64 {
        let of_source = self.messages.iter().filter(|it| it.place == place);
        let (mut latest, mut stride, mut difference) = (u64::MAX, 1, 1);
        for message in of_source {
            let before = core::mem::replace(&mut latest, message.ssn);
            let now = message.ssn.wrapping_sub(before);
            if core::mem::replace(&mut difference, now) == now {
                stride = now;
            }
        }
        latest.wrapping_add(stride)
    }

    fn message(&mut self, code: u8) -> (Rank, Ssn) {
        let place;
        match code {
            15 => {
                let source = self.number() as u32;
                place = self.sources.len();
                self.sources.push(source);
                self.ssn = self.ssn.wrapping_add(self.difference());
            }
            14 => {
                let (known, difference) = self.pair();
                place = known as usize;
                let difference = (difference / 2) ^ (difference % 2).wrapping_neg();
                self.ssn = self.expected_ssn(place).wrapping_add(difference);
            }
            _ => {
                place = match code {
                    13 => self.number() as usize,
                    place => place.into(),
                };
                self.ssn = self.expected_ssn(place);
            }
        }
        let ssn = self.ssn;
        self.messages.push(Message { place, ssn });
        (Rank(self.sources[place]), Ssn(ssn))
    }

    fn matched(&mut self, head: u8) -> Determinant {
        let is_completed = head & 0x40 != 0;
        let kind = match is_completed {
            false => Kind::Match,
            true => Kind::CompletedMatch,
        };
        let (mut step, mut request, mut lag) = self.expected(kind);
        let way = head >> 4 & 3;
        match way {
            2 => step = self.number(),
            3 => (step, lag) = self.pair(),
            _ => {}
        }
        if way > 0 {
            request = (self.clock + step).wrapping_sub(lag);
        }
        let at = self.note(kind, step, request, request);
        let (source, ssn) = self.message(head & 15);
        Determinant::Match(Match {
            at,
            matched: Matched {
                request: Clock(request),
                source,
                ssn,
            },
            is_named: self.is_named,
            is_completed,
        })
    }

    fn set(&mut self, head: u8, continues: bool) -> Determinant {
        let count = match head & 15 {
            0 => self.number() + 16,
            count => count.into(),
        };
        let (mut step, mut first, _) = self.expected(Kind::Set);
        if head & 0x20 != 0 {
            let lag;
            (step, lag) = self.pair();
            first = (self.clock + step).wrapping_sub(lag);
        }
        let mut requests = vec![Clock(first)];
        for _ in 1..count {
            let further = match head & 0x10 {
                0 => 1,
                _ => self.difference(),
            };
            let last = requests[requests.len() - 1];
            requests.push(Clock(last.0.wrapping_add(further)));
        }
        let last = requests[requests.len() - 1].0;
        let at = self.note(Kind::Set, step, first, last);
        Determinant::Completion {
            at,
            requests,
            continues,
        }
    }

    fn probe(&mut self, code: u8) -> Determinant {
        let (source, ssn) = self.message(code);
        let head = self.byte();
        let step = match head >> 4 {
            15 => self.number() + 15,
            step => step.into(),
        };
        let at = self.note_other(Kind::Other, step);
        // At first all are 0.
        self.tags.resize(7, 0);
        let tag = match head >> 1 & 7 {
            7 => {
                let difference = self.difference() as i64;
                self.tags.pop();
                (i64::from(self.tags[0]) + difference) as i32
            }
            place => self.tags.remove(place.into()),
        };
        self.tags.insert(0, tag);
        if head & 1 != 0 {
            self.length = self.number();
        }
        Determinant::Probe {
            at,
            source,
            ssn,
            tag,
            bytes: self.length,
        }
    }

    fn next(&mut self) -> Determinant {
        let mut head = self.byte();
        if head == 0x10 {
            self.is_named = !self.is_named;
            head = self.byte();
        }
        match head {
            0x80.. => self.matched(head),
            0x40.. => self.set(head, false),
            0x30.. => {
                let step = self.number();
                let at = self.note_other(Kind::Other, step);
                let difference = self.difference() as i64;
                let series = head & 15;
                let value = &mut self.numbers[usize::from(series)];
                *value = value.wrapping_add(difference);
                let value = *value;
                Determinant::Number { at, series, value }
            }
            0x20.. => self.probe(head & 15),
            0x11 => {
                let head = self.byte();
                self.set(head, true)
            }
            0x12 => {
                let (step, distance) = self.pair();
                let at = self.note_other(Kind::Other, step);
                let request = Clock(at.0.wrapping_sub(distance));
                Determinant::Cancelled { at, request }
            }
            0x13 => {
                let step = self.number();
                let at = self.note_other(Kind::Other, step);
                let count = usize::from(self.byte()) + 1;
                let bytes = (0..count).map(|_| self.byte()).collect();
                Determinant::Bytes { at, bytes }
            }
            0x14 | 0x15 => {
                let (step, span) = self.pair();
                let at = self.note_other(Kind::Other, step);
                let others = if head == 0x14 { span } else { self.number() };
                Determinant::Nothing {
                    at,
                    first: Clock(at.0 - span),
                    count: others + 1,
                }
            }
            _ => panic!("unknown kind {head:02x}"),
        }
    }
}

/// A determinant of a program that repeats itself: its kind, the step of the clock, how much further its
/// request is, its source, and another number.
type Part = (u8, u64, i8, u32, u8);

fn part() -> impl Strategy<Value = Part> {
    let sources = prop_oneof![8 => 0..4u32, 1 => 0..40u32];
    (0..12u8, 0..9u64, -3..40i8, sources, any::<u8>())
}

/// The determinants of a program.
fn program(parts: impl Iterator<Item = Part>) -> Vec<Determinant> {
    let (mut clock, mut request) = (1000, 990_u64);
    let mut ssns = [0; 40];
    let mut row = Vec::new();
    for (kind, step, further, source, other) in parts {
        clock += step;
        let at = Clock(clock);
        let ssn = &mut ssns[source as usize];
        // Some go to receives that are not logged.
        *ssn += [1, 1, 1, 2][usize::from(other % 4)];
        let (source, ssn) = (Rank(source), Ssn(*ssn));
        request = request.wrapping_add_signed(further.into());
        row.push(match kind {
            0..6 => Determinant::Match(Match {
                at,
                matched: Matched {
                    request: Clock(request),
                    source,
                    ssn,
                },
                is_named: other == 7,
                is_completed: kind > 3,
            }),
            6 => Determinant::Probe {
                at,
                source,
                ssn,
                tag: i32::from(other % 9) * 77,
                bytes: u64::from(other / 64) * 200,
            },
            7 | 8 => {
                let further = if kind == 7 { 1 } else { u64::from(other % 5) };
                let requests = (0..1 + u64::from(other % 20)).map(|n| request + further * n);
                let requests: Vec<_> = requests.map(Clock).collect();
                request = requests[requests.len() - 1].0;
                Determinant::Completion {
                    at,
                    requests,
                    continues: false,
                }
            }
            9 => Determinant::Nothing {
                at,
                first: Clock(clock - u64::from(other % 40)),
                count: 1 + u64::from(other % 40) / (1 + u64::from(other / 200)),
            },
            10 => Determinant::Cancelled {
                at,
                request: Clock(clock - u64::from(other)),
            },
            _ if other < 16 => Determinant::Bytes {
                at,
                bytes: vec![other; 1 + usize::from(other)],
            },
            _ => Determinant::Number {
                at,
                series: other % 16,
                value: i64::from(other) * i64::from(source.0) - 100,
            },
        });
    }
    row
}

fn assert_read(row: &[Determinant]) {
    let payload = encode(row);
    let mut reader = Reader {
        bytes: &payload,
        clock: row[0].at().0,
        request: row[0].at().0,
        ..Reader::default()
    };
    for (at, determinant) in row.iter().enumerate() {
        assert_eq!(reader.next(), *determinant, "number {at}");
    }
    assert_eq!(reader.bytes, []);
    let batch = batch_of(row, 0);
    let (header, payload) = BatchHeader::read(&batch).expect("sealed");
    assert_eq!(decode(&header, payload).as_deref(), Ok(row));
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn the_plain_reader_reads_any_program(
        parts in prop::collection::vec(part(), 1..60),
        times in 1..5usize,
        other in prop::collection::vec((any::<prop::sample::Index>(), part()), 0..4),
    ) {
        let mut all: Vec<Part> = (0..times).flat_map(|_| parts.clone()).collect();
        for (index, part) in other {
            let at = index.index(all.len());
            all[at] = part;
        }
        assert_read(&program(all.into_iter()));
    }
}
