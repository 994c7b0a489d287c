//! Parts of what copies of a layout pick, against a list of the address of every byte.

use crate::memory::{Room, Window, copy};
use crate::rig::UNTOUCHED;
use refrain_transport::layout::Layout;
use std::collections::HashSet;
use std::sync::Arc;

const ROOM_BYTES: usize = 40_000;
const BASE: usize = ROOM_BYTES / 2;

/// Copies of a layout, and where each byte that they pick is in the room.
#[derive(Debug)]
struct Side {
    layout: Arc<Layout>,
    addresses: Vec<usize>,
}

impl Side {
    fn random(rng: &mut fastrand::Rng) -> Self {
        let blocks: Vec<(i64, u64)> = (0..rng.usize(1..4))
            .map(|_| (rng.i64(-40..40), rng.u64(1..24)))
            .collect();
        let (items, copies) = (rng.i64(1..6), rng.i64(1..40));
        let stride = rng.i64(-100..100);
        let layout = Layout::signed(&blocks, stride, items as u64).expect("small");
        let extent = match rng.u8(..3) {
            0 => layout.message_bytes() as i64,
            _ => rng.i64(-300..300),
        };
        let mut addresses = Vec::new();
        for copy in 0..copies {
            for item in 0..items {
                for (offset, bytes) in &blocks {
                    let first = BASE as i64 + copy * extent + item * stride + offset;
                    addresses.extend((first..first + *bytes as i64).map(|it| it as usize));
                }
            }
        }
        Self {
            layout: Arc::new(layout.with_extent(extent)),
            addresses,
        }
    }

    /// Whether no byte is picked twice.
    fn is_apart(&self) -> bool {
        let mut seen = HashSet::new();
        self.addresses.iter().all(|address| seen.insert(*address))
    }

    fn window<'a>(&'a self, room: &'a Room, start: u64, bytes: u64) -> Window<'a> {
        Window {
            room,
            base: BASE,
            layout: &self.layout,
            start,
            bytes,
        }
    }

    fn part(&self, start: u64, bytes: u64) -> &[usize] {
        &self.addresses[start as usize..][..bytes as usize]
    }
}

#[test]
fn a_window_has_the_bytes_of_its_copies() {
    let mut rng = fastrand::Rng::with_seed(11);
    let content: Vec<u8> = (0..ROOM_BYTES).map(|_| rng.u8(..UNTOUCHED)).collect();
    let mut tried = 0;
    while tried < 3000 {
        let (from, into) = (Side::random(&mut rng), Side::random(&mut rng));
        if !into.is_apart() {
            continue;
        }
        tried += 1;
        let bytes = rng.u64(..=from.addresses.len().min(into.addresses.len()) as u64);
        let start = |side: &Side, rng: &mut fastrand::Rng| {
            let left = side.addresses.len() as u64 - bytes;
            let in_layout = side.layout.message_bytes();
            // Often at the beginning of a copy.
            match rng.bool() {
                true => rng.u64(..=left),
                false => rng.u64(..=left) / in_layout * in_layout,
            }
        };
        let starts = [start(&from, &mut rng), start(&into, &mut rng)];
        let (data, room) = (
            Room::holding(&content),
            Room::holding(&[UNTOUCHED; ROOM_BYTES]),
        );
        copy(
            &from.window(&data, starts[0], bytes),
            &into.window(&room, starts[1], bytes),
        );
        let mut expected = vec![UNTOUCHED; ROOM_BYTES];
        for (from, into) in from
            .part(starts[0], bytes)
            .iter()
            .zip(into.part(starts[1], bytes))
        {
            expected[*into] = content[*from];
        }
        assert!(
            room.read() == expected,
            "{starts:?} {bytes} {from:?} {into:?}"
        );
    }
}
