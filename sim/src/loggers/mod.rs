//! Stand-in.
use crate::happening::Life;
use crate::mortal::Mortal;
use crate::plan::Plan;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::pessimist::Commits;
use refrain_ring::{Clock, Rank};
use std::cell::RefCell;
use std::rc::Rc;
#[derive(Debug, Default)]
struct S {
    reach: Vec<Option<Clock>>,
    end: Vec<EventIndex>,
    pend: Vec<(usize, EventIndex, Clock)>,
}
/// x
#[derive(Clone, Debug)]
pub struct Loggers(Rc<RefCell<S>>);
/// x
#[derive(Debug)]
pub struct LoggerClient(Loggers, usize, Mortal);
#[allow(missing_docs)]
impl Loggers {
    pub fn new(plan: &Plan, _seed: u64) -> Self {
        let n = plan.ranks as usize;
        Self(Rc::new(RefCell::new(S {
            reach: vec![None; n],
            end: vec![EventIndex(0); n],
            pend: vec![],
        })))
    }
    pub fn connect(&self, life: Life, mortal: Mortal) -> LoggerClient {
        LoggerClient(self.clone(), life.rank.index(), mortal)
    }
    pub fn step(&self, _: &mut fastrand::Rng, _: u64) -> bool {
        let s = &mut *self.0.borrow_mut();
        let any = !s.pend.is_empty();
        for (r, e, c) in s.pend.drain(..) {
            s.reach[r] = Some(c);
            s.end[r] = e;
        }
        any
    }
    pub fn reach(&self, r: Rank) -> Option<Clock> {
        self.0.borrow().reach[r.index()]
    }
    pub fn effects(&self, _: u32) -> u64 {
        0
    }
    pub fn kill(&self, _: u32) {}
    pub fn power_loss(&self, _: u32) {}
    pub fn restart(&self, _: u32) {}
    pub fn is_dead(&self, _: u32) -> bool {
        false
    }
    pub fn pause(&self, _: u32, _: bool) {}
    pub fn disk_full(&self, _: u32, _: bool) {}
    pub fn disk_slow(&self, _: u32, _: bool) {}
    pub fn disconnect(&self, _: Life) {}
    pub fn heal(&self) {}
}
#[allow(missing_docs)]
impl LoggerClient {
    pub fn start(&mut self) -> Option<EventIndex> {
        Some(self.0.0.borrow().end[self.1])
    }
    pub fn trim(&mut self, _: Clock) {}
    pub fn leave(&mut self) -> bool {
        true
    }
    pub fn explain(&self) -> Option<String> {
        None
    }
}
impl Commits for LoggerClient {
    fn commit(&mut self, h: &BatchHeader, _: &[u8]) {
        let (r, e, c) = (self.1, h.end(), h.last_clock);
        let l = &self.0;
        self.2.act(|| l.0.borrow_mut().pend.push((r, e, c)));
    }
    fn stable_end(&self) -> EventIndex {
        self.0.0.borrow().end[self.1]
    }
    fn poll(&mut self) -> EventIndex {
        self.stable_end()
    }
    fn is_instant(&self) -> bool {
        false
    }
}
