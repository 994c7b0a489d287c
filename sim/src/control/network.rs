//! Nodes that serve one frame after the other, and the links between them. A node takes all that has
//! arrived, and sends what follows from it in one frame to each neighbour: so messages are batched when
//! a node is busy, as those of the launcher's loop are.

use super::costs::Costs;
use super::tree::{Node, Tree};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Message<W> {
    pub to: Node,
    pub bytes: u64,
    /// Of a message of a node to itself: how much later it comes.
    pub delay_ns: u64,
    pub what: W,
}

/// What one node has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Messages that it has served or passed on.
    pub messages: u64,
    /// Frames and bytes that it has sent.
    pub frames: u64,
    pub bytes: u64,
    /// Time in which it was busy, in nanoseconds.
    pub busy_ns: u64,
}

struct State<W> {
    inbox: Vec<Message<W>>,
    free_at: u64,
    is_due: bool,
    load: Load,
}

enum Event<W> {
    Arrives(Node, Vec<Message<W>>),
    Serves(Node),
}

/// The nodes of a tree.
pub struct Network<W> {
    pub tree: Tree,
    costs: Costs,
    nodes: Vec<State<W>>,
    due: BinaryHeap<Reverse<(u64, u64)>>,
    events: BTreeMap<u64, Event<W>>,
    number: u64,
    pub now: u64,
}

impl<W> Network<W> {
    pub fn new(tree: Tree, costs: Costs) -> Self {
        let state = || State {
            inbox: Vec::new(),
            free_at: 0,
            is_due: false,
            load: Load::default(),
        };
        Self {
            tree,
            costs,
            nodes: (0..tree.nodes).map(|_| state()).collect(),
            due: BinaryHeap::new(),
            events: BTreeMap::new(),
            number: 0,
            now: 0,
        }
    }

    fn at(&mut self, time: u64, event: Event<W>) {
        self.number += 1;
        self.due.push(Reverse((time, self.number)));
        self.events.insert(self.number, event);
    }

    /// Something happens at a node: a message of the node to itself, at this time.
    pub fn happens(&mut self, time: u64, node: Node, what: W) {
        let message = Message {
            to: node,
            bytes: 0,
            delay_ns: 0,
            what,
        };
        self.at(time, Event::Arrives(node, vec![message]));
    }

    /// What each node has done since the last call.
    pub fn take_loads(&mut self) -> Vec<Load> {
        let loads = self.nodes.iter_mut();
        loads.map(|it| core::mem::take(&mut it.load)).collect()
    }

    /// Runs until nothing is due. `serve` serves the messages of a node, and returns those that follow.
    pub fn run(&mut self, serve: &mut dyn FnMut(u64, Node, W) -> Vec<Message<W>>) {
        while let Some(Reverse((time, number))) = self.due.pop() {
            self.now = time;
            match self.events.remove(&number) {
                Some(Event::Arrives(node, messages)) => {
                    let state = &mut self.nodes[node as usize];
                    state.inbox.extend(messages);
                    if !core::mem::replace(&mut state.is_due, true) {
                        let time = time.max(state.free_at);
                        self.at(time, Event::Serves(node));
                    }
                }
                Some(Event::Serves(node)) => self.serve(time, node, serve),
                None => {}
            }
        }
    }

    fn serve(
        &mut self,
        time: u64,
        node: Node,
        serve: &mut dyn FnMut(u64, Node, W) -> Vec<Message<W>>,
    ) {
        let state = &mut self.nodes[node as usize];
        state.is_due = false;
        let inbox = core::mem::take(&mut state.inbox);
        let mut load = Load {
            messages: inbox.len() as u64,
            ..Load::default()
        };
        let mut busy = self.costs.frame_ns;
        let mut outgoing: BTreeMap<Node, Vec<Message<W>>> = BTreeMap::new();
        for message in inbox {
            busy += self.costs.message_ns + message.bytes * self.costs.byte_ns;
            let follows = match message.to == node {
                true => serve(time + busy, node, message.what),
                false => vec![message],
            };
            for message in follows {
                let next = match message.to == node {
                    true => node,
                    false => self.tree.next_hop(node, message.to),
                };
                outgoing.entry(next).or_default().push(message);
            }
        }
        for (next, messages) in outgoing {
            let bytes: u64 = messages.iter().map(|it| it.bytes).sum();
            let later = match next == node {
                true => messages.iter().map(|it| it.delay_ns).max().unwrap_or(0),
                false => {
                    busy += self.costs.frame_ns + bytes * self.costs.byte_ns;
                    load.frames += 1;
                    load.bytes += bytes;
                    self.costs.latency_ns
                }
            };
            self.at(time + busy + later, Event::Arrives(next, messages));
        }
        let state = &mut self.nodes[node as usize];
        load.busy_ns = busy;
        state.free_at = time + busy;
        state.load.messages += load.messages;
        state.load.frames += load.frames;
        state.load.bytes += load.bytes;
        state.load.busy_ns += load.busy_ns;
    }
}
