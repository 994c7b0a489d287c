//! What a program makes of its answers.

use super::rounds::{Asked, Kind, Open, Program, Then};
use super::stamp::{fold, verify};
use super::{Answer, Ended, Found, STAMP_BYTES};

impl Program {
    pub(super) fn learn(&mut self, answer: &Answer) {
        match answer {
            Answer::Begin => self.told(1),
            Answer::Posted(number) => {
                self.told(2);
                self.told(u64::from(number.0));
                if let Asked::Kind(kind) = self.asked {
                    self.posted(Open {
                        number: *number,
                        kind,
                        is_cancelled: false,
                    });
                }
            }
            Answer::Ended(all) => {
                self.told(3);
                self.told(all.len() as u64);
                for ended in all {
                    self.ended(ended);
                }
            }
            Answer::Found(found) => {
                self.told_found(found.as_ref());
                if let (Asked::Found, Some(found)) = (self.asked, found) {
                    self.then.push(Then::ReceiveFound(*found));
                }
            }
            Answer::Taken(taken) => {
                self.told_found(taken.as_ref().map(|(_, found)| found));
                if let Some((number, _)) = taken {
                    let kind = match self.asked {
                        Asked::TakeNamed(source) => self.next_named(source),
                        _ => self.next_wild(),
                    };
                    self.then.push(Then::ReceiveTaken(*number, kind));
                }
            }
            Answer::Done => self.told(5),
            Answer::Number(number) => {
                self.told(6);
                self.told(*number as u64);
            }
            Answer::Bytes(bytes) => {
                self.told(7);
                bytes.iter().for_each(|byte| self.told((*byte).into()));
            }
        }
    }

    fn told(&mut self, word: u64) {
        self.state = fold(self.state, word);
    }

    fn told_found(&mut self, found: Option<&Found>) {
        self.told(4);
        if let Some(found) = found {
            self.told(u64::from(found.source.0) << 32 | u64::from(found.tag as u32));
            self.told(found.bytes);
        }
    }

    fn posted(&mut self, open: Open) {
        self.open.push(open);
        let is_send = matches!(open.kind, Kind::Send { .. });
        if is_send && self.chance.u32(0..100) < self.style.tested_percent {
            self.then.push(Then::TestWith(open.number));
        }
        if open.kind == Kind::Extra {
            self.then.push(Then::Wait(open.number));
            self.then.push(Then::Cancel(open.number));
            for _ in 0..self.chance.u32(0..3) {
                self.then.push(Then::Test(open.number));
            }
        }
    }

    fn ended(&mut self, ended: &Ended) {
        self.told(u64::from(ended.request.0) << 1 | u64::from(ended.cancelled));
        let is_it = |open: &Open| open.number == ended.request;
        let kind = match (self.open.iter().position(is_it), self.asked) {
            (Some(at), _) => self.open.remove(at).kind,
            // A blocking receive was never open.
            (None, Asked::Kind(kind)) => kind,
            (None, _) => return self.complain(format_args!("{:?} ended twice", ended.request)),
        };
        if ended.cancelled {
            match kind {
                Kind::Extra => self.wild_begun -= 1,
                Kind::Never => {}
                _ => self.complain(format_args!("{:?} was cancelled", ended.request)),
            }
            return;
        }
        self.told(u64::from(ended.peer.0) << 32 | u64::from(ended.tag as u32));
        self.told(ended.bytes);
        match kind {
            Kind::Send { .. } => {}
            Kind::Never => self.complain(format_args!("{ended:?}: nobody sends this")),
            Kind::Named { .. } | Kind::Wild | Kind::Extra => self.received(kind, ended),
        }
    }

    fn received(&mut self, kind: Kind, ended: &Ended) {
        let stamp = match verify(&ended.payload, ended.bytes) {
            Ok(stamp) => stamp,
            Err(damage) => {
                for chunk in ended.payload.chunks(8) {
                    let mut word = [0; 8];
                    word[..chunk.len()].copy_from_slice(chunk);
                    self.told(u64::from_le_bytes(word));
                }
                let (peer, bytes) = (ended.peer, ended.bytes);
                return self.complain(format_args!("{bytes} bytes of {peer}: {damage}"));
            }
        };
        // Everything else in it follows from these.
        self.told(stamp.number);
        self.told(stamp.state);
        self.told(ended.payload.len() as u64);
        let of_source = self.script.expected.get(ended.peer.index());
        let expected = of_source.and_then(|of| of.get(stamp.number as usize));
        let is_named = matches!(kind, Kind::Named { .. });
        let fits = expected.is_some_and(|expected| {
            expected.is_named == is_named && expected.bytes as u64 == ended.bytes
        });
        let is_its = (stamp.source, stamp.destination) == (ended.peer, self.rank);
        let is_next = match kind {
            Kind::Named { source, index } => {
                let number = self.script.named[source.index()].get(index as usize);
                source == ended.peer
                    && number.map(|number| u64::from(*number)) == Some(stamp.number)
            }
            _ => true,
        };
        if !(fits && is_its && is_next && ended.payload.len() >= STAMP_BYTES) {
            let (peer, bytes) = (ended.peer, ended.bytes);
            self.complain(format_args!(
                "{kind:?} got {bytes} bytes of {peer} with {stamp:?}"
            ));
        } else if !self.mark(ended.peer.index(), stamp.number as usize) {
            self.complain(format_args!("{stamp:?} came twice"));
        }
    }

    /// Marks a message as received; false when it was.
    fn mark(&mut self, source: usize, number: usize) -> bool {
        let words = &mut self.received[source];
        if words.len() <= number / 64 {
            words.resize(number / 64 + 1, 0);
        }
        let bit = 1 << (number % 64);
        let is_new = words[number / 64] & bit == 0;
        words[number / 64] |= bit;
        is_new
    }

    fn complain(&mut self, what: std::fmt::Arguments<'_>) {
        self.complaint.get_or_insert_with(|| what.to_string());
    }
}
