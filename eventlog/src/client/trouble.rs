//! Why a replica is lost.

use super::fault::Fault;
use crate::message::ToClient;
use crate::remote::RemoteError;
use refrain_wire::WireError;

pub(super) type Outcome = Result<(), Trouble>;

/// Why a replica is lost.
#[derive(Debug)]
pub(super) struct Trouble {
    pub reason: String,
    /// The replica refuses, or its answers are wrong; otherwise it cannot be reached.
    pub is_refusal: bool,
}

impl Trouble {
    pub fn refusal(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            is_refusal: true,
        }
    }

    pub fn passing(reason: String) -> Self {
        Self {
            reason,
            is_refusal: false,
        }
    }
}

impl From<WireError> for Trouble {
    fn from(error: WireError) -> Self {
        let is_refusal = matches!(error, WireError::Frame(_));
        Self {
            reason: error.to_string(),
            is_refusal,
        }
    }
}

impl From<Fault> for Trouble {
    fn from(fault: Fault) -> Self {
        Self::refusal(fault.to_string())
    }
}

/// The outcome of writes under way is unknown; the logger gives its end at the next join.
impl From<RemoteError> for Trouble {
    fn from(error: RemoteError) -> Self {
        Self::passing(error.to_string())
    }
}

/// A message that answers no request.
pub(super) fn unexpected(message: ToClient) -> Trouble {
    match message {
        ToClient::Refused { reason } => Trouble::refusal(reason),
        _ => Trouble::refusal("its answer does not fit the request"),
    }
}
