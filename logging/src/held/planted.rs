//! Bugs that the simulator plants, to show that its oracles see them.

use super::holdings::Holdings;
use refrain_ring::Rank;

impl Holdings {
    /// Number of ranks of the job.
    pub fn size(&self) -> u32 {
        self.peers.len() as u32
    }

    /// Loses what this rank holds of another. CAUSAL-2
    pub fn forget_held(&mut self, of: Rank) {
        self.read_carried_by(of);
        self.held.remove(&of);
    }

    /// Fences a rank, and writes what is carried to its next life as if that had all before. CAUSAL-1
    pub fn fence_with_coder(&mut self, of: Rank, fence: impl FnOnce(&mut Self)) {
        let writer = self.peers[of.index()].carried.writer.clone();
        fence(self);
        self.peers[of.index()].carried.writer = writer;
    }
}
