//! The receives, probes, tests and waits of a program.

use super::rounds::{Asked, Kind, Open, Phase, Program, Then};
use super::{Call, Found, From, RequestNumber, TAG_NAMED, TAG_NEVER, TAG_WILD};
use crate::plan::STAMP_BYTES;
use refrain_ring::Rank;

/// One receive in this many has a buffer shorter than its message.
const SHORT_ONE_IN: u32 = 64;

/// The kind of message that a receive is due for.
#[derive(Clone, Copy)]
enum Due {
    Wild,
    Named(Rank),
}

impl Program {
    /// Number of receives from any source that are due and not begun.
    pub(super) fn wild_left(&self) -> u64 {
        let until = self.script.rounds[self.round].wild_until;
        until.saturating_sub(self.wild_begun)
    }

    pub(super) fn named_left(&self, source: usize) -> u32 {
        self.script.rounds[self.round].named_until[source] - self.named_begun[source]
    }

    pub(super) fn some_peer(&mut self) -> Rank {
        let ranks = self.named_begun.len() as u32;
        Rank((self.rank.0 + self.chance.u32(1..ranks.max(2))) % ranks.max(2))
    }

    /// Counts a receive from this source as begun.
    pub(super) fn next_named(&mut self, source: Rank) -> Kind {
        let begun = &mut self.named_begun[source.index()];
        *begun += 1;
        Kind::Named {
            source,
            index: *begun - 1,
        }
    }

    /// Counts a receive from any source as begun.
    pub(super) fn next_wild(&mut self) -> Kind {
        self.wild_begun += 1;
        Kind::Wild
    }

    fn room_for(&mut self, bytes: usize) -> usize {
        match self.chance.u32(0..SHORT_ONE_IN) {
            0 => self.chance.usize(STAMP_BYTES..=bytes),
            1 => bytes + 64,
            _ => bytes,
        }
    }

    fn kind_room(&mut self, kind: Kind) -> usize {
        let bytes = match kind {
            Kind::Named { source, index } => self.script.named_bytes(source, index),
            _ => self.script.wild_room,
        };
        self.room_for(bytes)
    }

    pub(super) fn post_named(&mut self, source: Rank) -> Call {
        let kind = self.next_named(source);
        self.post(kind, named(source))
    }

    pub(super) fn post_wild(&mut self, kind: Kind) -> Call {
        self.next_wild();
        let from = self.any_source();
        self.post(kind, from)
    }

    fn post(&mut self, kind: Kind, from: From) -> Call {
        self.asked = Asked::Kind(kind);
        let room_bytes = self.kind_room(kind);
        Call::Irecv { from, room_bytes }
    }

    /// The call that follows directly on an answer, if it is still possible.
    pub(super) fn follow(&mut self, then: Then) -> Option<Call> {
        match then {
            Then::ReceiveTaken(number, kind) => {
                self.asked = Asked::Kind(kind);
                Some(Call::Imrecv(number))
            }
            Then::ReceiveFound(found) => Some(self.receive_found(&found)),
            Then::Test(number) => self.if_open(number, Call::Test(number)),
            Then::TestWith(number) => Some(self.test_with(number)),
            Then::Wait(number) => self.if_open(number, Call::Wait(number)),
            Then::Cancel(number) => self.if_open(number, Call::Cancel(number)),
        }
    }

    pub(super) fn if_open(&mut self, number: RequestNumber, call: Call) -> Option<Call> {
        let open = self.open.iter_mut().find(|open| open.number == number)?;
        open.is_cancelled |= matches!(call, Call::Cancel(_));
        self.asked = Asked::Nothing;
        Some(call)
    }

    /// Receives the message that a probe found, by its source or from any source: it is the first
    /// match.
    fn receive_found(&mut self, found: &Found) -> Call {
        let kind = if found.tag == TAG_NAMED {
            self.next_named(found.source)
        } else {
            self.next_wild()
        };
        let by_name = found.tag == TAG_NAMED || self.chance.bool();
        let from = From {
            source: by_name.then_some(found.source),
            tag: Some(found.tag),
        };
        self.asked = Asked::Kind(kind);
        let room_bytes = self.room_for(found.bytes as usize);
        if self.chance.bool() || !by_name {
            // Another message may match a receive from any source first.
            let room_bytes = if by_name {
                room_bytes
            } else {
                self.script.wild_room
            };
            return Call::Irecv { from, room_bytes };
        }
        Call::Recv { from, room_bytes }
    }

    /// A probe or test between sends and receives, which changes nothing by itself.
    pub(super) fn look(&mut self) -> Option<Call> {
        let tests = !self.open.is_empty() && self.chance.bool();
        if tests {
            return Some(self.test());
        }
        self.asked = Asked::Look;
        let peer = self.some_peer();
        Some(match self.chance.u32(0..6) {
            0 => Call::Iprobe(WILD),
            1 => Call::Iprobe(From {
                source: None,
                tag: None,
            }),
            2 => Call::Iprobe(From {
                source: Some(peer),
                tag: None,
            }),
            3 => Call::Iprobe(From {
                source: None,
                tag: Some(TAG_NEVER),
            }),
            4 if self.named_left(peer.index()) > 0 => {
                self.asked = Asked::TakeNamed(peer);
                Call::Improbe(named(peer))
            }
            _ => {
                self.asked = Asked::TakeWild;
                Call::Improbe(WILD)
            }
        })
    }

    /// A random one of the receives that are due and not begun.
    fn due(&mut self) -> Option<Due> {
        let wild = self.wild_left();
        let ranks = self.named_begun.len();
        let named: u64 = (0..ranks)
            .map(|rank| u64::from(self.named_left(rank)))
            .sum();
        if wild + named == 0 {
            return None;
        }
        let mut which = self.chance.u64(0..wild + named);
        if which < wild {
            return Some(Due::Wild);
        }
        which -= wild;
        for source in 0..ranks {
            let left = u64::from(self.named_left(source));
            if which < left {
                return Some(Due::Named(Rank(source as u32)));
            }
            which -= left;
        }
        None
    }

    fn pattern(&mut self, due: Due) -> From {
        match due {
            Due::Wild => self.any_source(),
            Due::Named(source) => named(source),
        }
    }

    /// The pattern of receives from any source.
    fn any_source(&mut self) -> From {
        let is_open = self.script.is_all_wild && self.chance.bool();
        From {
            tag: WILD.tag.filter(|_| !is_open),
            ..WILD
        }
    }

    pub(super) fn receive(&mut self) -> Option<Call> {
        let Some(due) = self.due() else {
            return self.go_on(Phase::Complete);
        };
        if self.chance.u32(0..5) == 0
            && let Some(call) = self.ask()
        {
            return Some(call);
        }
        if self.chance.u32(0..100) < self.style.probed_percent {
            return Some(self.find(due));
        }
        let kind = match due {
            Due::Wild => self.next_wild(),
            Due::Named(source) => self.next_named(source),
        };
        self.asked = Asked::Kind(kind);
        let (from, room_bytes) = (self.pattern(due), self.kind_room(kind));
        Some(if self.chance.bool() {
            Call::Recv { from, room_bytes }
        } else {
            Call::Irecv { from, room_bytes }
        })
    }

    /// Probes for a due message before its receive.
    fn find(&mut self, due: Due) -> Call {
        let (from, takes) = (self.pattern(due), self.chance.bool());
        self.asked = match (takes, due) {
            (false, _) => Asked::Found,
            (true, Due::Wild) => Asked::TakeWild,
            (true, Due::Named(source)) => Asked::TakeNamed(source),
        };
        let tries = self.tries_left > 0 && self.chance.u32(0..3) > 0;
        self.tries_left -= u32::from(tries);
        match (takes, tries) {
            (false, false) => Call::Probe(from),
            (false, true) => Call::Iprobe(from),
            (true, false) => Call::Mprobe(from),
            (true, true) => Call::Improbe(from),
        }
    }
}

pub(super) const WILD: From = From {
    source: None,
    tag: Some(TAG_WILD),
};

pub(super) fn named(source: Rank) -> From {
    From {
        source: Some(source),
        tag: Some(TAG_NAMED),
    }
}

impl Program {
    pub(super) fn complete(&mut self) -> Option<Call> {
        let may_stay = |open: &Open| match open.kind {
            Kind::Send { synchronous } => !synchronous,
            kind => matches!(kind, Kind::Collective { .. }),
        };
        if self.open.is_empty() || (self.may_carry() && self.open.iter().all(may_stay)) {
            return self.go_on(Phase::Print);
        }
        let never = self.open.iter().position(|open| !open.will_end());
        let others = self.open.iter().any(Open::will_end);
        if let Some(at) = never
            && (!others || self.chance.u32(0..4) == 0)
        {
            let number = self.open[at].number;
            return self.if_open(number, Call::Cancel(number));
        }
        self.ask()
    }

    /// Asks for the completion of open requests; `None`: no call is certain to return.
    pub(super) fn ask(&mut self) -> Option<Call> {
        let is_last = self.phase == Phase::Complete;
        // Until a rank has begun all receives, it does not wait for a synchronous send.
        let is_sure = |open: &&Open| {
            open.will_end() && (is_last || open.kind != Kind::Send { synchronous: true })
        };
        let sure: Vec<RequestNumber> = self
            .open
            .iter()
            .filter(is_sure)
            .map(|open| open.number)
            .collect();
        if self.tries_left > 0 && self.chance.u32(0..3) == 0 && !self.open.is_empty() {
            self.tries_left -= 1;
            return Some(self.test());
        }
        if sure.is_empty() {
            return None;
        }
        if !self.style.is_monotone {
            self.wait = self.chance.usize(0..4);
        }
        self.asked = Asked::Nothing;
        let one = sure[self.chance.usize(0..sure.len())];
        Some(match self.wait {
            0 => Call::Wait(one),
            1 => Call::WaitAny(self.some_with(one)),
            2 => Call::WaitSome(self.some_with(one)),
            _ => Call::WaitAll(self.some_of(sure, one)),
        })
    }

    /// Tests open requests.
    pub(super) fn test(&mut self) -> Call {
        let one = self.open[self.chance.usize(0..self.open.len())].number;
        self.test_with(one)
    }

    /// Tests this open request, and perhaps other ones.
    pub(super) fn test_with(&mut self, one: RequestNumber) -> Call {
        self.asked = Asked::Nothing;
        match self.chance.usize(0..4) {
            0 => Call::Test(one),
            1 => Call::TestAny(self.some_with(one)),
            2 => Call::TestSome(self.some_with(one)),
            _ => Call::TestAll(self.some_with(one)),
        }
    }

    /// This request and some of the open ones.
    fn some_with(&mut self, one: RequestNumber) -> Vec<RequestNumber> {
        let all = self.open.iter().map(|open| open.number).collect();
        self.some_of(all, one)
    }

    fn some_of(&mut self, mut all: Vec<RequestNumber>, one: RequestNumber) -> Vec<RequestNumber> {
        match self.chance.u32(0..4) {
            0 => all.retain(|number| *number == one || self.chance.bool()),
            1 => self.chance.shuffle(&mut all),
            _ => {}
        }
        all
    }
}
