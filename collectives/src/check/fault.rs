//! What the checker finds.

/// What is wrong with a schedule. Steps are named by place and number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// `after` is above the step itself or below that of the step before.
    #[error(
        "place {place}: step {step} waits for a step that is not before it, or for less than the step before"
    )]
    Order {
        /// The place.
        place: u32,
        /// The step.
        step: u32,
    },
    /// The partner is the place itself, or not in the group.
    #[error("place {place}: step {step} has no partner in the group")]
    Partner {
        /// The place.
        place: u32,
        /// The step.
        step: u32,
    },
    /// Elements outside of the buffer, or a write to the input.
    #[error("place {place}: step {step} uses elements that it must not use")]
    Range {
        /// The place.
        place: u32,
        /// The step.
        step: u32,
    },
    /// Operands and result have different counts, or overlap in part.
    #[error("place {place}: operands and result of step {step} do not fit")]
    Operands {
        /// The place.
        place: u32,
        /// The step.
        step: u32,
    },
    /// Two steps touch the same elements, one of them writes, and the second does not wait.
    #[error(
        "place {place}: step {second} does not wait for step {first}, which uses the same elements"
    )]
    Race {
        /// The place.
        place: u32,
        /// The step that may be under way.
        first: u32,
        /// The step that may begin too early.
        second: u32,
    },
    /// A message and its receive have different counts.
    #[error(
        "place {to}: step {step} receives {expected} elements and place {source_place} sends {sent}"
    )]
    Length {
        /// The sender.
        source_place: u32,
        /// The receiver.
        to: u32,
        /// The receiver's step.
        step: u32,
        /// The count of the receive.
        expected: u64,
        /// The count of the message.
        sent: u64,
    },
    /// All sends are complete, and some messages are not received.
    #[error("{messages} messages from place {source_place} to place {to} are not received")]
    NotReceived {
        /// The sender.
        source_place: u32,
        /// The receiver.
        to: u32,
        /// How many.
        messages: usize,
    },
    /// Nothing can go on.
    #[error("deadlock; first steps that are not complete, as (place, step): {waiting:?}")]
    Deadlock {
        /// Each place that is not done and its first step that is not complete.
        waiting: Vec<(u32, u32)>,
    },
}
