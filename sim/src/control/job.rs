//! A job on the simulated control plane: it starts, a rank dies and starts again.

use super::costs::Costs;
use super::lengths::Lengths;
use super::network::{Load, Message, Network};
use super::shape::Shape;
use super::tree::{Node, Tree};
use refrain_job::introductions::{Introductions, PeerState};

/// Messages of a rank and its agent while the rank joins: hello, welcome, host, hosts, address, fence
/// and its end.
const LOCAL_MESSAGES: u64 = 7;

/// The figures of a part of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phase {
    /// How long it took, in nanoseconds.
    pub time_ns: u64,
    /// Messages that were served or passed on, at all nodes together.
    pub messages: u64,
    /// Of these, at the launcher.
    pub messages_launcher: u64,
    /// Of these, at the agent with most of them.
    pub messages_agent_most: u64,
    /// Bytes that the launcher has sent.
    pub bytes_launcher: u64,
    /// Number of times that a rank was told something.
    pub ranks_told: u64,
    /// Agents that had something to do.
    pub agents_busy: u64,
}

/// The figures of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// Number of agents.
    pub agents: u32,
    /// Agents below each node.
    pub fan_out: u32,
    /// Links from the launcher to the last agent.
    pub depth: u32,
    /// From the first message until all ranks have met their peers and passed a fence.
    pub start: Phase,
    /// From the end of a process until all its peers were told.
    pub death: Phase,
    /// From there until the next life and its peers were told of each other.
    pub restart: Phase,
    /// Memory of the launcher.
    pub memory_launcher: u64,
    /// Memory of the agent that has most.
    pub memory_agent_most: u64,
}

/// What a message says.
#[derive(Clone, Debug)]
enum What {
    /// The job's settings, for an agent and all below it.
    Setup,
    /// The ranks of the agent have joined.
    Joined,
    /// The hosts of this number of agents, a whole subtree.
    HostsOf(u32),
    /// The hosts of all ranks.
    Hosts,
    /// A rank wants to meet a peer: at the node that decides for the peer.
    Meet { rank: u32, peer: u32 },
    /// A rank is told of a peer.
    Up {
        who: u32,
        /// It has asked for this.
        asked: bool,
    },
    /// All ranks of this number of agents, a whole subtree, are in the fence.
    FenceOf(u32),
    /// The fence opens.
    FenceDone,
    /// The process of a rank has ended.
    Ended(u32),
    /// A rank is told of a death.
    Down,
    /// The next life of a rank has joined, and put its address.
    JoinedAgain(u32),
}

struct Agent {
    /// Agents below, with itself, whose hosts have come.
    hosts: u32,
    fenced: u32,
    /// Introductions that its ranks still wait for.
    awaited: u64,
    has_asked: bool,
}

struct Job {
    shape: Shape,
    tree: Tree,
    costs: Costs,
    lengths: Lengths,
    hosts_bytes: u64,
    introductions: Introductions,
    agents: Vec<Agent>,
    /// Number of agents in each subtree.
    below: Vec<u32>,
    told: u64,
    ended_at: u64,
}

/// All ranks have joined, except for those of which this is not asked.
fn present(_: usize) -> PeerState {
    PeerState {
        is_member: true,
        has_address: true,
    }
}

/// Runs a job of this shape.
pub fn run(shape: Shape, costs: Costs) -> Figures {
    let agents = shape.agents();
    let fan_out = shape.fan_out.unwrap_or(agents).clamp(1, agents.max(1));
    let tree = Tree {
        nodes: agents + 1,
        fan_out,
    };
    let mut below = vec![1; tree.nodes as usize];
    below[0] = 0;
    for node in (1..tree.nodes).rev() {
        let parent = tree.parent(node).unwrap_or(0);
        below[parent as usize] += below[node as usize];
    }
    let agent = || Agent {
        hosts: 0,
        fenced: 0,
        awaited: 0,
        has_asked: false,
    };
    let mut job = Job {
        shape,
        tree,
        costs,
        lengths: Lengths::new(),
        hosts_bytes: Lengths::hosts(agents, shape.ranks_per_host),
        introductions: Introductions::new(shape.ranks as usize, false),
        agents: (0..tree.nodes).map(|_| agent()).collect(),
        below,
        told: 0,
        ended_at: 0,
    };
    let mut network = Network::new(tree, costs);
    network.happens(0, 0, What::Setup);
    let start = job.phase(&mut network, 0);
    let (victim, began) = (shape.ranks / 2, network.now);
    network.happens(began, shape.agent_of(victim), What::Ended(victim));
    let death = job.phase(&mut network, began);
    let began = network.now;
    let joined_at = began + costs.spawn_ns + costs.join_ns;
    network.happens(joined_at, shape.agent_of(victim), What::JoinedAgain(victim));
    let restart = job.phase(&mut network, began);
    let (memory_launcher, memory_agent_most) = job.memory();
    let mut depth = 0;
    let mut node = tree.nodes - 1;
    while let Some(parent) = tree.parent(node) {
        node = parent;
        depth += 1;
    }
    Figures {
        agents,
        fan_out,
        depth,
        start,
        death,
        restart,
        memory_launcher,
        memory_agent_most,
    }
}

impl Job {
    fn phase(&mut self, network: &mut Network<What>, began: u64) -> Phase {
        (self.told, self.ended_at) = (0, began);
        network.run(&mut |now, node, what| self.serve(now, node, what));
        let loads = network.take_loads();
        let (launcher, agents) = loads.split_first().expect("there is a launcher");
        let most = agents.iter().map(|it| it.messages).max();
        Phase {
            time_ns: self.ended_at - began,
            messages: loads.iter().map(|it| it.messages).sum(),
            messages_launcher: launcher.messages,
            messages_agent_most: most.unwrap_or(0),
            bytes_launcher: launcher.bytes,
            ranks_told: self.told,
            agents_busy: agents.iter().filter(|it| **it != Load::default()).count() as u64,
        }
    }

    /// The node that decides who is told of a rank.
    fn decides_for(&self, rank: u32) -> Node {
        match self.shape.launcher_decides() {
            true => 0,
            false => self.shape.agent_of(rank),
        }
    }

    fn serve(&mut self, now: u64, node: Node, what: What) -> Vec<Message<What>> {
        match what {
            What::Setup => {
                let children = self.tree.children(node);
                let setup = children.map(|to| self.message(to, self.lengths.setup, What::Setup));
                let mut follows: Vec<_> = setup.collect();
                if node > 0 {
                    let ranks = u64::from(self.shape.ranks_of(node));
                    let local = self.costs.frame_ns + self.costs.message_ns;
                    let start_ns = self.costs.spawn_ns + LOCAL_MESSAGES * local;
                    follows.push(Message {
                        delay_ns: ranks * start_ns + self.costs.join_ns,
                        ..self.message(node, 0, What::Joined)
                    });
                }
                follows
            }
            What::Joined => self.hosts_of(node, 1),
            What::HostsOf(agents) => self.hosts_of(node, agents),
            What::Hosts => self.all_hosts(node),
            What::Meet { rank, peer } => self.meet(rank, peer),
            What::Up { who, asked } => self.told_up(now, node, (who, asked)),
            What::FenceOf(agents) => self.fence_of(now, node, agents),
            What::FenceDone => self.fence_done(now, node),
            What::Ended(rank) => {
                let (ranks, size) = (present, self.shape.ranks as usize);
                let told = self.introductions.after_death(ranks, rank as usize, size);
                let from_launcher = self.shape.launcher_decides() && node > 0;
                if from_launcher {
                    return vec![self.message(0, self.lengths.down, What::Ended(rank))];
                }
                let told = told.into_iter().map(|who| {
                    let to = self.shape.agent_of(who as u32);
                    self.message(to, self.lengths.down, What::Down)
                });
                told.collect()
            }
            What::Down => {
                self.told += 1;
                self.ended_at = self.ended_at.max(now);
                Vec::new()
            }
            What::JoinedAgain(rank) => {
                if self.shape.launcher_decides() && node > 0 {
                    return vec![self.message(0, self.lengths.up, What::JoinedAgain(rank))];
                }
                let size = self.shape.ranks as usize;
                let told = self
                    .introductions
                    .after_address(present, rank as usize, size);
                let up = told.into_iter().map(|(who, _)| {
                    let who = who as u32;
                    let asked = false;
                    self.message(
                        self.shape.agent_of(who),
                        self.lengths.up,
                        What::Up { who, asked },
                    )
                });
                up.collect()
            }
        }
    }

    fn message(&self, to: Node, bytes: u64, what: What) -> Message<What> {
        Message {
            to,
            bytes,
            delay_ns: 0,
            what,
        }
    }

    /// The hosts of a part of the subtree of a node have come.
    fn hosts_of(&mut self, node: Node, agents: u32) -> Vec<Message<What>> {
        self.agents[node as usize].hosts += agents;
        let below = self.below[node as usize];
        if self.agents[node as usize].hosts < below {
            return Vec::new();
        }
        match self.tree.parent(node) {
            Some(parent) => {
                // All rows of the subtree in one message.
                let bytes = self.hosts_bytes * u64::from(below) / u64::from(self.shape.agents());
                vec![self.message(parent, bytes, What::HostsOf(below))]
            }
            None => self.all_hosts(node),
        }
    }

    /// Hosts are passed on, and the ranks of the agent begin: they ask for their peers.
    fn all_hosts(&mut self, node: Node) -> Vec<Message<What>> {
        let children = self.tree.children(node);
        let hosts = children.map(|to| self.message(to, self.hosts_bytes, What::Hosts));
        let mut follows: Vec<_> = hosts.collect();
        if node == 0 {
            return follows;
        }
        let first = (node - 1) * self.shape.ranks_per_host;
        let mut awaited = 0;
        for rank in first..first + self.shape.ranks_of(node) {
            for peer in self.shape.peers_of(rank) {
                awaited += 1;
                let to = self.decides_for(peer);
                follows.push(self.message(to, self.lengths.meet, What::Meet { rank, peer }));
            }
        }
        let agent = &mut self.agents[node as usize];
        agent.awaited += awaited;
        agent.has_asked = true;
        if agent.awaited == 0 {
            follows.push(self.message(node, 0, What::FenceOf(1)));
        }
        follows
    }

    fn meet(&mut self, rank: u32, peer: u32) -> Vec<Message<What>> {
        let pair = (rank as usize, peer as usize);
        let told = self.introductions.introduce(present, pair);
        let up = told.into_iter().map(|(who, _)| {
            let who = who as u32;
            let asked = who == rank;
            let what = What::Up { who, asked };
            self.message(self.shape.agent_of(who), self.lengths.up, what)
        });
        let mut follows: Vec<_> = up.collect();
        if follows.is_empty() {
            // The peer has asked, too: the rank is told by the answer to that.
            let what = What::Up {
                who: rank,
                asked: true,
            };
            follows.push(self.message(self.shape.agent_of(rank), 0, what));
        }
        follows
    }

    /// A rank is told of a peer. When all its ranks have met the peers that they asked for, an agent is in the
    /// fence.
    fn told_up(&mut self, now: u64, node: Node, (who, asked): (u32, bool)) -> Vec<Message<What>> {
        debug_assert_eq!(self.shape.agent_of(who), node);
        self.told += 1;
        self.ended_at = self.ended_at.max(now);
        let agent = &mut self.agents[node as usize];
        agent.awaited -= u64::from(asked);
        match agent.awaited == 0 && core::mem::take(&mut agent.has_asked) {
            true => vec![self.message(node, 0, What::FenceOf(1))],
            false => Vec::new(),
        }
    }

    fn fence_of(&mut self, now: u64, node: Node, agents: u32) -> Vec<Message<What>> {
        self.agents[node as usize].fenced += agents;
        let below = self.below[node as usize];
        if self.agents[node as usize].fenced < below {
            return Vec::new();
        }
        match self.tree.parent(node) {
            Some(parent) => vec![self.message(parent, self.lengths.fence, What::FenceOf(below))],
            None => self.fence_done(now, node),
        }
    }

    fn fence_done(&mut self, now: u64, node: Node) -> Vec<Message<What>> {
        self.ended_at = self.ended_at.max(now);
        let children = self.tree.children(node);
        let done = children.map(|to| self.message(to, self.lengths.fence, What::FenceDone));
        done.collect()
    }

    /// Memory of the launcher, and of the agent that has most.
    fn memory(&self) -> (u64, u64) {
        let costs = &self.costs;
        let peers_of = |rank: u32| {
            let met = self.introductions.asked(rank as usize);
            met.map_or(0, |met| met.len() as u64)
        };
        let of_ranks = |ranks: core::ops::Range<u32>| {
            let peers: u64 = ranks.clone().map(peers_of).sum();
            ranks.len() as u64 * costs.rank_bytes + peers * costs.peer_bytes
        };
        let of_node = |node: Node| {
            let children = self.tree.children(node).len() as u64;
            (children + u64::from(node > 0)) * costs.connection_bytes + self.hosts_bytes
        };
        let launcher = match self.shape.launcher_decides() {
            true => of_node(0) + of_ranks(0..self.shape.ranks),
            false => of_node(0),
        };
        let agents = (1..self.tree.nodes).map(|node| {
            let ranks = self.shape.ranks_of(node);
            let first = (node - 1) * self.shape.ranks_per_host;
            let connections = u64::from(ranks) * costs.connection_bytes;
            let decided = match self.shape.launcher_decides() {
                true => u64::from(ranks) * costs.rank_bytes,
                false => of_ranks(first..first + ranks),
            };
            of_node(node) + connections + decided
        });
        (launcher, agents.max().unwrap_or(0))
    }
}
