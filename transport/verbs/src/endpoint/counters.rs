//! Counters of an endpoint.

/// Counts since the endpoint was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Calls that handed requests to a send queue: each rings the device once.
    pub doorbells: u64,
    /// Requests that they handed over.
    pub work_requests: u64,
    /// Requests of these that were signalled: each brings a completion.
    pub signalled: u64,
    /// Signalled requests of this crate itself, whose completions mean that those before
    /// them are over; included above.
    pub markers: u64,
    /// Messages that were handed over with their bytes (`IBV_SEND_INLINE`).
    pub inline: u64,
    /// Receives that were posted.
    pub receives: u64,
    /// Calls that handed them over.
    pub receive_doorbells: u64,
    /// Completions that the device brought, of all kinds.
    pub completions: u64,
    /// Requests to the device to wake this process.
    pub notifications: u64,
    /// Connections that were made, with those made again.
    pub connections: u64,
    /// Queue pairs that broke or that the peer replaced.
    pub replacements: u64,
    /// Received messages that were dropped, as their queue pair was stopped.
    pub dropped: u64,
    /// Greetings that were sent.
    pub greetings_sent: u64,
    /// Greetings of peers that arrived.
    pub greetings_heard: u64,
    /// Datagrams that were no greetings, or greetings of others or for others.
    pub greetings_ignored: u64,
    /// Restarts of the queue pair for greetings, after the device had stopped it.
    pub greeting_restarts: u64,
    /// Times that a peer was silent while a greeting of it was expected.
    pub silences: u64,
    /// Asynchronous events of the device.
    pub events: u64,
    /// Those about a port that went down or came up.
    pub port_events: u64,
}
