//! Completions for the caller, and errors of broken connections.

use super::completion::Completion;
use super::send_queue::{Entry, Role};
use super::work_request::PairId;
use super::{Open, PeerAddress};
use crate::sys::constants::*;
use crate::{Error, Kind, Library, TOKEN_OF_INJECTED};

impl Open {
    /// Handles a completion that reports a failed queue pair: stops it, and returns the error.
    #[cold]
    pub(super) fn broke(&mut self, id: PairId, status: u32) -> Error {
        let library = self.device.library().clone();
        let to = self.words_of(id);
        let Some(pair) = self.pairs.get_mut(id) else {
            return failed(&library, Kind::Send, &to, status, None);
        };
        let half = pair.half.take();
        if let (Some(half), IBV_WC_WR_FLUSH_ERR) = (half, status) {
            return half;
        }
        let error = failed(&library, Kind::Send, &to, status, pair.failure.as_ref());
        pair.failure.get_or_insert_with(|| error.clone());
        self.give_up(id);
        error
    }
}

/// The caller's completion of an entry that has ended.
#[inline]
pub(super) fn told(
    entry: Entry,
    peer: Option<PeerAddress>,
    failure: Option<Error>,
) -> Option<Completion> {
    // FENCE-1: operations of a removed peer do not complete.
    peer?;
    let (token, kind) = match (entry.role, &failure) {
        (Role::Told(kind), _) => (entry.token, kind),
        (Role::Untold, Some(_)) => (TOKEN_OF_INJECTED, Kind::Send),
        _ => return None,
    };
    Some(Completion {
        token,
        kind,
        bytes: entry.bytes as usize,
        peer,
        outcome: match failure {
            None => Ok(()),
            Some(error) => Err(error.of(kind.attempted())),
        },
    })
}

/// The error of a failed completion.
#[cold]
fn failed(library: &Library, kind: Kind, to: &str, status: u32, before: Option<&Error>) -> Error {
    let errno = match status {
        IBV_WC_WR_FLUSH_ERR => libc::ECANCELED,
        IBV_WC_LOC_LEN_ERR => libc::EMSGSIZE,
        IBV_WC_RETRY_EXC_ERR | IBV_WC_RESP_TIMEOUT_ERR => libc::ETIMEDOUT,
        IBV_WC_RNR_RETRY_EXC_ERR => libc::ENOBUFS,
        IBV_WC_REM_ACCESS_ERR | IBV_WC_LOC_PROT_ERR | IBV_WC_LOC_ACCESS_ERR => libc::EACCES,
        _ => libc::EIO,
    };
    let said = library.status_words(status);
    let words = match (status, before) {
        (IBV_WC_WR_FLUSH_ERR, Some(before)) => format!(
            "given up, as the connection to {to} broke before: {}",
            before.words()
        ),
        (IBV_WC_WR_FLUSH_ERR, None) => format!("the connection to {to} was given up"),
        (IBV_WC_RETRY_EXC_ERR, _) => format!("{to} does not answer ({said}, status {status})"),
        _ => format!("the connection to {to} broke: {said} (status {status})"),
    };
    Error::completed(kind.attempted(), words, errno)
}
