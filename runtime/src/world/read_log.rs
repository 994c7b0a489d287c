//! Reading this rank's payload log back: what it sent to a rank, message by
//! message. LOG-2

use super::World;
use crate::Error;
use refrain_ring::read_back::Progress;
use refrain_ring::{Rank, RecordHeader, RecordKind, Ssn};
use std::collections::BTreeMap;

/// A message of the log.
#[derive(Clone, Copy, Debug)]
pub struct Logged<'a> {
    /// Its number on the channel. Numbers count all messages of the pair of
    /// ranks, those of the library's own (barriers) too.
    pub ssn: Ssn,
    /// The context that it was sent in.
    pub context: u32,
    /// Its tag.
    pub tag: i32,
    /// Its bytes, packed.
    pub payload: &'a [u8],
}

impl World {
    /// Reads what this rank has sent to `destination` and its log still holds, from
    /// message `from` on, in the order of the numbers; returns how many messages
    /// that were. From memory or disk, wherever they are; meanwhile the rank
    /// answers others as in any blocking call. Each message is put together in
    /// memory. Messages to oneself are not logged.
    ///
    /// # Errors
    /// [`Error::NoSuchRank`]; [`Error::Argument`] when a horizon has passed `from`;
    /// [`Error::Config`] when messages are gone otherwise: the disk does not give
    /// them back, or the protocol keeps none.
    pub fn read_log(
        &mut self,
        destination: u32,
        from: Ssn,
        mut each: impl FnMut(Logged<'_>),
    ) -> Result<u64, Error> {
        let destination = Rank(destination);
        if destination.0 >= self.size {
            return Err(Error::NoSuchRank {
                rank: destination,
                last: self.size - 1,
            });
        }
        let mut reader = self.engine.read_back(destination, from);
        let mut assembly = Assembly::new(from);
        self.block_until(|world| {
            let mut give = |header: &RecordHeader, payload: &[u8]| assembly.add(header, payload);
            match world.engine.read_on(&mut reader, &mut give) {
                Ok(Progress::Records(_)) => {
                    assembly.hand_on(&mut each);
                    None
                }
                Ok(Progress::Waiting) => None,
                Ok(Progress::End) => Some(Ok(())),
                Ok(Progress::Passed(horizon)) => Some(Err(Error::Argument(format!(
                    "messages {from} to {horizon} of the log to rank {destination} are gone: a checkpoint of the receiver covers them"
                )))),
                Err(error) => Some(Err(Error::Config(error.to_string()))),
            }
        })??;
        Ok(assembly.handed_on)
    }
}

/// Puts messages together; fragments of long ones may come after younger ones.
struct Assembly {
    /// Those that are not whole, or have an older one before them.
    open: BTreeMap<Ssn, Open>,
    next: Ssn,
    handed_on: u64,
}

struct Open {
    context: u32,
    tag: i32,
    bytes: usize,
    payload: Vec<u8>,
}

impl Assembly {
    fn new(from: Ssn) -> Self {
        Self {
            open: BTreeMap::new(),
            next: from,
            handed_on: 0,
        }
    }

    fn add(&mut self, header: &RecordHeader, payload: &[u8]) {
        if header.kind != RecordKind::Fragment {
            self.open.insert(
                header.ssn,
                Open {
                    context: header.context,
                    tag: header.tag,
                    bytes: header.extent as usize,
                    payload: Vec::with_capacity(header.extent as usize),
                },
            );
        }
        // Fragments of one message come in order.
        if let Some(open) = self.open.get_mut(&header.ssn) {
            open.payload.extend_from_slice(payload);
        }
    }

    fn hand_on(&mut self, each: &mut impl FnMut(Logged<'_>)) {
        while let Some(first) = self.open.first_entry()
            && first.key() == &self.next
            && first.get().payload.len() == first.get().bytes
        {
            let (ssn, open) = first.remove_entry();
            each(Logged {
                ssn,
                context: open.context,
                tag: open.tag,
                payload: &open.payload,
            });
            self.next = ssn.next();
            self.handed_on += 1;
        }
    }
}
