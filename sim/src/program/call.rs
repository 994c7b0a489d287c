//! What a program asks of its rank, and the answers.

use refrain_ring::Rank;

/// A request of a program: posts are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestNumber(pub u32);

/// A message that a matched probe took: numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TakenNumber(pub u32);

/// Which messages are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct From {
    /// Its sender; `None`: any.
    pub source: Option<Rank>,
    /// Its tag; `None`: any.
    pub tag: Option<i32>,
}

/// One call of a program into its library. Each is one operation of the rank's
/// clock, but for the last three, which are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// Begins a send: [`Answer::Posted`].
    Isend {
        /// The receiver.
        to: Rank,
        /// Its tag.
        tag: i32,
        /// What.
        payload: Vec<u8>,
        /// Completes when it is matched.
        synchronous: bool,
    },
    /// Begins a receive: [`Answer::Posted`].
    Irecv {
        /// Of which messages.
        from: From,
        /// Bytes that there is room for.
        room_bytes: usize,
    },
    /// Begins the receive of a message that was taken, with room for all of it:
    /// [`Answer::Posted`].
    Imrecv(TakenNumber),
    /// Blocks until the request is complete: [`Answer::Ended`] with one.
    Wait(RequestNumber),
    /// [`Answer::Ended`] with one, or none.
    Test(RequestNumber),
    /// Blocks until one is complete: [`Answer::Ended`] with one.
    WaitAny(Vec<RequestNumber>),
    /// [`Answer::Ended`] with one, or none.
    TestAny(Vec<RequestNumber>),
    /// Blocks until one is complete: [`Answer::Ended`] with all that are.
    WaitSome(Vec<RequestNumber>),
    /// [`Answer::Ended`] with all that are complete, or none.
    TestSome(Vec<RequestNumber>),
    /// Blocks until all are complete: [`Answer::Ended`] with all.
    WaitAll(Vec<RequestNumber>),
    /// [`Answer::Ended`] with all, or none.
    TestAll(Vec<RequestNumber>),
    /// A blocking receive: [`Answer::Ended`] with one, whose number counts as
    /// those of posts.
    Recv {
        /// Of which messages.
        from: From,
        /// Bytes that there is room for.
        room_bytes: usize,
    },
    /// Blocks until there is a message: [`Answer::Found`] with one.
    Probe(From),
    /// [`Answer::Found`].
    Iprobe(From),
    /// Blocks until a message can be taken: [`Answer::Taken`] with one.
    Mprobe(From),
    /// [`Answer::Taken`].
    Improbe(From),
    /// Cancels a receive, which must be waited for all the same: [`Answer::Done`].
    Cancel(RequestNumber),
    /// Asks for a number that another life would not be given again, the time for
    /// instance: [`Answer::Number`].
    Number {
        /// What for, below 16.
        series: u8,
    },
    /// Asks for bytes that another life would not be given again: [`Answer::Bytes`].
    Bytes {
        /// How many, 1 to 256.
        count: usize,
    },
    /// Prints a word, which is output when the gate lets it out: [`Answer::Done`].
    Print(u64),
    /// A checkpoint; nothing is posted, taken or under way. Returns when it is
    /// stable: [`Answer::Done`].
    Checkpoint,
    /// The program is over. Not answered.
    Finish,
}

impl Call {
    /// Whether the clock counts it.
    pub fn is_operation(&self) -> bool {
        !matches!(self, Self::Print(_) | Self::Checkpoint | Self::Finish)
    }
}

/// The end of a request.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ended {
    /// Which.
    pub request: RequestNumber,
    /// Of a receive: whose message it got. Of a send: the receiver.
    pub peer: Rank,
    /// Its tag.
    pub tag: i32,
    /// Whole length of the message.
    pub bytes: u64,
    /// Nothing was received.
    pub cancelled: bool,
    /// Of a receive: what was received, at most as much as there was room for.
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

/// What a call came to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// To the program's first question.
    Begin,
    /// The number of the request.
    Posted(RequestNumber),
    /// Those that ended, in the order in which the call tells them.
    Ended(Vec<Ended>),
    /// The message that a probe found.
    Found(Option<Found>),
    /// The message that a matched probe took.
    Taken(Option<(TakenNumber, Found)>),
    /// A number.
    Number(i64),
    /// Bytes.
    Bytes(Vec<u8>),
    /// Nothing to tell.
    Done,
}
