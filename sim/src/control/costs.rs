//! What things take. Assumptions, stated here and in the documents.

/// Times in nanoseconds, lengths in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Time of a frame between two hosts: TCP in a data centre.
    pub latency_ns: u64,
    /// Time of the sender and of the receiver for a frame: a system call, and the seal.
    pub frame_ns: u64,
    /// Time for one message in a frame: decoding, deciding, encoding.
    pub message_ns: u64,
    /// Time for a byte of a frame at each of both: 1 GB/s.
    pub byte_ns: u64,
    /// Time of an agent to start one process.
    pub spawn_ns: u64,
    /// Time from there until the process has joined.
    pub join_ns: u64,
    /// Memory of a connection to an agent or a rank: its buffers.
    pub connection_bytes: u64,
    /// Memory for a rank in the process that starts it, or decides for it.
    pub rank_bytes: u64,
    /// Memory for one introduced peer of one rank.
    pub peer_bytes: u64,
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            latency_ns: 20_000,
            frame_ns: 5_000,
            message_ns: 1_000,
            byte_ns: 1,
            spawn_ns: 1_000_000,
            join_ns: 10_000_000,
            connection_bytes: 16 << 10,
            rank_bytes: 1024,
            peer_bytes: 8,
        }
    }
}
