//! Addresses of servers: event loggers and checkpoint servers.

use crate::secret::Secret;
use core::fmt;
use core::str::FromStr;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::PathBuf;
use thiserror::Error;

/// The address of a server: `unix:PATH` or `tcp:HOST:PORT`, or `sealed:SECRET@HOST:PORT`, which is
/// shown without its secret and must not appear on a command line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ServerAddress {
    /// A Unix socket of this host.
    Unix(PathBuf),
    /// Host and port; the server accepts every process that reaches it.
    Tcp(String),
    /// As [`ServerAddress::Tcp`], for processes that know a secret.
    Sealed {
        /// Host and port.
        address: String,
        /// The secret of both sides.
        secret: Secret,
    },
}

/// A text that is no server's address.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is no server's address: use unix:PATH or tcp:HOST:PORT")]
pub struct NotAnAddress {
    /// The text that was given.
    pub text: String,
}

impl ServerAddress {
    /// This address with a secret. A Unix socket needs none: it checks the user.
    pub fn sealed(self, secret: &Secret) -> Self {
        match self {
            Self::Unix(path) => Self::Unix(path),
            Self::Tcp(address) | Self::Sealed { address, .. } => Self::Sealed {
                address,
                secret: secret.clone(),
            },
        }
    }

    /// This address with its host name resolved, which may take long.
    ///
    /// # Errors
    /// When there is no such host.
    pub fn look_up(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Unix(_) => self.clone(),
            Self::Tcp(address) => Self::Tcp(look_up(address)?[0].to_string()),
            Self::Sealed { address, secret } => {
                Self::Tcp(look_up(address)?[0].to_string()).sealed(secret)
            }
        })
    }

    /// The text of the address with its secret, in the form that is parsed; not for display.
    pub fn to_secret_text(&self) -> String {
        match self {
            Self::Sealed { address, secret } => format!("sealed:{}@{address}", secret.to_text()),
            open => open.to_string(),
        }
    }
}

/// All addresses of a host and port, at least one.
pub(crate) fn look_up(address: &str) -> io::Result<Vec<SocketAddr>> {
    let found = address.to_socket_addrs().and_then(|found| {
        let found: Vec<_> = found.collect();
        let none = || io::Error::from(ErrorKind::NotFound);
        (!found.is_empty()).then_some(found).ok_or_else(none)
    });
    found.map_err(|error| io::Error::new(error.kind(), format!("cannot find its host: {error}")))
}

impl FromStr for ServerAddress {
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
            Some(("sealed", sealed)) => sealed
                .split_once('@')
                .and_then(|(secret, address)| Some(tcp(address)?.sealed(&secret.parse().ok()?))),
            _ => None,
        };
        // A text that may contain a secret is not repeated.
        let shown = match text.starts_with("sealed:") {
            true => "sealed:…",
            false => text,
        };
        parsed.ok_or_else(|| NotAnAddress { text: shown.into() })
    }
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) | Self::Sealed { address, .. } => write!(f, "tcp:{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_they_are_written() {
        for text in ["unix:/tmp/a b/0.sock", "tcp:127.0.0.1:4711", "tcp:[::1]:1"] {
            let address: ServerAddress = text.parse().expect(text);
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn a_sealed_address_is_shown_without_its_secret() {
        let secret = Secret::from_bytes([0xab; 32]);
        let open: ServerAddress = "tcp:h:1".parse().expect("an address");
        let sealed = open.clone().sealed(&secret);
        assert_eq!(sealed.to_string(), "tcp:h:1");
        assert!(!format!("{sealed:?}").contains("abab"));
        assert_eq!(sealed.to_secret_text().parse(), Ok(sealed.clone()));
        assert_ne!(sealed, open);
        let wrong = sealed.to_secret_text().replace("@h:1", "@h");
        let error = wrong.parse::<ServerAddress>().expect_err("no port");
        assert!(!error.to_string().contains("abab"), "{error}");
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
            let error = text.parse::<ServerAddress>().expect_err(text);
            assert!(error.to_string().contains("unix:PATH or tcp:HOST:PORT"));
        }
    }
}
