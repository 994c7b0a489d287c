//! Bugs to be planted: the known traps, each of which a published implementation
//! fell into, as far as what they are about is there. The real parts are
//! wrapped, never changed.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Planted {
    /// The gate never shuts.
    GateOpen,
    /// A path around the gate: matches of wildcards do not shut it.
    MatchesAroundGate,
    /// A path around the gate: (matched) probes do not shut it.
    ProbesAroundGate,
    /// A path around the gate: numbers from outside (the time) do not shut it.
    NumbersAroundGate,
    /// A path around the gate: output does not wait.
    OutputAroundGate,
    /// Numbers from outside are not recorded.
    NumberForgotten,
    /// Probes and tests that find nothing are not recorded.
    NothingForgotten,
    /// What found something is recorded as having found nothing.
    ProbeInverted,
    /// Of what a wait or test completed only the first is recorded.
    CompletionCut,
    /// Clocks are counted in 32 bits.
    ClockOf32Bits,
    /// A logger acknowledges when a batch has come, or was posted to its memory:
    /// before it is where it is to be. EL-1
    AckEarly,
    /// Batches of a fenced life are taken for those of the latest. FENCE-1
    LoggerFenceForgotten,
    /// A client takes an acknowledgement for one of all that it sent, whatever
    /// its fields say. GATE-3
    AckUnchecked,
    /// A client gives up batches before they are stable: a logger that lacks them when the
    /// client joins gets them from no replica. EL-3
    EventsFreedBeforeStable,
    /// Of a batch only the first determinant is given back. EL-5
    OnlyFirstKept,
    /// A reader of a ring does not look at checksums. EL-2
    TornAccepted,
    /// Everything up to the newest determinant is trimmed, instead of the
    /// generation before. GC-1
    TrimTooFar,
    /// A logger that is restarted does not look into the rings of its earlier process. EL-3
    RingsForgotten,
    /// A life that recovers also reads what a dead one wrote behind its beginning. EL-5
    TailRead,
    /// A logger looks into its rings before it asks its provider whether it may
    /// sleep, and not after that.
    LoggerSleepsOnWrites,
    /// What makes events stable waits behind what waits for them.
    CommitBehindGate,
    /// Peers do not fence a rank before its next life begins.
    NoFence,
    /// Frames of fenced lives are handed over all the same.
    FenceLeaks,
    /// Payload is given up when it was received, not checkpointed.
    FreedWhenReceived,
    /// Payload is given up for a checkpoint that is not stable yet.
    FreedBeforeStable,
    /// One generation of checkpoints is kept.
    OneGeneration,
    /// The log's disk says that it has written what it has not.
    DiskLies,
    /// The checkpoint store calls stable what it has not synced.
    CheckpointUnsynced,
    /// A later life says that it misses less than it does.
    RestartTooFar,
    /// A later life does not know what one receive from any source got.
    MatchDropped,
    /// A later life is given fresh numbers from outside during its replay.
    NumberFresh,
    /// A later life does not know of probes and tests that found nothing.
    NothingIgnored,
    /// A later life begins without the log of its checkpoint.
    LogLeftOut,
    /// A later life publishes the checkpoint that it begins with at once, as if
    /// there were no generation before it.
    HorizonEarly,
    /// A later life takes again what its checkpoint has delivered.
    DeliveredForgotten,
    /// A later life records the matches again that it replays.
    ReplayedRecorded,
    /// A later life posts again what its peers have.
    SuppressionLeftOut,
    /// A rank says that it misses what it has not begun to get, instead of what it
    /// has not got wholly. REC-7
    VoidForgotten,
    /// A later life does not know which receives were taken back.
    CancelForgotten,
    /// The receiver is not asked whether a synchronous send that is not sent again is
    /// matched.
    MatchNotAsked,
    /// A later life logs the bytes that its program makes now, where receivers have got
    /// others. REC-8
    FirstBytesForgotten,
    /// A later life does not compare what peers and logs have with what it has sent when
    /// its program sees the first event without a record. REC-9
    LossUnnoticed,
    /// A later life asks for all messages again.
    RestartFromStart,
    /// The same, and a message that comes again counts as the next one.
    DuplicateCounts,
    /// `Up` is lost on a rank that was not told of `Down`.
    UpWithoutDown,
    /// `Down` of an earlier life fences the present one.
    StaleDown,
    /// The gate of a later life never shuts.
    GateOpenLater,
    /// A later life does not know the last of its records.
    LastRecordLost,
    /// A checkpoint takes what has come for what was received.
    UnreceivedSaved,
    /// A checkpoint forgets that the last message of each rank was received.
    ReceivedForgotten,
}

/// What there is to say of a bug.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// The bug.
    pub planted: Planted,
    /// Its name on the command line.
    pub name: &'static str,
    /// Seeds within which it must be found.
    pub seeds: u64,
}

impl Planted {
    /// Those that seeds must find.
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
        known(Planted::RingsForgotten, "rings-forgotten", 500),
        known(
            Planted::LoggerSleepsOnWrites,
            "logger-sleeps-on-writes",
            100,
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
    ];

    /// What there is to say of it.
    pub fn known(self) -> Known {
        let mut all = Self::ALL.iter();
        let found = all.find(|known| known.planted == self);
        *found.expect("every bug is in the list")
    }
}

const fn known(planted: Planted, name: &'static str, seeds: u64) -> Known {
    Known {
        planted,
        name,
        seeds,
    }
}
