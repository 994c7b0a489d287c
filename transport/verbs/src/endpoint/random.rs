//! Numbers that nobody guesses.

#![allow(unsafe_code, reason = "asks the system for random bytes")]

use super::objects::last_errno;
use crate::Error;

/// # Errors
/// The system has none.
pub(super) fn bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0_u8; N];
    // SAFETY: there is room for as many bytes as are asked for. So few come whole.
    let count = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), N, 0) };
    if usize::try_from(count) == Ok(N) {
        return Ok(bytes);
    }
    Err(Error::system("get random bytes", last_errno()))
}

/// A number of 24 bits, as those of packets are.
///
/// # Errors
/// The system has none.
pub(super) fn number_24() -> Result<u32, Error> {
    Ok(u32::from_le_bytes(bytes()?) & 0x00ff_ffff)
}
