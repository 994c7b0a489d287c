//! A sink that verifies all arrivals.

#![allow(unsafe_code, reason = "lends memory to the fabric by pointer")]

use crate::name::Name;
use core::ptr::NonNull;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::control::Control;
use refrain_transport::fabric::{Arrival, Disposition, Landed, Landing, Payload, Place, Sink};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};

/// Bytes behind each landing that must not change.
const GUARD_BYTES: usize = 64;
const UNTOUCHED: u8 = 0x5c;

/// The arrivals from the connected life of a peer.
#[derive(Clone, Copy, Debug)]
pub struct Life {
    pub incarnation: Incarnation,
    pub frames: u64,
    pub controls: u64,
}

#[derive(Clone, Copy, Debug)]
pub struct Kept {
    pub place: Place,
    pub name: Name,
    pub payload_bytes: usize,
    pub is_distant: bool,
}

#[derive(Debug)]
struct Ground {
    name: Name,
    payload_bytes: usize,
    memory: Box<[Cell<u8>]>,
}

/// One rank's sink. It lives longer than its fabric.
#[derive(Debug)]
pub struct Inbox {
    own: (Rank, Incarnation),
    sizes: Vec<usize>,
    /// Peers that are connected and were not reported as lost.
    pub lives: BTreeMap<Rank, Life>,
    pub kept: VecDeque<Kept>,
    grounds: BTreeMap<u64, Ground>,
    /// Lost landings, with the content of their memory at the end.
    lost_grounds: Vec<(Ground, Vec<u8>)>,
    tokens: u64,
    /// Connected peers of which landings were lost in this poll.
    lost_landings_of: Vec<Rank>,
    /// Landings that ended whole.
    pub landed: u64,
    /// Peers that were reported as lost, in this order.
    pub lost: Vec<Rank>,
    pub is_pressed: bool,
    pub calls: usize,
}

fn read(memory: &[Cell<u8>]) -> Vec<u8> {
    memory.iter().map(Cell::get).collect()
}

impl Inbox {
    pub fn new(rank: Rank, incarnation: Incarnation, sizes: Vec<usize>) -> Self {
        Self {
            own: (rank, incarnation),
            sizes,
            lives: BTreeMap::new(),
            kept: VecDeque::new(),
            grounds: BTreeMap::new(),
            lost_grounds: Vec::new(),
            tokens: 0,
            lost_landings_of: Vec::new(),
            landed: 0,
            lost: Vec::new(),
            is_pressed: false,
            calls: 0,
        }
    }

    pub fn connected(&mut self, peer: Rank, incarnation: Incarnation) {
        let life = Life {
            incarnation,
            frames: 0,
            controls: 0,
        };
        self.lives.insert(peer, life);
    }

    pub fn frames(&self, peer: Rank) -> u64 {
        self.lives.get(&peer).map_or(0, |life| life.frames)
    }

    pub fn controls(&self, peer: Rank) -> u64 {
        self.lives.get(&peer).map_or(0, |life| life.controls)
    }

    /// Landings of frames of one peer that have not ended.
    pub fn landings_of(&self, peer: Rank) -> usize {
        let grounds = self.grounds.values();
        grounds.filter(|ground| ground.name.source == peer).count()
    }

    fn open_life(&mut self, source: Rank) -> &mut Life {
        let own = self.own.0;
        self.lives
            .get_mut(&source)
            .unwrap_or_else(|| panic!("rank {own} got something of rank {source}, which is fenced"))
    }

    fn name(&self, source: Rank, life: Life, number: u64) -> Name {
        Name {
            source,
            incarnation: life.incarnation,
            destination: self.own.0,
            to_incarnation: self.own.1,
            number,
        }
    }

    /// Memory for a frame's payload.
    pub fn lend(&mut self, name: Name, payload_bytes: usize) -> Landing {
        let memory: Box<[Cell<u8>]> =
            vec![Cell::new(UNTOUCHED); payload_bytes + GUARD_BYTES].into();
        let to = NonNull::from(&*memory).cast();
        self.tokens += 1;
        let ground = Ground {
            name,
            payload_bytes,
            memory,
        };
        self.grounds.insert(self.tokens, ground);
        // SAFETY: boxed, and not read or freed before the landing has ended (a
        // lost one never); behind cells, so that writing is allowed.
        unsafe { Landing::new(to, payload_bytes, self.tokens) }
    }

    /// Landings are lost only with their peer, which is reported in the same poll
    /// at the latest.
    pub fn verify_losses(&mut self) {
        for peer in core::mem::take(&mut self.lost_landings_of) {
            assert!(
                self.lost.contains(&peer),
                "a landing of rank {peer} is lost, which lives"
            );
        }
    }

    /// Verifies that memory of lost landings is not written afterwards.
    pub fn verify_lost(&self) {
        for (ground, then) in &self.lost_grounds {
            assert!(
                read(&ground.memory) == *then,
                "{:?} was written to after its landing had ended",
                ground.name
            );
        }
    }
}

impl Sink for Inbox {
    fn frame(&mut self, arrival: Arrival<'_>) -> Disposition {
        self.calls += 1;
        let source = arrival.header.source;
        let life = *self.open_life(source);
        let name = self.name(source, life, life.frames);
        let payload_bytes = name.payload_bytes(&self.sizes);
        assert_eq!(
            *arrival.header,
            name.header(payload_bytes),
            "instead of {name:?}: lost, doubled, out of order or of another life"
        );
        assert_eq!(arrival.payload.bytes(), payload_bytes);
        self.open_life(source).frames += 1;
        let is_distant = match arrival.payload {
            Payload::Here(payload) => {
                assert!(name.is_filled(payload), "{name:?} has another payload");
                false
            }
            Payload::Distant(_) => true,
        };
        self.is_pressed |= arrival.pressed;
        let keeps = name.chance(3).is_multiple_of(4);
        if keeps {
            self.kept.push_back(Kept {
                place: arrival.place,
                name,
                payload_bytes,
                is_distant,
            });
            Disposition::Keep
        } else if is_distant {
            Disposition::Fetch(self.lend(name, payload_bytes))
        } else {
            Disposition::Consumed
        }
    }

    fn control(&mut self, source: Rank, control: Control) {
        self.calls += 1;
        let life = *self.open_life(source);
        let name = self.name(source, life, life.controls);
        assert_eq!(control, name.control(), "instead of {name:?}");
        self.open_life(source).controls += 1;
    }

    fn landed(&mut self, token: u64, landed: Landed) {
        self.calls += 1;
        let ground = self.grounds.remove(&token);
        let ground = ground.unwrap_or_else(|| panic!("landing {token} ended twice or never began"));
        let memory = read(&ground.memory);
        let is_open = self
            .lives
            .get(&ground.name.source)
            .is_some_and(|life| life.incarnation == ground.name.incarnation);
        match landed {
            Landed::Whole => {
                assert!(
                    is_open,
                    "{:?} landed after its sender was fenced",
                    ground.name
                );
                let (payload, guard) = memory.split_at(ground.payload_bytes);
                let is_good =
                    ground.name.is_filled(payload) && guard.iter().all(|byte| *byte == UNTOUCHED);
                assert!(is_good, "{:?} landed with other bytes", ground.name);
                self.landed += 1;
            }
            Landed::Lost => {
                if is_open {
                    self.lost_landings_of.push(ground.name.source);
                }
                self.lost_grounds.push((ground, memory));
            }
        }
    }

    fn peer_lost(&mut self, peer: Rank) {
        self.calls += 1;
        self.lost.push(peer);
    }
}
