//! Random numbers that cannot be guessed.

use crate::Error;

/// # Errors
/// When the system has no random bytes.
pub(super) fn bytes<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(libc::EIO);
        Error::system("get random bytes", errno)
    })?;
    Ok(bytes)
}

/// A random number of 24 bits, for packet sequence numbers.
///
/// # Errors
/// When the system has no random bytes.
pub(super) fn number_24() -> Result<u32, Error> {
    Ok(u32::from_le_bytes(bytes()?) & 0x00ff_ffff)
}
