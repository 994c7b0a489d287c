//! Numbers that cannot be guessed.

use crate::Error;

/// # Errors
/// The system has none.
pub(super) fn bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        Error::system("get random bytes", errno)
    })?;
    Ok(bytes)
}

/// A number of 24 bits, as those of packets are.
///
/// # Errors
/// The system has none.
pub(super) fn number_24() -> Result<u32, Error> {
    Ok(u32::from_le_bytes(bytes()?) & 0x00ff_ffff)
}
