//! Data that is not contiguous, on either side.

use crate::memory::{receive_layout, send_layout};
use crate::networks;
use crate::rig::{Rig, Sent, Setup, UNTOUCHED, from, payload, to};
use refrain_transport::layout::Layout;
use std::sync::Arc;

/// Blocks of (offset, bytes) in message order, and their layout.
struct Shape {
    blocks: Vec<(usize, usize)>,
    layout: Arc<Layout>,
    room_bytes: usize,
}

impl Shape {
    fn vector(count: usize, block_bytes: usize, stride_bytes: usize) -> Self {
        let layout = Layout::vector(count, block_bytes, stride_bytes).expect("small");
        let blocks = (0..count).map(|block| (block * stride_bytes, block_bytes));
        Self::new(layout, blocks.collect())
    }

    /// The blocks of the vector, the last first.
    fn indexed(count: usize, block_bytes: usize, stride_bytes: usize) -> Self {
        let mut blocks = Self::vector(count, block_bytes, stride_bytes).blocks;
        blocks.reverse();
        Self::new(Layout::indexed(&blocks).expect("small"), blocks)
    }

    fn new(layout: Layout, blocks: Vec<(usize, usize)>) -> Self {
        let room_bytes = layout.span_bytes() + 5;
        Self {
            blocks,
            layout: Arc::new(layout),
            room_bytes,
        }
    }

    fn gather(&self, room: &[u8]) -> Vec<u8> {
        let pieces = self.blocks.iter().map(|(at, bytes)| &room[*at..at + bytes]);
        pieces.flatten().copied().collect()
    }

    /// The content of a room after it has received this message.
    fn scatter(&self, mut message: &[u8]) -> Vec<u8> {
        let mut room = vec![UNTOUCHED; self.room_bytes];
        for (at, bytes) in &self.blocks {
            let (head, rest) = message.split_at((*bytes).min(message.len()));
            room[*at..at + head.len()].copy_from_slice(head);
            message = rest;
        }
        room
    }
}

fn exchange(rig: &mut Rig, send: &Shape, receive: &Shape, expected: bool) {
    let data = payload(send.blocks.len() as u64, send.room_bytes);
    let post = |rig: &mut Rig| {
        let room = rig.room(&vec![UNTOUCHED; receive.room_bytes]);
        let buffer = receive_layout(&room, &receive.layout);
        rig.receive_into(1, from(0, 1), room, buffer)
    };
    let early = expected.then(|| post(rig));
    let room = rig.room(&data);
    let buffer = send_layout(&room, &send.layout);
    let sent = Sent {
        from: 0,
        started: rig.start_send(0, buffer, to(1, 1)),
        room,
    };
    let receipt = early.unwrap_or_else(|| {
        rig.settle();
        post(rig)
    });
    rig.finish_send(&sent);
    sent.room.fill(0);
    let (outcome, found) = rig.finish_receive(&receipt);
    let message = send.gather(&data);
    assert_eq!(outcome.status.bytes, message.len() as u64);
    let room_bytes = receive.layout.message_bytes();
    let cut = (room_bytes < message.len() as u64).then_some(room_bytes);
    assert_eq!(outcome.truncated_to, cut);
    assert!(found == receive.scatter(&message), "expected {expected}");
}

/// A message is the blocks of its layout one behind the other; it lands in the blocks of the
/// receiver's layout, and bytes between them are not touched.
#[test]
fn layouts_on_either_side_keep_the_message() {
    // Small, of several fragments, and by rendezvous; odd block lengths, so
    // that fragments end inside blocks.
    let shapes = [(3, 5, 9), (700, 37, 41), (5000, 29, 30)];
    for network in networks::all() {
        let reused = Setup::new(network);
        for setup in [reused.clone(), reused.keeping(4 << 20)] {
            let mut rig = setup.build();
            for (count, bytes, stride) in shapes {
                let pair = || {
                    let vector = Shape::vector(count, bytes, stride);
                    [vector, Shape::indexed(count, bytes, stride + 3)]
                };
                for send in pair() {
                    for receive in pair() {
                        exchange(&mut rig, &send, &receive, true);
                        exchange(&mut rig, &send, &receive, false);
                    }
                    // Too little room, in blocks of another length.
                    let cut = Shape::vector(count / 2 + 1, bytes - 2, stride);
                    exchange(&mut rig, &send, &cut, true);
                    exchange(&mut rig, &send, &cut, false);
                }
                rig.engines[1].publish_horizon();
            }
            rig.end();
        }
    }
}

/// The data of a send with a layout is given back early like any other: bytes that are not packed
/// are sent from a copy.
#[test]
fn a_laid_out_send_can_be_detached() {
    for network in networks::all() {
        let mut rig = Setup::new(network).build();
        let shape = Shape::vector(5000, 29, 30);
        let data = payload(1, shape.room_bytes);
        let room = rig.room(&data);
        let buffer = send_layout(&room, &shape.layout);
        let started = rig.start_send(0, buffer, to(1, 1));
        let refrain_transport::engine::Started::Pending(id) = started else {
            panic!("a rendezvous is not over at once");
        };
        rig.engines[0].detach(id);
        room.fill(0);
        rig.expect(1, from(0, 1), &shape.gather(&data));
        rig.end();
    }
}
