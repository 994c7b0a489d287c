//! The tree of connections between launcher and agents of a job over many hosts. Pure.
//!
//! The launcher has at most `fan_out` agents below it, and each agent has as many. Agents are numbered
//! in the order of the job's hosts, level by level: so each process computes the way to each agent.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Default of `--fan-out`.
pub const FAN_OUT: u32 = 32;

/// The shape of a tree with at least two levels of agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    fan_out: u32,
    agents: u32,
}

/// An agent's place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    /// The tree.
    pub tree: Tree,
    /// Number of the agent in it.
    pub agent: u32,
}

impl Branch {
    /// Number of agents that are connected through this one.
    pub fn children(self) -> u32 {
        self.tree.children(self.agent).len() as u32
    }
}

impl Tree {
    /// The tree of a job with this number of agents. `None`: the launcher is connected with each of them.
    pub fn of(agents: u32, fan_out: u32) -> Option<Self> {
        (agents > fan_out).then_some(Self { fan_out, agents })
    }

    /// The agent through which another one is connected; `None`: it is the launcher.
    pub fn parent(self, agent: u32) -> Option<u32> {
        (agent / self.fan_out).checked_sub(1)
    }

    /// Number of connections from the launcher to an agent.
    pub fn depth(self, agent: u32) -> u32 {
        1 + std::iter::successors(self.parent(agent), |at| self.parent(*at)).count() as u32
    }

    /// The agents that are connected through an agent.
    pub fn children(self, agent: u32) -> Range<u32> {
        let first = u64::from(agent + 1) * u64::from(self.fan_out);
        let end = first + u64::from(self.fan_out);
        let of_job = |number: u64| number.min(self.agents.into()) as u32;
        of_job(first)..of_job(end)
    }

    /// The child of `from` that is on the way to `to`; `None`: `to` is not below `from`.
    pub fn next_hop(self, from: u32, to: u32) -> Option<u32> {
        let mut at = (to < self.agents).then_some(to)?;
        loop {
            let parent = self.parent(at)?;
            if parent == from {
                return Some(at);
            }
            at = parent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn few_agents_need_no_tree() {
        assert_eq!(Tree::of(FAN_OUT, FAN_OUT), None);
        assert!(Tree::of(FAN_OUT + 1, FAN_OUT).is_some());
    }

    #[test]
    fn a_fan_out_of_one_is_a_chain() {
        let tree = Tree::of(4, 1).unwrap();
        let parents = (0..4).map(|agent| tree.parent(agent));
        assert_eq!(
            parents.collect::<Vec<_>>(),
            [None, Some(0), Some(1), Some(2)]
        );
        assert_eq!([0, 1, 3].map(|agent| tree.depth(agent)), [1, 2, 4]);
        assert_eq!(tree.next_hop(0, 3), Some(1));
        assert_eq!(tree.next_hop(3, 0), None);
        assert_eq!(tree.next_hop(0, 4), None, "no such agent");
    }

    proptest! {
        /// Each agent has one way, of logarithmic length, and no node has more children than the fan-out.
        #[test]
        fn every_agent_is_reached(fan_out in 1_u32..40, more in 1_u32..2000) {
            let agents = fan_out + more;
            let tree = Tree::of(agents, fan_out).unwrap();
            let mut of_launcher = 0;
            for agent in 0..agents {
                prop_assert!(tree.children(agent).len() <= fan_out as usize);
                match tree.parent(agent) {
                    None => of_launcher += 1,
                    Some(parent) => {
                        prop_assert!(parent < agent && tree.children(parent).contains(&agent));
                        prop_assert_eq!(tree.next_hop(parent, agent), Some(agent));
                    }
                }
                if let Some(hop) = tree.next_hop(0, agent) {
                    prop_assert_eq!(tree.parent(hop), Some(0));
                }
            }
            prop_assert_eq!(of_launcher, fan_out);
        }
    }
}
