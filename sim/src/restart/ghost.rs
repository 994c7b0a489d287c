//! What has left each rank in any of its lives: nobody in the job can see all of it.

use refrain_ring::{RecordHeader, RecordKind};
use std::collections::{BTreeMap, BTreeSet};

/// A message: sender, receiver, number.
pub(super) type Name = (usize, usize, u64);

/// A piece of a message as it left.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Piece {
    tag: i32,
    flags: u16,
    payload: Box<[u8]>,
}

/// See the [module](self).
#[derive(Debug, Default, Hash)]
pub(super) struct Ghost {
    /// By message, and by where they begin in it.
    said: BTreeMap<Name, BTreeMap<u64, Piece>>,
    /// By receiver and sender: how many messages the receiver has begun to receive
    /// by name, in any life.
    reached: BTreeMap<(usize, usize), u64>,
    /// Messages whose receive from any rank is in a stable determinant.
    pub matched: BTreeSet<Name>,
    /// The first rule that was broken where nobody could tell of it.
    pub broken: Option<String>,
}

impl Ghost {
    /// A record leaves for `to`. REC-8: one that was said before is the same.
    pub fn say(&mut self, to: usize, header: &RecordHeader, payload: &[u8]) {
        let name = (header.source.index(), to, header.ssn.0);
        let offset = match header.kind {
            RecordKind::Fragment => header.extent,
            _ => 0,
        };
        let piece = Piece {
            tag: header.tag,
            flags: header.flags,
            payload: payload.into(),
        };
        let said = self.said.entry(name).or_default();
        let first = said.entry(offset).or_insert_with(|| piece.clone());
        if *first != piece {
            let (from, to, ssn) = name;
            self.break_rule(format!(
                "REC-8: message {ssn} of rank {from} to rank {to} is another one than was sent before"
            ));
        }
    }

    /// Whether these bytes are a message as it left, wholly.
    pub fn is_said(&self, name: Name, bytes: &[u8]) -> bool {
        let Some(pieces) = self.said.get(&name) else {
            return false;
        };
        let mut end = 0;
        for (offset, piece) in pieces {
            let (from, until) = (*offset as usize, *offset as usize + piece.payload.len());
            if from != end || bytes.get(from..until) != Some(&*piece.payload) {
                return false;
            }
            end = until;
        }
        end == bytes.len()
    }

    /// A rank begins to receive a message of `source` by name, its `nth`.
    pub fn reach(&mut self, rank: usize, source: usize, nth: u64) {
        let reached = self.reached.entry((rank, source)).or_default();
        *reached = (*reached).max(nth + 1);
    }

    /// Whether a rank has ever begun to receive this message by name, or it is
    /// stable that it received it.
    pub fn is_matched(&self, name: Name) -> bool {
        let (from, to, ssn) = name;
        let reached = self.reached.get(&(to, from));
        reached.is_some_and(|reached| ssn < *reached) || self.matched.contains(&name)
    }

    pub fn break_rule(&mut self, rule: String) {
        self.broken.get_or_insert(rule);
    }
}
