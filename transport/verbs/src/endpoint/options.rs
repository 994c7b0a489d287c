//! How an endpoint is opened.

/// How an [`super::Endpoint`] is opened.
#[derive(Debug, Clone)]
pub struct EndpointOptions {
    /// Requests in all send queues together, at most; fewer where the device's
    /// completion queue is too short.
    pub operations_max: usize,
    /// Peers at the same time. Each has two entries in tables, and a queue pair of
    /// its own while it is connected.
    pub peers_max: usize,
    /// Receives that can be posted at the same time; fewer where the device cannot.
    pub receives_max: usize,
    /// Bytes of messages that are to go into requests themselves
    /// ([`super::Endpoint::inject`]); fewer where the device cannot.
    pub inject_bytes: usize,
    /// Any process that knows the address may connect, inserted or not.
    pub accepts_unknown: bool,
    /// When a peer counts as dead.
    pub retry: Retry,
}

impl Default for EndpointOptions {
    fn default() -> Self {
        Self {
            operations_max: 4096,
            peers_max: 64,
            receives_max: 1024,
            inject_bytes: 220,
            accepts_unknown: false,
            retry: Retry::default(),
        }
    }
}

/// How long a device tries before it reports that a peer does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// How long it waits for an answer: 4.096 µs · 2^`timeout`, at most 31.
    pub timeout: u8,
    /// How often it tries again, at most 6: soft-RoCE takes 7 for "for ever".
    pub count: u8,
    /// How often it tries again when the peer has no receive posted; 7 is for ever:
    /// a peer that computes for a long time is not gone.
    pub receiver_count: u8,
    /// How long a peer is to wait then, as `ibv_modify_qp(3)` counts
    /// (`min_rnr_timer`): 12 is 0.64 ms.
    pub receiver_timer: u8,
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            timeout: 14,
            count: 6,
            receiver_count: 7,
            receiver_timer: 12,
        }
    }
}
