//! What is kept for batches that messages carry. CAUSAL-1

use super::batch::Batch;
use crate::determinant::EventIndex;
use refrain_ring::{Clock, Incarnation};

/// An own batch that is not stable.
#[derive(Clone, Debug, Hash)]
pub(crate) struct Unstable {
    incarnation: Incarnation,
    first: EventIndex,
    count: u16,
    /// Of the first determinant, and of the last.
    clocks: (Clock, Clock),
    payload: Vec<u8>,
    /// It was given to another rank because something waits for it.
    pub is_pressed: bool,
}

/// What messages carried to a peer and from it, over one connection.
#[derive(Clone, Debug, Default, Hash)]
pub(crate) struct Carried {
    /// Everything unstable before this was carried to it.
    pub until: EventIndex,
    /// The same behind the carrier that is being made.
    pub next: EventIndex,
    /// One past the last batch that came from it, if that is not confirmed.
    pub to_confirm: Option<EventIndex>,
    /// Carriers that came from it since the last confirmation.
    pub unconfirmed: u32,
}

impl Unstable {
    pub fn of(batch: Batch<'_>) -> Self {
        Self {
            incarnation: batch.incarnation,
            first: batch.first,
            count: batch.count,
            clocks: (batch.first_clock, batch.last_clock),
            payload: batch.payload.into(),
            is_pressed: false,
        }
    }

    pub fn batch(&self) -> Batch<'_> {
        Batch {
            incarnation: self.incarnation,
            first: self.first,
            count: self.count,
            first_clock: self.clocks.0,
            last_clock: self.clocks.1,
            payload: &self.payload,
        }
    }
}
