//! What must be true of what a program is told.

use super::life::{Life, Sent};
use refrain_logging::determinant::{Determinant, Matched};
use refrain_ring::Clock;

/// The match that a determinant tells of, if it does.
pub(super) fn match_of(determinant: &Determinant) -> Option<Matched> {
    match determinant {
        Determinant::Match { matched, .. } | Determinant::MatchCompleted { matched, .. } => {
            Some(*matched)
        }
        _ => None,
    }
}

impl Life {
    /// No message twice, out of order or with a hole; each receive gets what its
    /// record says. `any`: the clock at the post of a receive from any rank. REC-4
    pub(super) fn check_received(
        &self,
        source: usize,
        content: &[u8],
        any: Option<Clock>,
    ) -> Result<(), String> {
        let ssn = self.at.given[source];
        if !(self.ghost.borrow()).is_said((source, self.rank, ssn), content) {
            return Err(format!(
                "REC-3: rank {} is given something else than message {ssn} of rank {source}",
                self.rank
            ));
        }
        let is_its = |matched: &Matched| Some(matched.request) == any;
        let told = self.records.iter().filter_map(match_of).find(is_its);
        match told {
            Some(told) if (told.source.index(), told.ssn.0) != (source, ssn) => Err(format!(
                "REC-4: rank {} is given message {ssn} of rank {source}, its record says \
                 message {} of rank {}",
                self.rank, told.ssn, told.source
            )),
            _ => Ok(()),
        }
    }

    /// A synchronous send ends after its match, and what tells of a match that
    /// depended on timing leaves after that is stable. GATE-1
    pub(super) fn check_sent(&self, sent: Sent) -> Result<(), String> {
        let name = (self.rank, sent.to, sent.ssn);
        match !sent.synchronous || self.ghost.borrow().is_matched(name) {
            true => Ok(()),
            false => Err(format!(
                "GATE-1: a synchronous send of rank {} ends, and its match is not stable",
                self.rank
            )),
        }
    }
}
