//! The event logger: where determinants become stable (docs/protocol.md, EL-1
//! to EL-5). Empty today: it comes as a pure acceptor, a durable store, a
//! server and a client, between `logging` and `runtime`.
//!
//! Knows nothing of: ranks' programs.
