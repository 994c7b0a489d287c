//! One side of a sealed session: ciphertext in and out, plaintext in and out. It uses no sockets
//! and no time; from the system it takes only randomness, for the keys of the session.
//!
//! | sender | bytes |
//! |---|---|
//! | the caller | 4: `RFS`, version 1; then 48: Noise's first message |
//! | the answerer | 48: Noise's second message |
//! | both | records: a length (2 bytes, little endian), then the ciphertext |
//!
//! The first message proves that its author knew the secret, but it may be a replay. So until a
//! valid record has arrived, the answerer sends only the second message, which is useless to all
//! but the author of the first. The caller sends an empty record at once.

use crate::secret::Secret;
use bytes::{Buf as _, BytesMut};
use snow::params::NoiseParams;
use snow::{Builder, HandshakeState, TransportState};
use thiserror::Error;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// The caller's first bytes: they distinguish another program or version from a wrong secret.
const GREETING: [u8; 3] = *b"RFS";
const VERSION: u8 = 1;
/// A public key and a tag.
const HANDSHAKE_BYTES: usize = 48;
const TAG_BYTES: usize = 16;
/// Most bytes of ciphertext in a record.
const RECORD_BYTES_MAX: usize = u16::MAX as usize;
/// Limit of the plaintext that waits for the other side's proof.
const WAITING_BYTES_MAX: usize = 1 << 20;

/// The reason why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SecureError {
    /// The first bytes are not those of a caller.
    #[error("what connected is not Refrain")]
    NotRefrain,
    /// The other side uses another version.
    #[error(
        "the other side speaks version {0}, this one {VERSION}: run the same refrain on all hosts"
    )]
    Version(u8),
    /// The handshake fails.
    #[error("the other side does not know the secret")]
    WrongSecret,
    /// A record was changed, omitted, replayed or forged.
    #[error(
        "what was received was not sent by the other side: the connection is being tampered with"
    )]
    Forged,
    /// Too many bytes wait for the other side's proof.
    #[error(
        "more than {WAITING_BYTES_MAX} bytes wait for the other side to prove that it knows the secret"
    )]
    Waiting,
    /// No keys could be generated.
    #[error("the system has no random bytes")]
    NoRandomness,
}

enum SessionState {
    /// An answerer that waits for the first message.
    Awaiting(Box<HandshakeState>),
    /// A caller that waits for the second message.
    Called(Box<HandshakeState>),
    Open(Box<TransportState>),
    Over(SecureError),
}

/// One side of a session.
pub struct Session {
    state: SessionState,
    /// The other side has proved, in this session, that it knows the secret.
    is_proven: bool,
    /// Bytes from the network that are not decrypted yet: less than a record.
    incoming: BytesMut,
    /// Plaintext from the other side.
    pub(crate) heard: BytesMut,
    /// Plaintext that waits for the other side's proof.
    waiting: Vec<u8>,
    /// Bytes for the network.
    pub(crate) outgoing: BytesMut,
}

impl Session {
    /// The side that connects. `purpose` names the protocol; both sides must use the same.
    ///
    /// # Errors
    /// [`SecureError::NoRandomness`].
    pub fn caller(secret: &Secret, purpose: &str) -> Result<Self, SecureError> {
        let builder = builder(secret, purpose)?;
        let state = builder.build_initiator();
        let mut state = state.map_err(|_| SecureError::NoRandomness)?;
        let mut first = [0; HANDSHAKE_BYTES];
        let written = state.write_message(&[], &mut first);
        written.map_err(|_| SecureError::NoRandomness)?;
        let mut session = Self::new(SessionState::Called(Box::new(state)));
        session.outgoing.extend_from_slice(&GREETING);
        session.outgoing.extend_from_slice(&[VERSION]);
        session.outgoing.extend_from_slice(&first);
        Ok(session)
    }

    /// The side that was connected to.
    ///
    /// # Errors
    /// [`SecureError::NoRandomness`].
    pub fn answerer(secret: &Secret, purpose: &str) -> Result<Self, SecureError> {
        let state = builder(secret, purpose)?.build_responder();
        let state = state.map_err(|_| SecureError::NoRandomness)?;
        Ok(Self::new(SessionState::Awaiting(Box::new(state))))
    }

    fn new(state: SessionState) -> Self {
        Self {
            state,
            is_proven: false,
            incoming: BytesMut::new(),
            heard: BytesMut::new(),
            waiting: Vec::new(),
            outgoing: BytesMut::new(),
        }
    }

    /// Whether the other side has proved in this session that it knows the secret.
    pub fn is_proven(&self) -> bool {
        self.is_proven
    }

    /// Takes bytes from the network.
    ///
    /// # Errors
    /// When the session has ended; every later call fails with the same error. Plaintext that was
    /// decrypted before can still be taken ([`take_heard`](Self::take_heard)).
    pub fn receive(&mut self, bytes: &[u8]) -> Result<(), SecureError> {
        if let SessionState::Over(error) = self.state {
            return Err(error);
        }
        self.incoming.extend_from_slice(bytes);
        let done = self.understand();
        if let Err(error) = done {
            self.state = SessionState::Over(error);
            self.incoming.clear();
            // A side that tampers or does not know the secret receives nothing.
            self.outgoing.clear();
        }
        done
    }

    /// Handles messages and records as long as they are complete.
    fn understand(&mut self) -> Result<(), SecureError> {
        loop {
            let is_whole = match &self.state {
                SessionState::Awaiting(_) => self.take_first()?,
                SessionState::Called(_) => self.take_second()?,
                SessionState::Open(_) => self.take_record()?,
                SessionState::Over(error) => return Err(*error),
            };
            if !is_whole {
                return Ok(());
            }
        }
    }

    fn take_record(&mut self) -> Result<bool, SecureError> {
        let (SessionState::Open(state), Some((length, rest))) =
            (&mut self.state, self.incoming.split_first_chunk::<2>())
        else {
            return Ok(false);
        };
        let length = usize::from(u16::from_le_bytes(*length));
        if length < TAG_BYTES {
            return Err(SecureError::Forged);
        }
        let Some(record) = rest.get(..length) else {
            return Ok(false);
        };
        let at = self.heard.len();
        self.heard.resize(at + length, 0);
        let heard = state.read_message(record, &mut self.heard[at..]);
        self.heard
            .truncate(at + heard.as_ref().map_or(0, |heard| *heard));
        heard.map_err(|_| SecureError::Forged)?;
        self.incoming.advance(2 + length);
        if !core::mem::replace(&mut self.is_proven, true) {
            self.say_what_waits()?;
        }
        Ok(true)
    }

    /// Handles the greeting and the first message, as the answerer.
    fn take_first(&mut self) -> Result<bool, SecureError> {
        let bytes = &self.incoming[..];
        let begin = &bytes[..bytes.len().min(GREETING.len())];
        if !GREETING.starts_with(begin) {
            return Err(SecureError::NotRefrain);
        }
        if let Some(version) = bytes.get(GREETING.len()).filter(|it| **it != VERSION) {
            return Err(SecureError::Version(*version));
        }
        if bytes.len() < GREETING.len() + 1 + HANDSHAKE_BYTES {
            return Ok(false);
        }
        self.incoming.advance(GREETING.len() + 1);
        let first = self.incoming.split_to(HANDSHAKE_BYTES);
        let SessionState::Awaiting(mut state) = self.replace_state() else {
            return Err(SecureError::Forged);
        };
        let read = state.read_message(&first, &mut []);
        read.map_err(|_| SecureError::WrongSecret)?;
        let mut second = [0; HANDSHAKE_BYTES];
        let written = state.write_message(&[], &mut second);
        written.map_err(|_| SecureError::NoRandomness)?;
        self.outgoing.extend_from_slice(&second);
        self.open(*state)?;
        Ok(true)
    }

    /// Handles the second message, as the caller.
    fn take_second(&mut self) -> Result<bool, SecureError> {
        if self.incoming.len() < HANDSHAKE_BYTES {
            return Ok(false);
        }
        let second = self.incoming.split_to(HANDSHAKE_BYTES);
        let SessionState::Called(mut state) = self.replace_state() else {
            return Err(SecureError::Forged);
        };
        let read = state.read_message(&second, &mut []);
        read.map_err(|_| SecureError::WrongSecret)?;
        self.open(*state)?;
        // The message depends on this caller's own key, so it is no replay.
        self.is_proven = true;
        self.seal(&[])?;
        self.say_what_waits()?;
        Ok(true)
    }

    fn replace_state(&mut self) -> SessionState {
        core::mem::replace(
            &mut self.state,
            SessionState::Over(SecureError::WrongSecret),
        )
    }

    fn open(&mut self, state: HandshakeState) -> Result<(), SecureError> {
        let state = state.into_transport_mode();
        let state = state.map_err(|_| SecureError::WrongSecret)?;
        self.state = SessionState::Open(Box::new(state));
        Ok(())
    }

    fn say_what_waits(&mut self) -> Result<(), SecureError> {
        let waiting = core::mem::take(&mut self.waiting);
        self.say(&waiting)
    }

    /// Sends plaintext. It waits until the other side has proved that it knows the secret.
    ///
    /// # Errors
    /// When the session has ended.
    pub fn say(&mut self, text: &[u8]) -> Result<(), SecureError> {
        if let SessionState::Over(error) = self.state {
            return Err(error);
        }
        if !self.is_proven {
            if self.waiting.len() + text.len() > WAITING_BYTES_MAX {
                return Err(SecureError::Waiting);
            }
            self.waiting.extend_from_slice(text);
            return Ok(());
        }
        text.chunks(RECORD_BYTES_MAX - TAG_BYTES)
            .try_for_each(|piece| self.seal(piece))
    }

    fn seal(&mut self, piece: &[u8]) -> Result<(), SecureError> {
        let SessionState::Open(state) = &mut self.state else {
            return Err(SecureError::Waiting);
        };
        let length = piece.len() + TAG_BYTES;
        let prefix = u16::try_from(length).map_err(|_| SecureError::Forged)?;
        self.outgoing.extend_from_slice(&prefix.to_le_bytes());
        let at = self.outgoing.len();
        self.outgoing.resize(at + length, 0);
        let sealed = state.write_message(piece, &mut self.outgoing[at..]);
        // Fails only after 2^64 records.
        sealed.map(|_| ()).map_err(|_| SecureError::Forged)
    }

    /// The plaintext that has arrived since the last call.
    pub fn take_heard(&mut self) -> Vec<u8> {
        self.heard.split().into()
    }

    /// Ciphertext to be sent.
    pub fn unsent(&self) -> &[u8] {
        &self.outgoing
    }

    /// Removes the first `bytes` bytes of ciphertext, which were sent.
    pub fn note_sent(&mut self, bytes: usize) {
        self.outgoing.advance(bytes);
    }
}

impl core::fmt::Debug for Session {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let is_open = matches!(self.state, SessionState::Open(_));
        f.debug_struct("Session")
            .field("is_open", &is_open)
            .field("is_proven", &self.is_proven)
            .finish_non_exhaustive()
    }
}

fn builder<'a>(secret: &'a Secret, purpose: &'a str) -> Result<Builder<'a>, SecureError> {
    let params: NoiseParams = PATTERN.parse().map_err(|_| SecureError::NoRandomness)?;
    let builder = Builder::new(params).prologue(purpose.as_bytes());
    let builder = builder.and_then(|builder| builder.psk(0, secret.bytes()));
    builder.map_err(|_| SecureError::NoRandomness)
}

#[cfg(test)]
mod tests;
