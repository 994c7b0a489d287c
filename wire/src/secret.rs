//! The secret of both sides of a sealed connection.

use core::fmt;
use core::str::FromStr;
use thiserror::Error;

/// 32 bytes that cannot be guessed. The text form has 64 hexadecimal digits; `Debug` does
/// not show them.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret([u8; Secret::BYTES]);

/// A text that is no secret. The error does not repeat it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a secret has {digits} hexadecimal digits and nothing else: make one with `head -c {bytes} /dev/urandom | od -An -vtx1 | tr -d ' \\n'`", digits = 2 * Secret::BYTES, bytes = Secret::BYTES)]
pub struct NotASecret;

impl Secret {
    /// Length of a secret.
    pub const BYTES: usize = 32;

    /// A new secret, from the system's source of randomness.
    ///
    /// # Errors
    /// When the system has no random bytes.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; Self::BYTES];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(bytes))
    }

    /// A secret from its bytes.
    pub fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes of the secret; not for display.
    pub fn bytes(&self) -> &[u8; Self::BYTES] {
        &self.0
    }

    /// The text form of the secret; not for display.
    pub fn to_text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl FromStr for Secret {
    type Err = NotASecret;

    fn from_str(text: &str) -> Result<Self, NotASecret> {
        let text = text.trim_ascii();
        let is_hex = text.bytes().all(|digit| digit.is_ascii_hexdigit());
        if text.len() != 2 * Self::BYTES || !is_hex {
            return Err(NotASecret);
        }
        let mut bytes = [0; Self::BYTES];
        for (byte, at) in bytes.iter_mut().zip((0..text.len()).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).map_err(|_| NotASecret)?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_comes_back_from_its_text_and_is_not_shown() {
        let secret = Secret::random().expect("randomness");
        let text = secret.to_text();
        assert_eq!(text.parse(), Ok(secret.clone()));
        assert_eq!(format!(" {text}\n").parse(), Ok(secret.clone()));
        assert_eq!(format!("{secret:?}"), "Secret(…)");
        assert_ne!(secret, Secret::random().expect("randomness"));
    }

    #[test]
    fn other_text_is_refused_and_not_repeated() {
        let good = Secret::from_bytes([0xab; 32]).to_text();
        let cases = [
            String::new(),
            good[1..].into(),
            format!("{good}0"),
            good.replace("ab", "+b"),
            format!("é{}", &good[2..]),
        ];
        for text in cases {
            let error = text.parse::<Secret>().expect_err(&text);
            assert!(error.to_string().contains("64 hexadecimal digits"));
            assert!(!error.to_string().contains("abab"));
        }
    }
}
