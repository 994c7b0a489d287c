//! Where checkpoints are kept.

use core::fmt;
use core::str::FromStr;
use refrain_secure::Secret;
use std::path::PathBuf;
use thiserror::Error;

/// What conversations with servers are about, for who knows the secret.
pub const PURPOSE: &str = "refrain: checkpoint server";

/// Where a checkpoint server listens: `unix:PATH` or `tcp:HOST:PORT`, or
/// `sealed:SECRET@HOST:PORT`, which is shown without its secret and is for no command
/// line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket of this host.
    Unix(PathBuf),
    /// Host and port; whoever reaches it is served.
    Tcp(String),
    /// The same, for those who know a secret.
    Sealed {
        /// Host and port.
        address: String,
        /// What both sides know.
        secret: Secret,
    },
}

/// Where checkpoints are kept: a folder, or a server's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// A folder, which is there.
    Folder(PathBuf),
    /// A checkpoint server.
    Server(Address),
}

/// Text that is no place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is no place for checkpoints: say a folder, unix:PATH or tcp:HOST:PORT")]
pub struct NotAPlace {
    /// As given.
    pub text: String,
}

impl Address {
    /// The same, for those who know this secret; a Unix socket looks at the user.
    pub fn sealed(self, secret: &Secret) -> Self {
        match self {
            Self::Unix(path) => Self::Unix(path),
            Self::Tcp(address) | Self::Sealed { address, .. } => Self::Sealed {
                address,
                secret: secret.clone(),
            },
        }
    }

    /// As it is parsed again, with its secret: not for eyes.
    pub fn to_secret_text(&self) -> String {
        match self {
            Self::Sealed { address, secret } => format!("sealed:{}@{address}", secret.to_text()),
            open => open.to_string(),
        }
    }
}

impl FromStr for Address {
    type Err = NotAPlace;

    fn from_str(text: &str) -> Result<Self, NotAPlace> {
        let tcp = |address: &str| {
            let (host, port) = address.rsplit_once(':')?;
            let known = !host.is_empty() && port.parse::<u16>().is_ok();
            known.then(|| Self::Tcp(address.to_owned()))
        };
        let parsed = match text.split_once(':') {
            Some(("unix", path)) if !path.is_empty() => Some(Self::Unix(path.into())),
            Some(("tcp", address)) => tcp(address),
            Some(("sealed", sealed)) => sealed
                .split_once('@')
                .and_then(|(secret, address)| Some(tcp(address)?.sealed(&secret.parse().ok()?))),
            _ => None,
        };
        // What may be a secret is not repeated.
        let shown = match text.starts_with("sealed:") {
            true => "sealed:…",
            false => text,
        };
        parsed.ok_or_else(|| NotAPlace { text: shown.into() })
    }
}

impl FromStr for Place {
    type Err = NotAPlace;

    /// What begins like an address has to be one; a folder of such a name is
    /// written `./unix:…`.
    fn from_str(text: &str) -> Result<Self, NotAPlace> {
        let is_address = |kind: &&str| text.starts_with(*kind);
        if ["unix:", "tcp:", "sealed:"].iter().any(is_address) {
            return text.parse().map(Self::Server);
        }
        match text.is_empty() {
            false => Ok(Self::Folder(text.into())),
            true => Err(NotAPlace { text: text.into() }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) | Self::Sealed { address, .. } => write!(f, "tcp:{address}"),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => path.display().fmt(f),
            Self::Server(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_are_written() {
        for text in [
            "/scratch/checkpoints",
            "here",
            "./unix:a",
            "unix:/tmp/a b/0.sock",
            "tcp:127.0.0.1:4711",
            "tcp:[::1]:1",
        ] {
            let place: Place = text.parse().expect(text);
            assert_eq!(place.to_string(), text);
            let is_server = matches!(place, Place::Server(_));
            assert_eq!(
                is_server,
                text.starts_with("unix:") || text.starts_with("tcp:")
            );
        }
    }

    #[test]
    fn a_sealed_address_is_shown_without_its_secret() {
        let secret = Secret::from_bytes([0xab; 32]);
        let open: Address = "tcp:h:1".parse().expect("an address");
        let sealed = open.clone().sealed(&secret);
        assert_ne!(sealed, open);
        assert_eq!(sealed.to_string(), "tcp:h:1");
        assert!(!format!("{sealed:?}").contains("abab"));
        let text = sealed.to_secret_text();
        assert_eq!(text.parse(), Ok(Place::Server(sealed)));
        let wrong = text.replace("@h:1", "@h");
        let error = wrong.parse::<Place>().expect_err("no port");
        assert!(!error.to_string().contains("abab"), "{error}");
    }

    #[test]
    fn other_text_is_refused_with_what_to_say() {
        for text in ["", "unix:", "tcp:", "tcp::1", "tcp:host", "tcp:host:70000"] {
            let error = text.parse::<Place>().expect_err(text);
            assert!(error.to_string().contains("tcp:HOST:PORT"));
        }
    }
}
