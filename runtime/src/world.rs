//! STUB of the public API, replaced soon by the engine's owner: signatures are final, bodies are not.
#![allow(unused_variables, missing_docs, reason = "stub")]
use crate::Error;
use core::marker::PhantomData;
use refrain_ring::Rank;
use refrain_transport::layout::Layout;

/// Where a message goes: made by [`to`].
#[derive(Clone, Copy, Debug)]
pub struct Destination {
    pub rank: Rank,
    pub tag: i32,
    pub context: u32,
}
/// Where a message may come from: made by [`from`] and [`from_any`]. Tag `None` is any tag.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub rank: Option<Rank>,
    pub tag: Option<i32>,
    pub context: u32,
}
/// To `rank`, tag 0, context 0.
pub fn to(rank: u32) -> Destination {
    Destination {
        rank: Rank(rank),
        tag: 0,
        context: 0,
    }
}
/// From `rank`, tag 0, context 0.
pub fn from(rank: u32) -> Source {
    Source {
        rank: Some(Rank(rank)),
        tag: Some(0),
        context: 0,
    }
}
/// From any rank, tag 0, context 0.
pub fn from_any() -> Source {
    Source {
        rank: None,
        tag: Some(0),
        context: 0,
    }
}
impl Destination {
    pub fn tag(mut self, tag: i32) -> Self {
        self.tag = tag;
        self
    }
    pub fn context(mut self, context: u32) -> Self {
        self.context = context;
        self
    }
}
impl Source {
    pub fn tag(mut self, tag: i32) -> Self {
        self.tag = Some(tag);
        self
    }
    pub fn any_tag(mut self) -> Self {
        self.tag = None;
        self
    }
    pub fn context(mut self, context: u32) -> Self {
        self.context = context;
        self
    }
}

/// What is known of a received or probed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub source: Rank,
    pub tag: i32,
    pub bytes: u64,
    pub cancelled: bool,
}

/// Data to send: bytes, or bytes picked by a layout. `From<&[u8]>`, `From<&[u8; N]>`, `From<&Vec<u8>>`.
pub struct Outgoing<'a>(PhantomData<&'a [u8]>);
impl<'a> Outgoing<'a> {
    pub fn with_layout(data: &'a [u8], layout: &'a Layout) -> Result<Self, Error> {
        unimplemented!()
    }
}
impl<'a> From<&'a [u8]> for Outgoing<'a> {
    fn from(data: &'a [u8]) -> Self {
        unimplemented!()
    }
}
impl<'a> From<&'a Vec<u8>> for Outgoing<'a> {
    fn from(data: &'a Vec<u8>) -> Self {
        unimplemented!()
    }
}
impl<'a, const N: usize> From<&'a [u8; N]> for Outgoing<'a> {
    fn from(data: &'a [u8; N]) -> Self {
        unimplemented!()
    }
}
/// Room to receive into: bytes, or bytes picked by a layout.
pub struct Incoming<'a>(PhantomData<&'a mut [u8]>);
impl<'a> Incoming<'a> {
    pub fn with_layout(room: &'a mut [u8], layout: &'a Layout) -> Result<Self, Error> {
        unimplemented!()
    }
}
impl<'a> From<&'a mut [u8]> for Incoming<'a> {
    fn from(data: &'a mut [u8]) -> Self {
        unimplemented!()
    }
}
impl<'a> From<&'a mut Vec<u8>> for Incoming<'a> {
    fn from(data: &'a mut Vec<u8>) -> Self {
        unimplemented!()
    }
}
impl<'a, const N: usize> From<&'a mut [u8; N]> for Incoming<'a> {
    fn from(data: &'a mut [u8; N]) -> Self {
        unimplemented!()
    }
}

/// A message taken out of the queue by a matched probe; must be received.
pub struct Message {
    pub status: Status,
}

/// A request of a [`Scope`]. Null once completed (persistent ones: inactive).
#[derive(Debug)]
pub struct Request {
    _p: (),
}
impl Request {
    pub fn null() -> Self {
        unimplemented!()
    }
    /// Null or inactive: nothing to wait for.
    pub fn is_null(&self) -> bool {
        unimplemented!()
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Statistics {
    pub messages_sent: u64,
    pub bytes_sent: u64,
    pub messages_received: u64,
    pub bytes_received: u64,
    pub unexpected: u64,
    pub rendezvous: u64,
    pub log_bytes: u64,
    pub log_bytes_max: u64,
    pub events: u64,
}

/// A rank's view of its job. Not for concurrent callers: all operations take `&mut self`.
pub struct World {
    _p: PhantomData<*const ()>,
}
impl World {
    pub fn init() -> Result<Self, Error> {
        unimplemented!()
    }
    pub fn rank(&self) -> Rank {
        unimplemented!()
    }
    pub fn size(&self) -> u32 {
        unimplemented!()
    }
    /// Name of the fabric and of the protocol in use.
    pub fn fabric(&self) -> &str {
        unimplemented!()
    }
    pub fn protocol(&self) -> &str {
        unimplemented!()
    }
    pub fn send<'a>(
        &mut self,
        data: impl Into<Outgoing<'a>>,
        to: Destination,
    ) -> Result<(), Error> {
        unimplemented!()
    }
    pub fn ssend<'a>(
        &mut self,
        data: impl Into<Outgoing<'a>>,
        to: Destination,
    ) -> Result<(), Error> {
        unimplemented!()
    }
    pub fn recv<'a>(
        &mut self,
        buffer: impl Into<Incoming<'a>>,
        from: Source,
    ) -> Result<Status, Error> {
        unimplemented!()
    }
    pub fn sendrecv<'a, 'b>(
        &mut self,
        data: impl Into<Outgoing<'a>>,
        to: Destination,
        buffer: impl Into<Incoming<'b>>,
        from: Source,
    ) -> Result<Status, Error> {
        unimplemented!()
    }
    pub fn probe(&mut self, from: Source) -> Result<Status, Error> {
        unimplemented!()
    }
    pub fn iprobe(&mut self, from: Source) -> Result<Option<Status>, Error> {
        unimplemented!()
    }
    pub fn mprobe(&mut self, from: Source) -> Result<Message, Error> {
        unimplemented!()
    }
    pub fn improbe(&mut self, from: Source) -> Result<Option<Message>, Error> {
        unimplemented!()
    }
    pub fn mrecv<'a>(
        &mut self,
        buffer: impl Into<Incoming<'a>>,
        message: Message,
    ) -> Result<Status, Error> {
        unimplemented!()
    }
    /// Runs `f` with a scope in which requests may borrow buffers; returns when all of them are complete (receives still pending when `f` returns an error are cancelled).
    pub fn scope<'env, R>(
        &mut self,
        f: impl FnOnce(&mut Scope<'_, 'env>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        unimplemented!()
    }
    /// Waits through the launcher until every rank is here. Slow; not for inner loops.
    pub fn fence(&mut self) -> Result<(), Error> {
        unimplemented!()
    }
    /// States that everything delivered so far lies before a stable checkpoint: senders free its log entries (LOG-4).
    pub fn publish_horizon(&mut self) -> Result<(), Error> {
        unimplemented!()
    }
    pub fn statistics(&self) -> Statistics {
        unimplemented!()
    }
    /// Leaves the job in order: waits until all that was sent is taken, then says goodbye.
    pub fn finalize(self) -> Result<(), Error> {
        unimplemented!()
    }
}

/// Non-blocking operations whose buffers live as long as `'env`. The scope derefs to nothing: blocking calls are offered here too under the same names.
pub struct Scope<'s, 'env> {
    _p: PhantomData<(&'s mut World, core::cell::Cell<&'env mut ()>)>,
}
impl<'s, 'env> Scope<'s, 'env> {
    pub fn world(&mut self) -> &mut World {
        unimplemented!()
    }
    pub fn isend(
        &mut self,
        data: impl Into<Outgoing<'env>>,
        to: Destination,
    ) -> Result<Request, Error> {
        unimplemented!()
    }
    pub fn issend(
        &mut self,
        data: impl Into<Outgoing<'env>>,
        to: Destination,
    ) -> Result<Request, Error> {
        unimplemented!()
    }
    pub fn irecv(
        &mut self,
        buffer: impl Into<Incoming<'env>>,
        from: Source,
    ) -> Result<Request, Error> {
        unimplemented!()
    }
    pub fn imrecv(
        &mut self,
        buffer: impl Into<Incoming<'env>>,
        message: Message,
    ) -> Result<Request, Error> {
        unimplemented!()
    }
    pub fn send_init(
        &mut self,
        data: impl Into<Outgoing<'env>>,
        to: Destination,
    ) -> Result<Request, Error> {
        unimplemented!()
    }
    pub fn ssend_init(
        &mut self,
        data: impl Into<Outgoing<'env>>,
        to: Destination,
    ) -> Result<Request, Error> {
        unimplemented!()
    }
    pub fn recv_init(
        &mut self,
        buffer: impl Into<Incoming<'env>>,
        from: Source,
    ) -> Result<Request, Error> {
        unimplemented!()
    }
    pub fn start(&mut self, request: &mut Request) -> Result<(), Error> {
        unimplemented!()
    }
    /// Cancels a receive if it has not matched; it still must be waited for (its status says).
    pub fn cancel(&mut self, request: &mut Request) -> Result<(), Error> {
        unimplemented!()
    }
    pub fn wait(&mut self, request: &mut Request) -> Result<Status, Error> {
        unimplemented!()
    }
    pub fn test(&mut self, request: &mut Request) -> Result<Option<Status>, Error> {
        unimplemented!()
    }
    /// `None`: all null.
    pub fn wait_any(&mut self, requests: &mut [Request]) -> Result<Option<(usize, Status)>, Error> {
        unimplemented!()
    }
    /// `Ok(None)`: nothing complete yet, or all null.
    pub fn test_any(&mut self, requests: &mut [Request]) -> Result<Option<(usize, Status)>, Error> {
        unimplemented!()
    }
    /// At least one, unless all are null.
    pub fn wait_some(&mut self, requests: &mut [Request]) -> Result<Vec<(usize, Status)>, Error> {
        unimplemented!()
    }
    pub fn test_some(&mut self, requests: &mut [Request]) -> Result<Vec<(usize, Status)>, Error> {
        unimplemented!()
    }
    /// Statuses in the order of the requests (null ones: an empty status from this rank).
    pub fn wait_all(&mut self, requests: &mut [Request]) -> Result<Vec<Status>, Error> {
        unimplemented!()
    }
    /// All or nothing.
    pub fn test_all(&mut self, requests: &mut [Request]) -> Result<Option<Vec<Status>>, Error> {
        unimplemented!()
    }
}
