//! The tree of the launcher and its agents: node 0 is the launcher, the children of a node follow each
//! other.

/// A node: 0 is the launcher, agents are numbered from 1.
pub type Node = u32;

/// A complete tree.
#[derive(Clone, Copy, Debug)]
pub struct Tree {
    pub nodes: u32,
    pub fan_out: u32,
}

impl Tree {
    pub fn parent(self, node: Node) -> Option<Node> {
        node.checked_sub(1).map(|below| below / self.fan_out)
    }

    pub fn children(self, node: Node) -> core::ops::Range<Node> {
        let first = u64::from(node) * u64::from(self.fan_out) + 1;
        let end = first + u64::from(self.fan_out);
        let at_most = |it: u64| it.min(u64::from(self.nodes)) as Node;
        at_most(first)..at_most(end)
    }

    fn depth(self, mut node: Node) -> u32 {
        let mut depth = 0;
        while let Some(parent) = self.parent(node) {
            node = parent;
            depth += 1;
        }
        depth
    }

    /// The next node on the way from one to another.
    pub fn next_hop(self, from: Node, to: Node) -> Node {
        // The node above `to` that is a child of `from`, if there is one.
        let mut below = to;
        for _ in (self.depth(from) + 1)..self.depth(to).max(1) {
            below = self.parent(below).unwrap_or(0);
        }
        match self.parent(below) {
            Some(parent) if parent == from => below,
            _ => self.parent(from).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_leads_there_over_the_common_parent() {
        for (nodes, fan_out) in [(1, 2), (2, 1), (40, 3), (40, 39), (100, 2)] {
            let tree = Tree { nodes, fan_out };
            for from in 0..nodes {
                assert!(tree.children(from).all(|it| tree.parent(it) == Some(from)));
                for to in (0..nodes).filter(|to| *to != from) {
                    let (mut at, mut hops) = (from, 0);
                    while at != to {
                        let next = tree.next_hop(at, to);
                        assert!(tree.parent(next) == Some(at) || tree.parent(at) == Some(next));
                        at = next;
                        hops += 1;
                        assert!(hops <= tree.depth(from) + tree.depth(to), "{from} {to}");
                    }
                }
            }
        }
    }
}
