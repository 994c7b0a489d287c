//! Bugs to be planted: each of those that published implementations had
//! (docs/protocol.md, known traps), as far as what it is about is there. The
//! real parts are wrapped, never changed.

/// A bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Planted {
    /// The gate never shuts.
    GateOpen,
}
