//! Bugs that can be planted: the known traps that published implementations have fallen into, where
//! the concerned mechanism exists here. They wrap the real parts and never change them.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Planted {
    /// The gate never closes.
    GateOpen,
    /// A path around the gate: matches of wildcards do not close it.
    MatchesAroundGate,
    /// A path around the gate: (matched) probes do not close it.
    ProbesAroundGate,
    /// A path around the gate: numbers from outside (the time) do not close it.
    NumbersAroundGate,
    /// A path around the gate: output does not wait.
    OutputAroundGate,
    /// Numbers from outside are not recorded.
    NumberForgotten,
    /// Probes and tests that find nothing are not recorded.
    NothingForgotten,
    /// A probe or test that found something is recorded as having found nothing.
    ProbeInverted,
    /// Of the requests that a wait or test completed, only the first is recorded.
    CompletionCut,
    /// Clocks are cut to 32 bits.
    ClockOf32Bits,
    /// A logger acknowledges a batch on its arrival or on its post to the logger's memory, before
    /// the batch is placed or durable as configured. EL-1
    AckEarly,
    /// A logger takes batches of a fenced life as batches of the latest one. FENCE-1
    LoggerFenceForgotten,
    /// A client takes any acknowledgement as one for everything that it sent, without checking its
    /// fields. GATE-3
    AckUnchecked,
    /// A client drops batches before they are stable: a logger that lacks them when the client
    /// joins gets them from no replica. EL-3
    EventsFreedBeforeStable,
    /// Only the first determinant of a batch is returned. EL-5
    OnlyFirstKept,
    /// A reader of a ring does not verify checksums. EL-2
    TornAccepted,
    /// Loggers trim up to the newest determinant instead of the previous checkpoint generation.
    /// GC-1
    TrimTooFar,
    /// A restarted logger does not read the rings of its earlier process. EL-3
    RingsForgotten,
    /// A recovering life also reads determinants that a dead life wrote after the recovering life's
    /// beginning. EL-5
    TailRead,
    /// A logger reads its rings before it asks its provider whether it may sleep, but not again
    /// afterwards.
    LoggerSleepsOnWrites,
    /// Commits queue behind the sends that wait for them.
    CommitBehindGate,
    /// Peers do not fence a rank before its next life begins.
    NoFence,
    /// Frames of fenced lives are still delivered.
    FenceLeaks,
    /// Payload is freed once it is received, not once a checkpoint covers it.
    FreedWhenReceived,
    /// Payload is freed for a checkpoint that is not stable yet.
    FreedBeforeStable,
    /// Only one generation of checkpoints is kept.
    OneGeneration,
    /// The log's disk reports writes that it has not done.
    DiskLies,
    /// The checkpoint store reports checkpoints as stable that it has not synced.
    CheckpointUnsynced,
    /// A later life asks for fewer messages than it lacks.
    RestartTooFar,
    /// A later life does not know the match of one receive from any source.
    MatchDropped,
    /// A later life gets new numbers from outside during its replay.
    NumberFresh,
    /// A later life does not know of probes and tests that found nothing.
    NothingIgnored,
    /// A later life begins without the payload log of its checkpoint.
    LogLeftOut,
    /// A later life publishes the horizons of its own checkpoint at once, as if the checkpoint had
    /// no generation before it.
    HorizonEarly,
    /// A later life takes messages again that its checkpoint has delivered.
    DeliveredForgotten,
    /// A later life records replayed matches again.
    ReplayedRecorded,
    /// A later life transmits messages again that its peers have.
    SuppressionLeftOut,
    /// A later life does not ask for messages that it has in part. REC-7
    VoidForgotten,
    /// A later life does not know which receives were cancelled.
    CancelForgotten,
    /// A later life does not ask the receiver whether a suppressed synchronous send is matched.
    MatchNotAsked,
    /// A later life logs the bytes that its program makes now, where receivers have got other
    /// bytes. REC-8
    FirstBytesForgotten,
    /// When its program sees the first event without a record, a later life does not compare what
    /// peers and logs have with what it has sent. REC-9
    LossUnnoticed,
    /// Steps of collectives count as operations of the clock. STREAM-4
    StepsTick,
    /// Messages of a collective are matched without its number. COLL-2
    CollectiveNumberForgotten,
    /// An operation gives its stream back when its last step ends, not when the program sees its
    /// end. STREAM-2
    StreamBackEarly,
    /// The algorithm of a collective depends on what has arrived. COLL-1
    AlgorithmByArrival,
    /// The order of a reduction's operands depends on what has arrived. COLL-1
    OperandsByArrival,
    /// A later life has forgotten which contexts it has given to groups. COLL-3
    ContextsAnew,
    /// A later life counts the collectives of its groups anew. COLL-3
    CollectivesCountedAnew,
    /// A later life begins without what its checkpoint knows of results that are kept. WHOLE-2
    ResultsForgotten,
    /// Members tell that they have finished more collectives than they have. WHOLE-3
    FinishedEarly,
    /// A later life asks for all messages again.
    RestartFromStart,
    /// As [`Planted::RestartFromStart`], and a message that arrives again counts as the next one.
    DuplicateCounts,
    /// A rank that has not handled `Down` ignores `Up`.
    UpWithoutDown,
    /// `Down` of an earlier life fences the present one.
    StaleDown,
    /// The gate of a later life never closes.
    GateOpenLater,
    /// A batch counts as stable with one holder, where several deaths at once are to be survived. TICKET-1
    HeldByOne,
    /// The holder of a batch may be of the set of its owner. TICKET-1
    HeldInSet,
    /// A rank does not give away again what a dead rank held of it. TICKET-4
    HoldersForgotten,
    /// A later life numbers its determinants as its earlier life did. TICKET-3
    TicketsReused,
    /// What was carried to one rank is not carried to others. CAUSAL-1
    CarriedOnce,
    /// A rank takes the events off messages, confirms them, and does not keep them. CAUSAL-2
    CarriedForgotten,
    /// What is carried to a later life is written against what its earlier life got. CAUSAL-1
    CoderKept,
    /// A later life does not read what its earlier lives carried in their logs. CAUSAL-4
    OwnCarriersForgotten,
    /// A later life takes only what loggers have, and not what ranks hold behind it. CAUSAL-5
    HoldersLeftOut,
    /// A member of a set takes its checkpoint before the others keep their messages. SET-2
    TokensNotAwaited,
    /// A member of a set tells the others that it keeps its messages, and does not. SET-2
    TokenWithoutKeeping,
    /// A checkpoint leaves out messages of members that had arrived. SET-3
    ArrivedNotSaved,
    /// A member publishes its checkpoint before all members have theirs. SET-4
    RoundPublishedEarly,
    /// Each member goes back to its own newest checkpoint. SET-4
    NewestOfEach,
    /// The others of a dead rank's set go on. SET-4
    SetLeftBehind,
    /// A later life does not know its last record.
    LastRecordLost,
    /// A checkpoint counts arrived messages as received.
    UnreceivedSaved,
    /// A checkpoint omits that the last message of each rank was received.
    ReceivedForgotten,
}

/// Name and search budget of a bug.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The bug.
    pub planted: Planted,
    /// Its name on the command line.
    pub name: &'static str,
    /// Number of seeds within which the bug must be found.
    pub seeds: u64,
}

impl Planted {
    /// The bugs that a campaign of seeds must find.
    pub const ALL: &'static [Known] = &[
        known(Planted::GateOpen, "gate-open", 20),
        known(Planted::MatchesAroundGate, "matches-around-gate", 20),
        known(Planted::ProbesAroundGate, "probes-around-gate", 20),
        known(Planted::NumbersAroundGate, "numbers-around-gate", 50),
        known(Planted::OutputAroundGate, "output-around-gate", 50),
        known(Planted::NumberForgotten, "number-forgotten", 50),
        known(Planted::NothingForgotten, "nothing-forgotten", 50),
        known(Planted::ProbeInverted, "probe-inverted", 50),
        known(Planted::CompletionCut, "completion-cut", 50),
        known(Planted::ClockOf32Bits, "clock-of-32-bits", 100),
        known(Planted::OnlyFirstKept, "first-of-batch", 50),
        known(Planted::AckEarly, "ack-early", 100),
        known(Planted::LoggerFenceForgotten, "logger-fence-forgotten", 300),
        known(Planted::AckUnchecked, "ack-unchecked", 100),
        known(
            Planted::EventsFreedBeforeStable,
            "events-freed-before-stable",
            300,
        ),
        known(Planted::TornAccepted, "torn-accepted", 1000),
        known(Planted::TrimTooFar, "trim-too-far", 400),
        known(Planted::RingsForgotten, "rings-forgotten", 2000),
        known(
            Planted::LoggerSleepsOnWrites,
            "logger-sleeps-on-writes",
            500,
        ),
        known(Planted::CommitBehindGate, "commit-behind-gate", 20),
        known(Planted::NoFence, "no-fence", 100),
        known(Planted::FenceLeaks, "fence-leaks", 100),
        known(Planted::FreedWhenReceived, "freed-when-received", 50),
        known(Planted::FreedBeforeStable, "freed-before-stable", 50),
        known(Planted::OneGeneration, "one-generation", 50),
        known(Planted::DiskLies, "disk-lies", 100),
        known(Planted::CheckpointUnsynced, "checkpoint-unsynced", 500),
        known(Planted::RestartTooFar, "restart-too-far", 50),
        known(Planted::MatchDropped, "match-dropped", 50),
        known(Planted::NumberFresh, "number-fresh", 50),
        known(Planted::NothingIgnored, "nothing-ignored", 50),
        known(Planted::LogLeftOut, "log-left-out", 100),
        known(Planted::HorizonEarly, "horizon-early", 100),
        known(Planted::DeliveredForgotten, "delivered-forgotten", 50),
        known(Planted::ReplayedRecorded, "replayed-recorded", 100),
        known(Planted::SuppressionLeftOut, "suppression-left-out", 50),
        known(Planted::VoidForgotten, "void-forgotten", 200),
        known(Planted::CancelForgotten, "cancel-forgotten", 100),
        known(Planted::MatchNotAsked, "match-not-asked", 200),
        known(Planted::FirstBytesForgotten, "first-bytes-forgotten", 100),
        known(Planted::LossUnnoticed, "loss-unnoticed", 200),
        known(Planted::StepsTick, "steps-tick", 50),
        known(
            Planted::CollectiveNumberForgotten,
            "collective-number-forgotten",
            50,
        ),
        known(Planted::StreamBackEarly, "stream-back-early", 50),
        known(Planted::AlgorithmByArrival, "algorithm-by-arrival", 50),
        known(Planted::OperandsByArrival, "operands-by-arrival", 50),
        known(Planted::ContextsAnew, "contexts-anew", 300),
        known(
            Planted::CollectivesCountedAnew,
            "collectives-counted-anew",
            200,
        ),
        known(Planted::ResultsForgotten, "results-forgotten", 1000),
        known(Planted::FinishedEarly, "finished-early", 500),
        known(Planted::HeldByOne, "held-by-one", 4000),
        known(Planted::HeldInSet, "held-in-set", 4000),
        known(Planted::HoldersForgotten, "holders-forgotten", 4000),
        known(Planted::TicketsReused, "tickets-reused", 200),
        known(Planted::CarriedOnce, "carried-once", 100),
        known(Planted::CarriedForgotten, "carried-forgotten", 100),
        known(Planted::CoderKept, "coder-kept", 300),
        known(
            Planted::OwnCarriersForgotten,
            "own-carriers-forgotten",
            1000,
        ),
        known(Planted::HoldersLeftOut, "holders-left-out", 300),
        known(Planted::TokensNotAwaited, "tokens-not-awaited", 2000),
        known(Planted::TokenWithoutKeeping, "token-without-keeping", 2000),
        known(Planted::ArrivedNotSaved, "arrived-not-saved", 2000),
        known(Planted::RoundPublishedEarly, "round-published-early", 2000),
        known(Planted::NewestOfEach, "newest-of-each", 2000),
        known(Planted::SetLeftBehind, "set-left-behind", 1000),
    ];

    /// The bug's entry in [`Planted::ALL`].
    pub fn known(self) -> Known {
        let mut all = Self::ALL.iter();
        let found = all.find(|known| known.planted == self);
        *found.expect("every bug is in the list")
    }
}

impl Planted {
    /// Whether the bug is one of events that messages carry: then all jobs carry them.
    pub fn needs_carriers(self) -> bool {
        self.needs_loggers_beside()
            || matches!(
                self,
                Self::CarriedOnce
                    | Self::CarriedForgotten
                    | Self::CoderKept
                    | Self::OwnCarriersForgotten
            )
    }

    /// Whether the bug is one of event loggers beside ranks that hold events: then all jobs have them.
    pub fn needs_loggers_beside(self) -> bool {
        self == Self::HoldersLeftOut
    }

    /// Whether the bug is one of correlated sets: then all jobs have them.
    pub fn needs_sets(self) -> bool {
        matches!(
            self,
            Self::TokensNotAwaited
                | Self::TokenWithoutKeeping
                | Self::ArrivedNotSaved
                | Self::RoundPublishedEarly
                | Self::NewestOfEach
                | Self::SetLeftBehind
        )
    }

    /// Whether the bug is one of whole collectives: then all jobs have them.
    pub fn needs_whole_collectives(self) -> bool {
        matches!(self, Self::ResultsForgotten | Self::FinishedEarly)
    }
}

const fn known(planted: Planted, name: &'static str, seeds: u64) -> Known {
    Known {
        planted,
        name,
        seeds,
    }
}
