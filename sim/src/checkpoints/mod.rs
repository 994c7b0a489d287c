//! Stand-in.
use crate::mortal::Mortal;
use crate::plan::Plan;
use refrain_ring::Rank;
/// x
#[derive(Debug)]
pub struct Checkpoints(Vec<(Rank, u32)>, Mortal);
#[allow(missing_docs)]
impl Checkpoints {
    pub fn new(_: &Plan, _: u64, m: Mortal) -> Self {
        Self(vec![], m)
    }
    pub fn begin(&mut self, r: Rank, t: crate::job::Taken) {
        self.0.push((r, t.number));
    }
    pub fn step(&mut self, _: &mut fastrand::Rng) -> Option<(Rank, u32)> {
        self.0.pop()
    }
    pub fn is_idle(&self) -> bool {
        self.0.is_empty()
    }
    pub fn effects(&self) -> u64 {
        0
    }
    pub fn is_dead(&self) -> bool {
        false
    }
    pub fn kill(&mut self) {}
    pub fn power_loss(&mut self) {}
    pub fn restart(&mut self) {}
    pub fn disk_full(&mut self, _: bool) {}
    pub fn disk_slow(&mut self, _: bool) {}
}
