//! Where a logger listens.

use core::fmt;
use core::str::FromStr;
use std::path::PathBuf;
use thiserror::Error;

/// Where a logger listens: `unix:PATH` or `tcp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LoggerAddress {
    /// A Unix socket of this host.
    Unix(PathBuf),
    /// Host and port.
    Tcp(String),
}

/// Text that is no logger's address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is no event logger's address: say unix:PATH or tcp:HOST:PORT")]
pub struct NotAnAddress {
    /// As given.
    pub text: String,
}

impl FromStr for LoggerAddress {
    type Err = NotAnAddress;

    fn from_str(text: &str) -> Result<Self, NotAnAddress> {
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
        parsed.ok_or_else(|| NotAnAddress { text: text.into() })
    }
}

impl fmt::Display for LoggerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["unix:/tmp/a b/0.sock", "tcp:127.0.0.1:4711", "tcp:[::1]:1"] {
            let address: LoggerAddress = text.parse().expect(text);
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn other_text_is_refused_with_what_to_say() {
        for text in [
            "",
            "unix:",
            "tcp:",
            "tcp::1",
            "tcp:host",
            "tcp:host:70000",
            "/tmp/x",
        ] {
            let error = text.parse::<LoggerAddress>().expect_err(text);
            assert!(error.to_string().contains("unix:PATH or tcp:HOST:PORT"));
        }
    }
}
