//! The state of an engine as text, for an explorer of all executions: it recognises a state that it
//! has reached before.

use super::Engine;
use super::inbox::Inbox;
use crate::protocol::Protocol;
use core::fmt;
use refrain_ring::Rank;

/// See [`Engine::inside`].
pub struct Inside<'a, P: Protocol>(&'a Engine<P>);

impl<P: Protocol> Engine<P> {
    /// The state of this engine as text. Two engines of one rank continue in the same way if their
    /// texts and their environments are equal. The environment is: options, protocol, records,
    /// fabric, disk, log, buffers of requests. Addresses (`0x…`) differ between two runs and do not
    /// count.
    pub fn inside(&self) -> Inside<'_, P> {
        Inside(self)
    }
}

impl<P: Protocol> fmt::Debug for Inside<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All fields by name: a new field does not compile before it is listed here.
        let Engine {
            options: _,
            fabric: _,
            protocol: _,
            carries: _,
            commits_early: _,
            // How early the next commit is prepared, not its content.
            protocol_worked: _,
            arena: _,
            // Where payload lies, not what it is.
            shared: _,
            shared_bytes_min: _,
            gate,
            clock,
            requests,
            inbox,
            outbox,
            statistics: _,
            spilling: _,
            has_asked,
            has_stopped_keeping,
            closed_for,
            published,
            lives,
            plays_again,
            previous_sends: _,
            unrecorded,
            comparison: _,
            name_call: _,
            halt: _,
            packed_again: _,
            settling,
            has_read: _,
            operations,
            whole,
            set,
            completed: _,
        } = self.0;
        write!(f, "{gate:?} {clock:?} {requests:?} {outbox:?} {lives:?} ")?;
        write!(
            f,
            "{has_asked} {has_stopped_keeping} {closed_for:?} {published:?} {plays_again} {settling:?} {unrecorded:?} {operations:?} {whole:?} {set:?} "
        )?;
        write_inbox(inbox, f)
    }
}

fn write_inbox(inbox: &Inbox, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Inbox {
        matcher,
        internal,
        messages,
        landings,
        sources,
        controls_in,
        results,
        controls_out,
        pressed,
        violation,
        lost,
        new_events,
        now,
        every_reception: _,
        match_events,
        senders_keep: _,
        unseen,
        replay,
        has_carried,
    } = inbox;
    // The requests show which receives are posted, and in which order.
    for source in (0..sources.len() as u32).map(Rank) {
        for unexpected in matcher.unexpected_of(source) {
            write!(f, "{unexpected:?} ")?;
        }
        for unexpected in internal.unexpected_of(source) {
            write!(f, "{unexpected:?} ")?;
        }
    }
    write!(
        f,
        "{messages:?} {landings:?} {sources:?} {controls_in:?} {results:?} "
    )?;
    write!(f, "{controls_out:?} {pressed:?} {violation:?} {lost:?} ")?;
    write!(
        f,
        "{new_events} {now:?} {match_events} {unseen:?} {replay:?} {has_carried}"
    )
}
