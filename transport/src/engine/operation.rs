//! Internal operations, such as a collective that does not block. Progress issues their steps by
//! itself, at other times in each life.
//!
//! An operation begins and ends with calls of the program. Its steps between them are sent on a
//! stream of its own, are not counted and make no events: in another life they follow from the call
//! that began the operation. STREAM-1 to STREAM-6, docs/design/internal-operations.md

use super::buffer::{ReceiveBuffer, SendBuffer};
use super::request::{Outcome, RequestId, RequestKind, RequestState, Status};
use super::{Engine, EngineError, SendTo, Started};
use crate::matching::{Envelope, Pattern};
use crate::protocol::Protocol;
use refrain_ring::{Clock, Stream};

/// An operation in progress, for the executor of its steps.
#[derive(Debug)]
pub struct InternalOperation {
    request: Option<RequestId>,
    stream: Stream,
    begun_at: Clock,
}

impl InternalOperation {
    /// Its request, for which the program waits. The request's id in events is the clock at which
    /// the operation began. `None`: the call that began it [returns at its
    /// end](Engine::begin_awaited).
    #[inline]
    pub fn request(&self) -> Option<RequestId> {
        self.request
    }

    /// Its stream.
    #[inline]
    pub fn stream(&self) -> Stream {
        self.stream
    }

    pub(super) fn begun_at(&self) -> Clock {
        self.begun_at
    }
}

/// The streams that have an operation.
#[derive(Debug, Default)]
pub(super) struct Operations {
    /// By stream, from [`Stream::FIRST_OPERATION`] on: the clock at which its operation began.
    begun_at: Vec<Option<Clock>>,
    open: usize,
}

impl Operations {
    #[inline]
    pub fn is_any_open(&self) -> bool {
        self.open > 0
    }

    /// Streams of operations whose end the program has not seen.
    pub fn open_streams(&self) -> impl Iterator<Item = Stream> {
        let streams = (Stream::FIRST_OPERATION.0..)
            .map(Stream)
            .zip(&self.begun_at);
        streams.filter_map(|(stream, begun_at)| begun_at.map(|_| stream))
    }

    /// Clock at the beginning of the oldest operation that is open.
    pub fn oldest(&self) -> Option<Clock> {
        self.begun_at.iter().copied().flatten().min()
    }

    /// Takes the lowest stream that is free: the same in each life. STREAM-2
    fn take(&mut self, clock: Clock) -> Option<Stream> {
        let free = self.begun_at.iter().position(Option::is_none);
        let index = free.unwrap_or(self.begun_at.len());
        let stream = Stream(
            u16::try_from(index)
                .ok()?
                .checked_add(Stream::FIRST_OPERATION.0)?,
        );
        if stream > Stream::MAX {
            return None;
        }
        match free {
            Some(index) => self.begun_at[index] = Some(clock),
            None => self.begun_at.push(Some(clock)),
        }
        self.open += 1;
        Some(stream)
    }

    fn give_back(&mut self, stream: Stream) {
        let index = stream.0 - Stream::FIRST_OPERATION.0;
        let begun_at = self.begun_at[usize::from(index)].take();
        self.open -= usize::from(begun_at.is_some());
    }
}

impl<P: Protocol> Engine<P> {
    /// Begins an internal operation, as one operation of the clock. The program waits for [its
    /// request](InternalOperation::request), as for that of a send. The call that reports its end
    /// [retires](Engine::retire) the request, and the stream is free again. STREAM-2
    ///
    /// # Errors
    /// When every stream has an open operation.
    pub fn begin_internal(&mut self) -> Result<(InternalOperation, RequestId), EngineError> {
        let mut operation = self.begin_awaited()?;
        let kind = RequestKind::Operation(operation.stream);
        let state = || RequestState::Operating;
        let id = self.requests.next_id();
        self.requests.add(id, operation.begun_at, kind, state);
        operation.request = Some(id);
        Ok((operation, id))
    }

    /// Begins an internal operation in a call that returns when it is complete. It needs no request:
    /// its end is the end of the call, and [finishing](Engine::finish_internal) it frees its
    /// stream. Else as [`Engine::begin_internal`]. STREAM-2
    ///
    /// # Errors
    /// As [`Engine::begin_internal`].
    #[inline]
    pub fn begin_awaited(&mut self) -> Result<InternalOperation, EngineError> {
        let begun_at = self.tick();
        let Some(stream) = self.operations.take(begun_at) else {
            let open = self.operations.open;
            return Err(EngineError::NoStream { open });
        };
        Ok(InternalOperation {
            request: None,
            stream,
            begun_at,
        })
    }

    /// Begins a send of an operation. It is not an operation of the clock: its SSN is the next one
    /// of the stream, so the operation issues its sends to each rank in one order in all lives. It
    /// passes the gate as every emission. STREAM-3, GATE-1
    ///
    /// # Errors
    /// As [`Engine::start_send`].
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn send_internal(
        &mut self,
        operation: &InternalOperation,
        mut buffer: SendBuffer,
        to: SendTo,
    ) -> Result<Started, EngineError> {
        let InternalOperation {
            stream, begun_at, ..
        } = *operation;
        if self.plays_again {
            self.send_again(begun_at, stream, &mut buffer, to)?;
        }
        self.note_operation(operation, to.rank);
        self.send_on(stream, begun_at, buffer, to)
    }

    /// Begins a receive of an operation: of the next internal message with exactly this envelope.
    /// It is not an operation of the clock, and makes no event with any protocol: the match follows
    /// from the order of the source's stream, provided that no other operation in progress there
    /// sends messages with this envelope. STREAM-4
    ///
    /// # Panics
    /// When the job has no such rank.
    pub fn receive_internal(
        &mut self,
        operation: &InternalOperation,
        buffer: ReceiveBuffer,
        from: Envelope,
    ) -> RequestId {
        let (clock, kind) = (operation.begun_at, RequestKind::Step);
        let id = self.add_receiving(clock, kind, buffer, false, false);
        match self.inbox.internal.take_or_post(&Pattern::from(from), id) {
            Ok(index) => self.deliver(index, id),
            Err(posted) => self.note_posted(id, posted),
        }
        id
    }

    /// Receives an internal message, as [`Engine::receive_internal`], if all of it has arrived and
    /// its sender waits for no answer. There is no request then.
    #[inline]
    pub fn receive_arrived(&mut self, room: &ReceiveBuffer, from: Envelope) -> Option<Outcome> {
        if self.inbox.internal.unexpected_count() == 0 {
            return None;
        }
        let found = self.inbox.internal.find_unexpected(&Pattern::from(from))?;
        let (id, index) = (found.0, *found.2);
        let status = (self.inbox).deliver_whole(index, room, &mut *self.fabric)?;
        self.inbox.internal.remove_unexpected(id);
        self.statistics.receives += 1;
        let truncated_to = (room.room_bytes() < status.bytes).then(|| room.room_bytes());
        Some(Outcome {
            status,
            truncated_to,
        })
    }

    /// The outcome of a step's request, if it has ended; the request is removed then. The program
    /// sees nothing of it.
    #[inline]
    pub fn end_step(&mut self, id: RequestId) -> Option<Outcome> {
        self.requests.take(id)
    }

    /// Completes an operation. All its steps must have ended, and their requests must be removed.
    #[inline]
    pub fn finish_internal(&mut self, operation: InternalOperation) {
        match operation.request {
            Some(id) => self.finish_operating(id),
            None => {
                self.end_operation(operation.stream);
                self.operation_ended();
            }
        }
    }

    /// Ends the request of an operation whose steps were given up. Its stream stays taken: how many
    /// of its messages were sent depends on timing. STREAM-2
    pub fn abandon_internal(&mut self, operation: InternalOperation) {
        if let Some(id) = operation.request {
            if let Some(request) = self.requests.get_mut(id) {
                request.kind = RequestKind::Step;
            }
            self.finish_operating(id);
        }
    }

    #[inline]
    fn finish_operating(&mut self, id: RequestId) {
        let status = Status {
            source: self.options.rank,
            ..Status::default()
        };
        self.requests.finish(id, Outcome::from(status));
    }

    /// Frees the stream of an operation whose end the program sees.
    fn end_operation(&mut self, stream: Stream) {
        self.operations.give_back(stream);
        if self.unrecorded.is_some() {
            self.stream_is_over(stream);
        }
    }

    /// Notes that the program sees the end of a request.
    #[cold]
    pub(super) fn note_end(&mut self, id: RequestId) {
        if self.plays_again {
            self.saw_end(id);
        }
        let kind = self.requests.get(id).map(|request| request.kind);
        if let Some(RequestKind::Operation(stream)) = kind {
            self.end_operation(stream);
        }
    }
}
