//! The plan of one round of chaos: the steps of all ranks. Every rank knows the whole plan.

use crate::workload::shape::Shape;

/// Index into [`Round::messages`].
pub type MessageId = usize;
/// Index into [`Round::slots`].
pub type SlotId = usize;

/// The operation that sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SendManner {
    Send,
    Ssend,
    Isend,
    Issend,
    Persistent,
    PersistentSynchronous,
    Sendrecv,
}

impl SendManner {
    /// Operations that return at once.
    pub const IMMEDIATE: [Self; 4] = [
        Self::Isend,
        Self::Issend,
        Self::Persistent,
        Self::PersistentSynchronous,
    ];
    /// Operations that may wait for the receiver.
    pub const BLOCKING: [Self; 2] = [Self::Send, Self::Ssend];
}

/// The operations that receive a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReceiveManner {
    Irecv,
    Persistent,
    /// A matched probe if a message has arrived already, else a receive.
    ImprobeElseIrecv,
    /// Posted and cancelled at once; posted again if the cancellation succeeded.
    CancelRace,
    /// For a message that is never sent; cancelled at the end of the round.
    CancelNever,
    Recv,
    ProbeRecv,
    IprobeRecv,
    MprobeMrecv,
    MprobeImrecv,
    ImprobeMrecv,
    ImprobeImrecv,
    Sendrecv,
}

impl ReceiveManner {
    /// Operations that return at once.
    pub const IMMEDIATE: [Self; 4] = [
        Self::Irecv,
        Self::Persistent,
        Self::ImprobeElseIrecv,
        Self::CancelRace,
    ];
    /// Operations that wait for the message.
    pub const BLOCKING: [Self; 7] = [
        Self::Recv,
        Self::ProbeRecv,
        Self::IprobeRecv,
        Self::MprobeMrecv,
        Self::MprobeImrecv,
        Self::ImprobeMrecv,
        Self::ImprobeImrecv,
    ];
}

/// One message of a round.
#[derive(Clone, Debug)]
pub struct Message {
    pub source: u32,
    pub destination: u32,
    pub context: u32,
    pub tag: i32,
    pub manner: SendManner,
    /// Shape of the bytes in the sender's buffer.
    pub shape: Shape,
    pub bytes: usize,
    /// The seed of its payload: no other message of the job has the same, except repetitions by
    /// one persistent request.
    pub seed: u64,
}

/// Messages that a receive accepts; `None`: any source or tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    pub context: u32,
    pub source: Option<u32>,
    pub tag: Option<i32>,
}

impl Pattern {
    /// Whether a message to the receiving rank matches.
    #[must_use]
    pub fn admits(&self, message: &Message) -> bool {
        self.context == message.context
            && self.source.is_none_or(|source| source == message.source)
            && self.tag.is_none_or(|tag| tag == message.tag)
    }

    /// Number of wildcards, 0 to 2.
    #[must_use]
    pub fn wildcards(&self) -> usize {
        usize::from(self.source.is_none()) + usize::from(self.tag.is_none())
    }
}

/// One receive of a round.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The rank that receives.
    pub receiver: u32,
    pub pattern: Pattern,
    pub manner: ReceiveManner,
    /// Shape of the bytes in the receiver's buffer.
    pub shape: Shape,
    /// Number of message bytes that fit.
    pub room_bytes: usize,
    /// Whether a message that it admits is longer than the room.
    pub may_truncate: bool,
}

impl Slot {
    /// Whether it may be posted again while the first buffer is still in use.
    #[must_use]
    pub fn needs_second_buffer(&self) -> bool {
        self.manner == ReceiveManner::CancelRace
    }
}

/// The call that completes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Completion {
    Wait,
    WaitAny,
    WaitSome,
    WaitAll,
    Test,
    TestAny,
    TestSome,
    TestAll,
}

impl Completion {
    pub const ALL: [Self; 8] = [
        Self::Wait,
        Self::WaitAny,
        Self::WaitSome,
        Self::WaitAll,
        Self::Test,
        Self::TestAny,
        Self::TestSome,
        Self::TestAll,
    ];
    /// Calls that return at once.
    pub const TESTS: [Self; 4] = [Self::Test, Self::TestAny, Self::TestSome, Self::TestAll];
}

/// One step of a rank's program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Posts a receive.
    Post(SlotId),
    /// Receives, and waits for the completion.
    Receive(SlotId),
    /// Sends, and waits only if the message's operation blocks.
    Send(MessageId),
    /// Sends, and waits for the completion.
    SendAndWait(MessageId),
    /// Sends and receives with one sendrecv.
    Exchange(MessageId, SlotId),
    /// Sends equal messages with one persistent request, one after the other.
    SendRepeatedly(Vec<MessageId>),
    /// Receives a number of messages with one persistent request.
    ReceiveRepeatedly(SlotId, usize),
    /// Tests some requests once; the result is not used.
    Poke(Completion),
    /// Probes once; the result is not used.
    Iprobe(Pattern),
    /// Completes at least one of the pending receives, if there are any.
    Await(Completion),
    /// Waits for all ranks.
    Barrier,
}

/// The plan of one round. At its end each rank completes all pending requests.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Number of the round, from 0.
    pub number: u64,
    pub messages: Vec<Message>,
    /// All receives.
    pub slots: Vec<Slot>,
    /// The steps of each rank.
    pub programs: Vec<Vec<Step>>,
    /// By rank, whether it publishes a horizon after the round.
    pub publishes: Vec<bool>,
    pub ends_with: Ending,
}

/// End of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Ranks continue without waiting; the next round has other contexts.
    #[default]
    Open,
    /// All ranks wait for each other by messages.
    Barrier,
    /// All ranks wait for each other through the launcher.
    Fence,
}

impl Round {
    /// Number of all steps of all ranks.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.programs.iter().map(Vec::len).sum()
    }

    /// By message, its position among the messages of its sender.
    #[must_use]
    pub fn send_order(&self) -> Vec<usize> {
        let mut order = vec![usize::MAX; self.messages.len()];
        for program in &self.programs {
            for (place, id) in program.iter().flat_map(Step::sends).enumerate() {
                order[*id] = place;
            }
        }
        order
    }
}

impl Step {
    /// The messages that the step sends, in order.
    #[must_use]
    pub fn sends(&self) -> &[MessageId] {
        match self {
            Self::Send(id) | Self::SendAndWait(id) | Self::Exchange(id, _) => {
                std::slice::from_ref(id)
            }
            Self::SendRepeatedly(ids) => ids,
            _ => &[],
        }
    }
}
