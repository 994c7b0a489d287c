//! Counters of an endpoint.

/// Counts since the endpoint was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Calls that posted requests to a send queue: each rings the device's doorbell once.
    pub doorbells: u64,
    /// Requests posted by these calls.
    pub work_requests: u64,
    /// Signalled requests among them: each produces a completion.
    pub signalled: u64,
    /// Signalled requests of this crate itself, whose completions mean that all requests before
    /// them have ended; included above.
    pub markers: u64,
    /// Messages whose bytes were copied into the request (`IBV_SEND_INLINE`).
    pub inline: u64,
    /// Receives that were posted.
    pub receives: u64,
    /// Calls that posted receives.
    pub receive_doorbells: u64,
    /// Completions of all kinds.
    pub completions: u64,
    /// Requests to the device to wake this process.
    pub notifications: u64,
    /// Connections that were established, including replacements.
    pub connections: u64,
    /// Queue pairs that broke or that the peer replaced.
    pub replacements: u64,
    /// Received messages that were dropped because their queue pair was stopped.
    pub dropped: u64,
    /// Greetings that were sent.
    pub greetings_sent: u64,
    /// Greetings of peers that were received.
    pub greetings_heard: u64,
    /// Datagrams that were no greetings, or greetings of unknown senders or to others.
    pub greetings_ignored: u64,
    /// Restarts of the queue pair for greetings, after the device had stopped it.
    pub greeting_restarts: u64,
    /// Number of times that a peer was silent while a greeting was expected.
    pub silences: u64,
    /// Asynchronous events of the device.
    pub events: u64,
    /// Asynchronous events of a port that went down or came up.
    pub port_events: u64,
}
