//! One connection: what it is for, and what is still to be done for it.

use super::host::{Channel, Host};
use super::joining::Joining;
use super::reading::Answer;
use super::writer::Writer;
use crate::message::{FRAME_BYTES_MAX, ToClient};

/// What a connection is for.
#[derive(Debug)]
pub(super) enum Role<H: Host> {
    /// It has sent no hello: it may ask.
    Visitor,
    /// Its hello is being handled.
    Joining(Box<Joining<H>>),
    /// It writes the determinants of a rank.
    Writer(Writer),
}

#[derive(Debug)]
pub(super) struct Connection<H: Host> {
    pub(super) channel: H::Channel,
    pub(super) role: Role<H>,
    /// An answer that is being given, in pieces.
    pub(super) answer: Option<Answer>,
    /// Ends when everything was sent.
    pub(super) ends: bool,
}

impl<H: Host> Connection<H> {
    pub(super) fn new(channel: H::Channel) -> Self {
        Self {
            channel,
            role: Role::Visitor,
            answer: None,
            ends: false,
        }
    }

    /// Whether its messages are taken: not before what it said is done with.
    pub(super) fn is_heard(&self) -> bool {
        !self.ends && self.answer.is_none() && !matches!(self.role, Role::Joining(_))
    }

    /// Whether it ends and everything was sent.
    pub(super) fn is_over(&self) -> bool {
        self.ends && self.channel.unsent_bytes() == 0
    }

    /// Sends a message, as soon as the other side takes it.
    pub(super) fn say(&mut self, message: &ToClient) {
        self.say_with(message, None);
    }

    /// Sends a message, with what opens a ring.
    pub(super) fn say_with(&mut self, message: &ToClient, handle: Option<H::Handle>) {
        if let Err(error) = self.channel.say(message, handle) {
            // Only for answers whose length depends on others.
            let reason = format!("the answer does not fit: {error}");
            let said = self.channel.say(&ToClient::Refused { reason }, None);
            said.expect("a short sentence fits a frame");
            self.ends = true;
        }
    }

    /// Refuses, and ends the connection.
    pub(super) fn refuse(&mut self, reason: impl Into<String>) {
        let mut reason = reason.into();
        let mut bytes = reason.len().min(FRAME_BYTES_MAX / 2);
        while !reason.is_char_boundary(bytes) {
            bytes -= 1;
        }
        reason.truncate(bytes);
        self.say(&ToClient::Refused { reason });
        self.ends = true;
    }
}
