//! Times in options.

use core::time::Duration;

/// Parses seconds, with fractions, and returns milliseconds.
///
/// # Errors
/// The text is not a number, not above 0, or too large for 64 bits.
pub fn milliseconds(text: &str) -> Result<u64, &'static str> {
    let parse = || {
        let time = Duration::try_from_secs_f64(text.parse().ok()?).ok()?;
        let milliseconds = u64::try_from(time.as_millis()).ok()?;
        (milliseconds > 0).then_some(milliseconds)
    };
    parse().ok_or("use seconds above 0, like 30 or 0.5")
}

/// A time that may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// `None`: off.
    pub milliseconds: Option<u64>,
}

/// Parses seconds or `off`.
///
/// # Errors
/// As [`milliseconds`].
pub fn limit(text: &str) -> Result<Limit, &'static str> {
    let milliseconds = match (text, milliseconds(text)) {
        ("off", _) => None,
        (_, Ok(milliseconds)) => Some(milliseconds),
        (_, Err(_)) => return Err("use seconds above 0, like 30 or 0.5, or off"),
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
