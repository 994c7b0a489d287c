//! Times as people write them.

use core::time::Duration;
use thiserror::Error;

/// Why a text is not a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SecondsError {
    /// No number, none above 0, or more than can be counted.
    #[error("use seconds above 0, like 30 or 0.5")]
    Form,
    /// As above, where there may be none.
    #[error("use seconds above 0, like 30 or 0.5, or off")]
    FormOrOff,
}

/// Reads seconds, also parts of one, as milliseconds.
///
/// # Errors
/// [`SecondsError`].
pub fn milliseconds(text: &str) -> Result<u64, SecondsError> {
    let seconds = text.parse::<f64>().ok();
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .and_then(|time| u64::try_from(time.as_millis()).ok())
        .filter(|milliseconds| *milliseconds > 0)
        .ok_or(SecondsError::Form)
}

/// A time that may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// `None`: off.
    pub milliseconds: Option<u64>,
}

/// Reads seconds, or `off`.
///
/// # Errors
/// [`SecondsError`].
pub fn limit(text: &str) -> Result<Limit, SecondsError> {
    let milliseconds = match text {
        "off" => None,
        text => Some(milliseconds(text).map_err(|_| SecondsError::FormOrOff)?),
    };
    Ok(Limit { milliseconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_seconds() {
        assert_eq!(milliseconds("30"), Ok(30_000));
        assert_eq!(milliseconds("0.25"), Ok(250));
        for text in ["", "0", "-1", "NaN", "inf", "1e300", "0.0001", "1s", "off"] {
            let message = milliseconds(text).unwrap_err().to_string();
            assert!(message.contains("like 30 or 0.5"), "{text:?}: {message}");
        }
        let of = |text| limit(text).map(|limit| limit.milliseconds);
        assert_eq!(of("off"), Ok(None));
        assert_eq!(of("2"), Ok(Some(2000)));
        assert!(of("never").unwrap_err().to_string().contains("or off"));
    }
}
