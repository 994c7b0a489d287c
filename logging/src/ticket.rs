//! The protocol with tickets (simple pessimistic logging in Charm++): no event logger; the rank
//! that sent a message keeps the number of its reception, and a recovering rank gets its order from
//! the senders. docs/design/events-at-ranks.md
//!
//! A ticket is a batch of determinants. It goes to the sender of the newest message that it orders,
//! and no emission leaves before the sender has confirmed it: the rank that handles the message has
//! done nothing by then that another rank could see. TICKET-1, GATE-1

use crate::held::Holdings;
use refrain_ring::Rank;

impl Holdings {
    /// The rank that is to hold the next batch, or the first of several. A message of this rank to itself has
    /// no other sender: its batch goes to the next rank.
    pub(crate) fn ticket_holder(&self) -> Rank {
        self.sender.unwrap_or_else(|| self.next_rank())
    }
}
