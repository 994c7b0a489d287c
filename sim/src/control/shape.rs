//! Where the ranks of a job are, and which of them communicate.

/// The shape of a job.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Number of ranks.
    pub ranks: u32,
    /// Ranks on a host, which has one agent.
    pub ranks_per_host: u32,
    /// Number of agents that the launcher and each agent are connected with directly, at most, below
    /// them. `None`: the launcher is connected with all.
    pub fan_out: Option<u32>,
}

impl Shape {
    pub(super) fn agents(self) -> u32 {
        self.ranks.div_ceil(self.ranks_per_host)
    }

    /// The agent of a rank, from 1; 0 is the launcher.
    pub(super) fn agent_of(self, rank: u32) -> u32 {
        1 + rank / self.ranks_per_host
    }

    /// Number of ranks of an agent.
    pub(super) fn ranks_of(self, agent: u32) -> u32 {
        let first = (agent - 1) * self.ranks_per_host;
        self.ranks_per_host.min(self.ranks - first)
    }

    /// Whether the launcher decides who is told of what: it is connected with all agents.
    pub(super) fn launcher_decides(self) -> bool {
        self.fan_out.is_none()
    }

    /// The ranks that a rank sends to first, other than those that have sent to it: those above it in a
    /// halo exchange in three dimensions, and the one above it in the tree of a barrier.
    pub(super) fn peers_of(self, rank: u32) -> Vec<u32> {
        let edge = f64::from(self.ranks).cbrt().round().max(1.0) as u32;
        let strides = [1, edge, edge.saturating_mul(edge)];
        let above = strides.map(|stride| rank.checked_add(stride).filter(|it| *it < self.ranks));
        let parent = rank.checked_sub(1).map(|below| rank & below);
        let mut peers: Vec<u32> = above.into_iter().flatten().chain(parent).collect();
        peers.sort_unstable();
        peers.dedup();
        peers
    }
}
