//! A checkpoint on its way to a server.

use super::Talk;
use crate::buffer::Strip;
use crate::error::CheckpointError;
use crate::framing;
use crate::message::{ToClient, ToServer};
use crate::store::{Sink, Stable};

/// Dropped before it is committed, the conversation ends, and the server gives it
/// up.
#[derive(Debug)]
pub(super) struct ServerSink {
    talk: Talk,
}

impl ServerSink {
    pub fn new(talk: Talk) -> Self {
        Self { talk }
    }
}

impl Sink for ServerSink {
    fn exchange(
        &mut self,
        _place: u64,
        strip: &mut Strip,
        bytes: usize,
    ) -> Result<(), CheckpointError> {
        // Before the end, a server says something only to refuse.
        let speaks = self.talk.stream.is_readable();
        if speaks.map_err(|error| self.talk.failed(error))? {
            self.talk.hear()?;
            return Err(self.talk.unexpected());
        }
        let sent = framing::send_strip(&mut self.talk.stream, &strip.bytes()[..bytes]);
        sent.map_err(|error| self.talk.why_over(error))
    }

    fn commit(mut self: Box<Self>, bytes: u64) -> Result<Stable, CheckpointError> {
        self.talk.say(&ToServer::Commit { bytes })?;
        match self.talk.hear()? {
            ToClient::Stable { bytes: there, left } if there == bytes => Ok(Stable { bytes, left }),
            _ => Err(self.talk.unexpected()),
        }
    }
}
