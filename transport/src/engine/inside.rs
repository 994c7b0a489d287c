//! What an engine's further conduct depends on: for those who explore all that may
//! happen, and meet one state on two ways.

use super::Engine;
use super::inbox::Inbox;
use crate::protocol::Protocol;
use core::fmt;
use refrain_ring::Rank;

/// See [`Engine::inside`].
pub struct Inside<'a, P: Protocol>(&'a Engine<P>);

impl<P: Protocol> Engine<P> {
    /// All of this engine, as words. Two engines of one rank go on in the same way
    /// if they read the same, but for addresses (`0x…`), which differ between two
    /// runs, and if what is around them is the same: options, protocol, records,
    /// fabric, disk, what is in the log and in the buffers of requests.
    pub fn inside(&self) -> Inside<'_, P> {
        Inside(self)
    }
}

impl<P: Protocol> fmt::Debug for Inside<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // By name, so that a new field has to be thought of.
        let Engine {
            options: _,
            fabric: _,
            protocol: _,
            // How early the next commit is made ready, not what it is.
            protocol_worked: _,
            arena: _,
            gate,
            clock,
            requests,
            inbox,
            outbox,
            statistics: _,
            spilling: _,
            has_asked,
            closed_for,
            published,
            lives,
            plays_again,
            past_sends: _,
            unrecorded,
            comparison: _,
            halt: _,
            packed_again: _,
            settling,
            has_read: _,
            completed: _,
        } = self.0;
        write!(f, "{gate:?} {clock:?} {requests:?} {outbox:?} {lives:?} ")?;
        write!(
            f,
            "{has_asked} {closed_for:?} {published:?} {plays_again} {settling:?} {unrecorded:?} "
        )?;
        write_inbox(inbox, f)
    }
}

fn write_inbox(inbox: &Inbox, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Inbox {
        matcher,
        messages,
        landings,
        sources,
        controls_in,
        controls_out,
        pressed,
        violation,
        lost,
        events_told,
        now,
        every_reception: _,
        match_events,
        senders_keep: _,
        unseen,
        rehearsal,
    } = inbox;
    // Which receives are posted, and in which order, is in the requests.
    for source in (0..sources.len() as u32).map(Rank) {
        for unexpected in matcher.unexpected_of(source) {
            write!(f, "{unexpected:?} ")?;
        }
    }
    write!(f, "{messages:?} {landings:?} {sources:?} {controls_in:?} ")?;
    write!(f, "{controls_out:?} {pressed:?} {violation:?} {lost:?} ")?;
    write!(
        f,
        "{events_told} {now:?} {match_events} {unseen:?} {rehearsal:?}"
    )
}
