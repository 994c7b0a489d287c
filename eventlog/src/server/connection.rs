//! One connection, with its role and its pending answer.

use super::host::{Channel, Host};
use super::joining::Joining;
use super::reading::Answer;
use super::writer::Writer;
use crate::message::{FRAME_BYTES_MAX, ToClient};

/// The role of a connection.
#[derive(Debug)]
pub(super) enum Role<H: Host> {
    /// It has sent no hello: it may only ask.
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
    /// The answer that is being sent, in pieces.
    pub(super) answer: Option<Answer>,
    /// The connection closes when everything is sent.
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

    /// Whether its messages are taken: only after the previous one is handled.
    pub(super) fn is_heard(&self) -> bool {
        !self.ends && self.answer.is_none() && !matches!(self.role, Role::Joining(_))
    }

    /// Whether it closes and everything is sent.
    pub(super) fn is_over(&self) -> bool {
        self.ends && self.channel.unsent_bytes() == 0
    }

    /// Sends a message as soon as the other side takes it.
    pub(super) fn say(&mut self, message: &ToClient) {
        self.say_with(message, None);
    }

    /// Sends a message with the handle of a ring.
    pub(super) fn say_with(&mut self, message: &ToClient, handle: Option<H::Handle>) {
        if let Err(error) = self.channel.say(message, handle) {
            // Possible only for answers whose length depends on other clients.
            let reason = format!("the answer cannot be sent: {error}");
            let said = self.channel.say(&ToClient::Refused { reason }, None);
            said.expect("a short sentence fits a frame");
            self.ends = true;
        }
    }

    /// Refuses the request, and closes the connection.
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
