//! Where checkpoints are kept.

use core::fmt;
use core::str::FromStr;
use std::path::PathBuf;
use thiserror::Error;

/// Where a checkpoint server listens: `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A Unix socket of this host.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
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
            _ => None,
        };
        parsed.ok_or_else(|| NotAPlace { text: text.into() })
    }
}

impl FromStr for Place {
    type Err = NotAPlace;

    /// What begins like an address has to be one; a folder of such a name is
    /// written `./unix:…`.
    fn from_str(text: &str) -> Result<Self, NotAPlace> {
        if text.starts_with("unix:") || text.starts_with("tcp:") {
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
            Self::Tcp(address) => write!(f, "tcp:{address}"),
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
    fn other_text_is_refused_with_what_to_say() {
        for text in ["", "unix:", "tcp:", "tcp::1", "tcp:host", "tcp:host:70000"] {
            let error = text.parse::<Place>().expect_err(text);
            assert!(error.to_string().contains("tcp:HOST:PORT"));
        }
    }
}
