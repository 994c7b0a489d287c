//! Names the store of checkpoints.

use core::fmt;
use core::str::FromStr;
use refrain_wire::{NotAnAddress, ServerAddress};
use std::path::PathBuf;
use thiserror::Error;

/// The store of checkpoints: a folder, or the address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CheckpointStoreSpec {
    /// A folder, which must exist.
    Folder(PathBuf),
    /// A checkpoint server.
    Server(ServerAddress),
}

/// A text that names no store.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text:?} is no place for checkpoints: use a folder, unix:PATH or tcp:HOST:PORT")]
pub struct NotACheckpointStore {
    /// The text that was given.
    pub text: String,
}

impl FromStr for CheckpointStoreSpec {
    type Err = NotACheckpointStore;

    /// A text that begins like an address must be an address; a folder with such a name is written
    /// `./unix:…`.
    fn from_str(text: &str) -> Result<Self, NotACheckpointStore> {
        let is_address = |kind: &&str| text.starts_with(*kind);
        if ["unix:", "tcp:", "sealed:"].iter().any(is_address) {
            let refused = |NotAnAddress { text }| NotACheckpointStore { text };
            return text.parse().map(Self::Server).map_err(refused);
        }
        match text.is_empty() {
            false => Ok(Self::Folder(text.into())),
            true => Err(NotACheckpointStore { text: text.into() }),
        }
    }
}

impl fmt::Display for CheckpointStoreSpec {
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
    use refrain_wire::Secret;

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
            let place: CheckpointStoreSpec = text.parse().expect(text);
            assert_eq!(place.to_string(), text);
            let is_server = matches!(place, CheckpointStoreSpec::Server(_));
            assert_eq!(
                is_server,
                text.starts_with("unix:") || text.starts_with("tcp:")
            );
        }
    }

    #[test]
    fn a_sealed_address_is_a_place_too() {
        let open: ServerAddress = "tcp:h:1".parse().expect("an address");
        let sealed = open.sealed(&Secret::from_bytes([0xab; 32]));
        let text = sealed.to_secret_text();
        assert_eq!(text.parse(), Ok(CheckpointStoreSpec::Server(sealed)));
        let wrong = text.replace("@h:1", "@h");
        let error = wrong.parse::<CheckpointStoreSpec>().expect_err("no port");
        assert!(!error.to_string().contains("abab"), "{error}");
    }

    #[test]
    fn other_text_is_refused_with_what_to_say() {
        for text in ["", "unix:", "tcp:", "tcp::1", "tcp:host", "tcp:host:70000"] {
            let error = text.parse::<CheckpointStoreSpec>().expect_err(text);
            assert!(error.to_string().contains("tcp:HOST:PORT"));
        }
    }
}
