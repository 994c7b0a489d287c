//! Memory in which payload lands, and the proof that each landing ends once and nothing is written
//! afterwards.

#![allow(
    unsafe_code,
    reason = "lends memory to the fabric under check by pointer"
)]

use super::pattern::Name;
use core::ptr::NonNull;
use refrain_transport::fabric::{Landed, Landing};
use std::cell::Cell;

/// The content of memory before any payload lands.
const UNTOUCHED: u8 = 0x5c;
/// Bytes behind each landing that must not change.
const GUARD_BYTES: usize = 64;

/// Memory for one payload. Made of cells: the fabric writes by pointer.
#[derive(Debug)]
struct Ground {
    name: Name,
    payload_bytes: usize,
    memory: Box<[Cell<u8>]>,
    ended: Option<Ended>,
}

#[derive(Debug)]
enum Ended {
    Whole,
    /// With the content of the memory at that time.
    Lost(Vec<u8>),
}

/// All landings of one inbox. Its fabric is dropped before it.
#[derive(Debug, Default)]
pub struct Landings {
    grounds: Vec<Ground>,
    under_way: usize,
}

impl Ground {
    fn read(&self) -> Vec<u8> {
        self.memory.iter().map(Cell::get).collect()
    }

    fn holds_all(&self) -> bool {
        let memory = self.read();
        let (payload, guard) = memory.split_at(self.payload_bytes);
        self.name.is_filled(payload) && guard.iter().all(|byte| *byte == UNTOUCHED)
    }
}

impl Landings {
    /// Lends memory for a frame's payload.
    pub fn lend(&mut self, name: Name, payload_bytes: usize) -> Landing {
        let memory = vec![Cell::new(UNTOUCHED); payload_bytes + GUARD_BYTES];
        let ground = Ground {
            name,
            payload_bytes,
            memory: memory.into(),
            ended: None,
        };
        let to = NonNull::from(&*ground.memory).cast();
        let token = self.grounds.len() as u64;
        self.grounds.push(ground);
        self.under_way += 1;
        // SAFETY: boxed and never freed before the fabric, and not read before
        // the landing has ended; behind cells, so that writing is allowed.
        unsafe { Landing::new(to, payload_bytes, token) }
    }

    /// Notes that a landing has ended; returns the name of its frame.
    pub fn end(&mut self, token: u64, landed: Landed) -> Name {
        let ground = usize::try_from(token)
            .ok()
            .and_then(|index| self.grounds.get_mut(index))
            .unwrap_or_else(|| panic!("a landing ended that was never begun: {token}"));
        let name = ground.name;
        assert!(ground.ended.is_none(), "{name:?} landed twice");
        ground.ended = Some(match landed {
            Landed::Whole => {
                assert!(ground.holds_all(), "{name:?} landed with other payload");
                Ended::Whole
            }
            Landed::Lost => Ended::Lost(ground.read()),
        });
        self.under_way -= 1;
        name
    }

    /// Landings that have not ended.
    pub fn under_way(&self) -> usize {
        self.under_way
    }

    /// How the landings begun so far ended, in the order of their begin.
    pub fn ends(&self) -> Vec<Option<Landed>> {
        let end = |ground: &Ground| {
            ground.ended.as_ref().map(|ended| match ended {
                Ended::Whole => Landed::Whole,
                Ended::Lost(_) => Landed::Lost,
            })
        };
        self.grounds.iter().map(end).collect()
    }

    /// Verifies that the memory of landings that have ended is unchanged since then.
    pub fn verify_ended(&self) {
        for ground in &self.grounds {
            let unchanged = match &ground.ended {
                None => true,
                Some(Ended::Whole) => ground.holds_all(),
                Some(Ended::Lost(then)) => ground.read() == *then,
            };
            assert!(
                unchanged,
                "{:?} was written to after its landing had ended",
                ground.name
            );
        }
    }
}
