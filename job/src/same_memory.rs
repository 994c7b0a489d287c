//! `--same-memory`: which parts of a rank's memory are the same in each life although its
//! program has not written them.

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// The environment variable with the option, for ranks of a job with restarts; unset: all parts.
pub const VARIABLE: &str = "REFRAIN_SAME_MEMORY";

/// Value of `--same-memory`. Its text form is a list of parts, separated by commas, or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SameMemory {
    /// The library's own data is not in the program's heap.
    pub heap: bool,
    /// Calls of the library run on a separate stack.
    pub stack: bool,
    /// Addresses are not randomised, and the bytes at `AT_RANDOM` are the same.
    pub addresses: bool,
}

impl SameMemory {
    const NOTHING: Self = Self {
        heap: false,
        stack: false,
        addresses: false,
    };
}

impl Default for SameMemory {
    fn default() -> Self {
        Self {
            heap: true,
            stack: true,
            addresses: true,
        }
    }
}

/// Error of a text with an unknown word.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is not valid: use heap, stack, addresses (several, separated by commas), or none")]
pub struct NotSameMemory(String);

impl FromStr for SameMemory {
    type Err = NotSameMemory;

    fn from_str(text: &str) -> Result<Self, NotSameMemory> {
        let mut same = Self::NOTHING;
        if text == "none" {
            return Ok(same);
        }
        for word in text.split(',') {
            match word {
                "heap" => same.heap = true,
                "stack" => same.stack = true,
                "addresses" => same.addresses = true,
                other => return Err(NotSameMemory(other.into())),
            }
        }
        Ok(same)
    }
}

impl fmt::Display for SameMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (self.heap, "heap"),
            (self.stack, "stack"),
            (self.addresses, "addresses"),
        ];
        let words = words.iter().filter(|(is_same, _)| *is_same);
        let words: Vec<&str> = words.map(|(_, word)| *word).collect();
        match words.is_empty() {
            true => f.write_str("none"),
            false => f.write_str(&words.join(",")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_and_others_are_named() {
        for text in [
            "none",
            "heap",
            "stack",
            "addresses",
            "heap,addresses",
            "heap,stack,addresses",
        ] {
            let same: SameMemory = text.parse().unwrap();
            assert_eq!(same.to_string(), text);
        }
        assert_eq!(
            SameMemory::default().to_string().parse(),
            Ok(SameMemory::default())
        );
        for (text, word) in [
            ("", "\"\""),
            ("heap,", "\"\""),
            ("heap,none", "\"none\""),
            ("Heap", "\"Heap\""),
        ] {
            let message = text.parse::<SameMemory>().unwrap_err().to_string();
            assert!(message.starts_with(word), "{text}: {message}");
        }
    }
}
