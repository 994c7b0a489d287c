//! What an endpoint has done, in numbers.

/// Counts since the endpoint was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Calls that handed requests to a send queue: each rings the device once.
    pub doorbells: u64,
    /// Requests that they handed over.
    pub work_requests: u64,
    /// Requests of these that were signalled: each brings a completion.
    pub signalled: u64,
    /// Signalled requests of this crate itself, which tell that those before them
    /// are over; among the above.
    pub markers: u64,
    /// Messages that were handed over with their bytes (`IBV_SEND_INLINE`).
    pub inline: u64,
    /// Receives that were posted.
    pub receives: u64,
    /// Calls that handed them over.
    pub receive_doorbells: u64,
    /// Completions that the device brought, of all kinds.
    pub completions: u64,
    /// Times that the device was asked to wake who sleeps.
    pub notifications: u64,
    /// Connections that were made, with those made again.
    pub connections: u64,
    /// Queue pairs that broke or that the peer replaced.
    pub replacements: u64,
    /// Received messages that were dropped, as their queue pair was given up.
    pub dropped: u64,
    /// Greetings that were sent.
    pub greetings_sent: u64,
    /// Greetings of peers that came.
    pub greetings_heard: u64,
    /// Datagrams that were no greetings, or greetings of others or for others.
    pub greetings_ignored: u64,
    /// Times that the device gave up the queue pair for greetings, and it was made
    /// ready again.
    pub greeting_restarts: u64,
    /// Times that a peer was silent though a greeting of it was expected.
    pub silences: u64,
    /// Asynchronous events of the device.
    pub events: u64,
    /// Those that told of a port that went down or came up.
    pub port_events: u64,
}
