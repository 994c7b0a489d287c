//! A checkpoint on its way from a server.

use super::Talk;
use crate::buffer::Strip;
use crate::error::CheckpointError;
use crate::framing::{self, Incoming};
use crate::message::ToClient;
use crate::store::Source;

#[derive(Debug)]
pub(super) struct ServerSource {
    talk: Talk,
    number: u64,
    /// Bytes that are still to come.
    left: u64,
    strip: Strip,
}

impl ServerSource {
    pub fn new(talk: Talk, number: u64, bytes: u64) -> Self {
        Self {
            talk,
            number,
            left: bytes,
            strip: Strip::new(),
        }
    }
}

impl Source for ServerSource {
    fn next_strip(&mut self, into: &mut [u8]) -> Result<usize, CheckpointError> {
        if self.left == 0 {
            return Ok(0);
        }
        let incoming = framing::receive(&mut self.talk.stream, &mut self.strip);
        match incoming.map_err(|error| self.talk.failed(error))? {
            Incoming::Strip(bytes) if bytes as u64 <= self.left && bytes <= into.len() => {
                into[..bytes].copy_from_slice(&self.strip.bytes()[..bytes]);
                self.left -= bytes as u64;
                Ok(bytes)
            }
            Incoming::Message(ToClient::Refused(why)) => Err(why.into_error(&self.talk.address)),
            Incoming::End => Err(self.talk.failed(super::ENDED)),
            _ => Err(self.talk.unexpected()),
        }
    }

    fn name(&self) -> String {
        format!("checkpoint {} on {}", self.number, self.talk.address)
    }
}
