//! How a program asks for the ends of its requests.

use super::rounds::{Asked, Kind, Open, Phase, Program};
use super::{Call, RequestNumber};

/// How it asks for the ends of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Wait,
    WaitAny,
    WaitSome,
    WaitAll,
    Test,
    TestAny,
    TestSome,
    TestAll,
}

const BLOCKING: [Way; 4] = [Way::Wait, Way::WaitAny, Way::WaitSome, Way::WaitAll];
const TESTING: [Way; 4] = [Way::Test, Way::TestAny, Way::TestSome, Way::TestAll];
impl Program {
    pub(super) fn complete(&mut self) -> Option<Call> {
        let is_eager = |open: &Open| open.kind == Kind::Send { synchronous: false };
        if self.open.is_empty() || (self.may_carry() && self.open.iter().all(is_eager)) {
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

    /// Asks for the ends of open requests; `None`: no call can be sure to end.
    pub(super) fn ask(&mut self) -> Option<Call> {
        let is_last = self.phase == Phase::Complete;
        // Before all receives are begun nobody waits for a synchronous send.
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
        if !self.style.is_monotone || !BLOCKING.contains(&self.way) {
            self.way = BLOCKING[self.chance.usize(0..4)];
        }
        self.asked = Asked::Nothing;
        let one = sure[self.chance.usize(0..sure.len())];
        Some(match self.way {
            Way::WaitAny => Call::WaitAny(self.some_with(one)),
            Way::WaitSome => Call::WaitSome(self.some_with(one)),
            Way::WaitAll => Call::WaitAll(self.some_of(sure, one)),
            _ => Call::Wait(one),
        })
    }

    /// Asks without blocking.
    pub(super) fn test(&mut self) -> Call {
        let one = self.open[self.chance.usize(0..self.open.len())].number;
        self.test_with(one)
    }

    /// Asks without blocking for this one, which is open, and perhaps others.
    pub(super) fn test_with(&mut self, one: RequestNumber) -> Call {
        self.asked = Asked::Nothing;
        match TESTING[self.chance.usize(0..4)] {
            Way::TestAny => Call::TestAny(self.some_with(one)),
            Way::TestSome => Call::TestSome(self.some_with(one)),
            Way::TestAll => Call::TestAll(self.some_with(one)),
            _ => Call::Test(one),
        }
    }

    /// This and others of what is open.
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
