//! Sizes in options and reports.

use core::fmt::{self, Display, Formatter};
use thiserror::Error;

/// A number of bytes, shown in the unit that makes it short, with at least three correct digits:
/// `896 B`, `17.3 MiB`, `64 KiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl Display for Size {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let (mut value, mut unit) = (self.0 as f64, 0);
        while value >= 1023.5 && unit + 1 < UNITS.len() {
            (value, unit) = (value / 1024.0, unit + 1);
        }
        let tenths = (value * 10.0).round();
        let is_whole = tenths % 10.0 == 0.0;
        let digits = usize::from(value < 99.95 && !is_whole);
        f.pad(&format!("{value:.digits$} {}", UNITS[unit]))
    }
}

/// "1 file", "2 files".
pub fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// Why a text is not a size.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SizeError {
    /// Not a number with a known unit.
    #[error(
        "{0:?} is not a size: use bytes, or a number with K, M, G or T (powers of 1024), such as 65536, 512M or 2GiB"
    )]
    Form(String),
    /// The number of bytes does not fit into 64 bits.
    #[error("{0:?} is more than 64 bits")]
    Overflow(String),
}

/// Parses a size in bytes: `65536`, `512M`, `512MiB`, `2g`. Units are powers of 1024. `MB` is
/// refused, since it is often read as a power of 1000.
///
/// # Errors
/// [`SizeError`].
pub fn parse(text: &str) -> Result<u64, SizeError> {
    let form = || SizeError::Form(text.to_owned());
    let trimmed = text.trim();
    let is_unit = |letter: char| !letter.is_ascii_digit();
    let (number, unit) = trimmed.split_at(trimmed.find(is_unit).unwrap_or(trimmed.len()));
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        "t" | "tib" => 40,
        _ => return Err(form()),
    };
    if number.is_empty() {
        return Err(form());
    }
    let overflow = || SizeError::Overflow(text.to_owned());
    let number: u64 = number.parse().map_err(|_| overflow())?;
    number.checked_mul(1 << shift).ok_or_else(overflow)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_powers_of_1024() {
        for (text, bytes) in [
            ("0", 0),
            ("65536", 65536),
            ("7B", 7),
            ("1K", 1024),
            ("512M", 512 << 20),
            ("2GiB", 2 << 30),
            ("2 gib", 2 << 30),
            (" 3t ", 3 << 40),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn sizes_are_shown_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.5 KiB"),
            (40_000, "39.1 KiB"),
            (99_942 << 10, "97.6 MiB"),
            (260 << 10, "260 KiB"),
            ((260 << 10) + 600, "261 KiB"),
            ((1 << 20) - 1, "1 MiB"),
            (10 << 30, "10 GiB"),
            (5_000_000_000_000_000, "4.4 PiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(Size(bytes).to_string(), text, "{bytes}");
        }
        assert_eq!(
            format!("{:>8}|{:<8}|", Size(7), Size(7)),
            "     7 B|7 B     |"
        );
    }

    #[test]
    fn what_is_no_size_is_refused_with_an_example() {
        for text in [
            "", "M", "-1", "1.5G", "1MB", "1KM", "0x10", "1 2", "１", "M1",
        ] {
            assert!(matches!(parse(text), Err(SizeError::Form(_))), "{text}");
        }
        assert!(parse("1MB").unwrap_err().to_string().contains("512M"));
        for text in ["18446744073709551616", "16777216T", "99999999999999999999G"] {
            assert!(matches!(parse(text), Err(SizeError::Overflow(_))), "{text}");
        }
        assert_eq!(parse("16777215T"), Ok(16777215 << 40));
    }
}
