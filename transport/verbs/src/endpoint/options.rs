//! Options of an endpoint.

/// Options for opening an [`super::Endpoint`].
#[derive(Debug, Clone)]
pub struct EndpointOptions {
    /// Most requests in all send queues together; fewer if the device's completion queue is too
    /// short.
    pub operations_max: usize,
    /// Most peers at a time. Each needs two entries in tables, and a queue pair of its own while it
    /// is connected.
    pub peers_max: usize,
    /// Most receives that can be posted at a time; fewer if the device has a lower limit.
    pub receives_max: usize,
    /// Longest message in bytes that is copied into its request (`inject`); less
    /// if the device has a lower limit.
    pub inject_bytes: usize,
    /// Any process that knows the address may connect, without being inserted.
    pub accepts_unknown: bool,
    /// The limits after which a peer counts as dead.
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

/// How long a device retries before it reports that a peer does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The time to wait for an answer: 4.096 µs · 2^`timeout`; `timeout` is at most 31.
    pub timeout: u8,
    /// Number of retries, at most 6: for soft-RoCE, 7 means no limit.
    pub count: u8,
    /// Number of retries while the peer has no receive posted; 7 means no limit, since a peer that
    /// computes for a long time is alive.
    pub receiver_count: u8,
    /// The time that a peer must wait before such a retry, as in `ibv_modify_qp(3)`
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
