//! The calls of a program and their answers.

use crate::collective::Collective;
use refrain_ring::Rank;
use std::rc::Rc;

/// The number of a request: posts and blocking receives of a program, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestNumber(pub u32);

/// The number of a message that a matched probe took, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TakenNumber(pub u32);

/// A pattern: which messages a receive or probe matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct From {
    /// The sender; `None`: any.
    pub source: Option<Rank>,
    /// The tag; `None`: any.
    pub tag: Option<i32>,
}

/// One call of a program. Each is one operation of the rank's clock, except the last three, which
/// are no operations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Begins a send: [`Answer::Posted`].
    Isend {
        /// The receiver.
        to: Rank,
        /// Its tag.
        tag: i32,
        /// The bytes to send.
        payload: Vec<u8>,
        /// Whether the send completes when the message is matched.
        synchronous: bool,
    },
    /// Begins a receive: [`Answer::Posted`].
    Irecv {
        /// The messages to match.
        from: From,
        /// Size of the buffer, in bytes.
        room_bytes: usize,
    },
    /// Begins the receive of a message that a matched probe took, into a buffer of its length:
    /// [`Answer::Posted`].
    Imrecv(TakenNumber),
    /// Begins a collective: [`Answer::Posted`].
    Collective(Rc<Collective>),
    /// Blocks until the request is complete: [`Answer::Ended`] with one.
    Wait(RequestNumber),
    /// Tests the request: [`Answer::Ended`] with one or none.
    Test(RequestNumber),
    /// Blocks until one of the requests is complete: [`Answer::Ended`] with one.
    WaitAny(Vec<RequestNumber>),
    /// Tests the requests: [`Answer::Ended`] with one or none.
    TestAny(Vec<RequestNumber>),
    /// Blocks until one of the requests is complete: [`Answer::Ended`] with all complete ones.
    WaitSome(Vec<RequestNumber>),
    /// Tests the requests: [`Answer::Ended`] with all complete ones, or none.
    TestSome(Vec<RequestNumber>),
    /// Blocks until all requests are complete: [`Answer::Ended`] with all.
    WaitAll(Vec<RequestNumber>),
    /// Tests the requests: [`Answer::Ended`] with all, or none.
    TestAll(Vec<RequestNumber>),
    /// A blocking receive: [`Answer::Ended`] with one. It has a request number, like a post.
    Recv {
        /// The messages to match.
        from: From,
        /// Size of the buffer, in bytes.
        room_bytes: usize,
    },
    /// Blocks until a message matches: [`Answer::Found`] with one.
    Probe(From),
    /// Looks for a message: [`Answer::Found`] with one or none.
    Iprobe(From),
    /// Blocks until a message can be taken: [`Answer::Taken`] with one.
    Mprobe(From),
    /// Takes a message: [`Answer::Taken`] with one or none.
    Improbe(From),
    /// Cancels a receive, which must still be waited for: [`Answer::Done`].
    Cancel(RequestNumber),
    /// Asks for a number that would differ in another life, such as the time: [`Answer::Number`].
    Number {
        /// The series of the number, below 16.
        series: u8,
    },
    /// Asks for bytes that would differ in another life: [`Answer::Bytes`].
    Bytes {
        /// Number of bytes, 1 to 256.
        count: usize,
    },
    /// Prints a word, which is output once the gate allows it: [`Answer::Done`].
    Print(u64),
    /// Takes a checkpoint, while no request is open and no taken message waits for its receive.
    /// Returns once the checkpoint is stable: [`Answer::Done`].
    Checkpoint,
    /// The program has ended. Has no answer.
    Finish,
}

impl Call {
    /// Whether the call is an operation, which the clock counts.
    pub fn is_operation(&self) -> bool {
        !matches!(self, Self::Print(_) | Self::Checkpoint | Self::Finish)
    }
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ended {
    /// The request.
    pub request: RequestNumber,
    /// The collective that has ended, by its number in the plan; `None`: a message.
    pub collective: Option<u32>,
    /// Sender of the received message, or receiver of the sent one.
    pub peer: Rank,
    /// Its tag.
    pub tag: i32,
    /// Full length of the message.
    pub bytes: u64,
    /// Whether the request was cancelled: nothing was received.
    pub cancelled: bool,
    /// The received bytes, at most the size of the buffer; or the result of the collective.
    pub payload: Vec<u8>,
}

/// A message that a probe found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Found {
    /// Its sender.
    pub source: Rank,
    /// Its tag.
    pub tag: i32,
    /// Its length.
    pub bytes: u64,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// Starts the program; answers no call.
    Begin,
    /// The number of the request.
    Posted(RequestNumber),
    /// The requests that ended, in the order of the call's result.
    Ended(Vec<Ended>),
    /// The message that a probe found, if any.
    Found(Option<Found>),
    /// The message that a matched probe took, if any.
    Taken(Option<(TakenNumber, Found)>),
    /// A number.
    Number(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// No value.
    Done,
}
