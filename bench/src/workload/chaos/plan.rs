//! What the ranks do in one round of chaos. Every rank knows the whole plan.

use super::shape::Shape;

/// Index into [`Round::messages`].
pub type MessageId = usize;
/// Index into [`Round::slots`].
pub type SlotId = usize;

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of the operations")]
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
    /// Those that return at once.
    pub const IMMEDIATE: [SendManner; 4] = [
        SendManner::Isend,
        SendManner::Issend,
        SendManner::Persistent,
        SendManner::PersistentSynchronous,
    ];
    /// Those that may wait for the receiver.
    pub const BLOCKING: [SendManner; 2] = [SendManner::Send, SendManner::Ssend];

    /// Whether the call may wait for the receiver.
    #[must_use]
    pub fn is_blocking(self) -> bool {
        Self::BLOCKING.contains(&self)
    }
}

/// How a message is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of the operations")]
pub enum ReceiveManner {
    Irecv,
    Persistent,
    /// A matched probe if there is something already, else a receive.
    ImprobeElseIrecv,
    /// Posted and cancelled at once; posted again if it had not matched.
    CancelRace,
    /// For a message that nobody sends; cancelled at the end of the round.
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
    /// Those that return at once.
    pub const IMMEDIATE: [ReceiveManner; 4] = [
        ReceiveManner::Irecv,
        ReceiveManner::Persistent,
        ReceiveManner::ImprobeElseIrecv,
        ReceiveManner::CancelRace,
    ];
    /// Those that wait for the message.
    pub const BLOCKING: [ReceiveManner; 7] = [
        ReceiveManner::Recv,
        ReceiveManner::ProbeRecv,
        ReceiveManner::IprobeRecv,
        ReceiveManner::MprobeMrecv,
        ReceiveManner::MprobeImrecv,
        ReceiveManner::ImprobeMrecv,
        ReceiveManner::ImprobeImrecv,
    ];
}

/// One message of a round.
#[derive(Clone, Debug)]
pub struct Message {
    /// Who sends it.
    pub source: u32,
    /// Who receives it.
    pub destination: u32,
    /// In which context.
    pub context: u32,
    /// With which tag.
    pub tag: i32,
    /// How.
    pub manner: SendManner,
    /// How its bytes lie in the sender's buffer.
    pub shape: Shape,
    /// Its length.
    pub bytes: usize,
    /// What its payload is made from: no other message of the job has it,
    /// except repetitions by one persistent request.
    pub seed: u64,
}

/// What a receive accepts; `None`: any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// The context.
    pub context: u32,
    /// The sender.
    pub source: Option<u32>,
    /// The tag.
    pub tag: Option<i32>,
}

impl Pattern {
    /// Whether a message to the rank that receives fits.
    #[must_use]
    pub fn admits(&self, message: &Message) -> bool {
        self.context == message.context
            && self.source.is_none_or(|source| source == message.source)
            && self.tag.is_none_or(|tag| tag == message.tag)
    }

    /// How many of its two parts are open.
    #[must_use]
    pub fn wildcards(&self) -> usize {
        usize::from(self.source.is_none()) + usize::from(self.tag.is_none())
    }
}

/// One receive of a round.
#[derive(Clone, Debug)]
pub struct Slot {
    /// Who receives.
    pub receiver: u32,
    /// What.
    pub pattern: Pattern,
    /// How.
    pub manner: ReceiveManner,
    /// How the bytes lie in the receiver's buffer.
    pub shape: Shape,
    /// Room for so many message bytes.
    pub room_bytes: usize,
    /// Whether a message that may come is longer than the room.
    pub may_truncate: bool,
}

impl Slot {
    /// Whether it may be posted again while the first buffer is still lent out.
    #[must_use]
    pub fn needs_second_buffer(&self) -> bool {
        self.manner == ReceiveManner::CancelRace
    }
}

/// How requests are completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the names of the operations")]
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
    /// All of them.
    pub const ALL: [Completion; 8] = [
        Completion::Wait,
        Completion::WaitAny,
        Completion::WaitSome,
        Completion::WaitAll,
        Completion::Test,
        Completion::TestAny,
        Completion::TestSome,
        Completion::TestAll,
    ];
    /// Those that return at once.
    pub const TESTS: [Completion; 4] = [
        Completion::Test,
        Completion::TestAny,
        Completion::TestSome,
        Completion::TestAll,
    ];
}

/// One thing that a rank does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Starts to receive and goes on.
    Post(SlotId),
    /// Receives and waits until it is done.
    Receive(SlotId),
    /// Sends and goes on as soon as the manner of the message allows.
    Send(MessageId),
    /// Sends and waits until it is done.
    SendAndWait(MessageId),
    /// Sendrecv.
    Exchange(MessageId, SlotId),
    /// Sends equal messages with one persistent request, one after the other.
    SendRepeatedly(Vec<MessageId>),
    /// Receives so often with one persistent request.
    ReceiveRepeatedly(SlotId, usize),
    /// Tests some requests once, whatever comes of it.
    Poke(Completion),
    /// Looks for a message once, whatever comes of it.
    Iprobe(Pattern),
    /// Completes at least one of some pending receives, if there are any.
    Await(Completion),
    /// Waits for all ranks.
    Barrier,
}

/// What all ranks do in one round. At its end each of them completes all that
/// is pending.
#[derive(Clone, Debug, Default)]
pub struct Round {
    /// Counted from 0.
    pub number: u64,
    /// All messages.
    pub messages: Vec<Message>,
    /// All receives.
    pub slots: Vec<Slot>,
    /// For each rank, its steps.
    pub programs: Vec<Vec<Step>>,
    /// For each rank, whether it publishes a horizon afterwards.
    pub publishes: Vec<bool>,
    /// Whether all ranks wait for each other afterwards, through the launcher
    /// or by messages.
    pub ends_with: Ending,
}

/// How a round ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ending {
    /// Ranks go on alone; the next round has other contexts.
    #[default]
    Open,
    /// They wait for each other by messages.
    Barrier,
    /// They wait for each other through the launcher.
    Fence,
}

impl Round {
    /// All steps of all ranks.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.programs.iter().map(Vec::len).sum()
    }

    /// For each message, its place among those of its sender.
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
    /// The messages that it sends, in order.
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
