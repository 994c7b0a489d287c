//! The name of a fabric, read.

use super::{FABRICS, unknown};
use crate::JobError;
use core::fmt;

/// What `--fabric` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricChoice {
    /// Per pair of ranks, by where they run.
    Auto,
    /// Shared memory.
    Shm,
    /// An RDMA device, by libibverbs.
    Verbs,
    /// libfabric, by this provider or (`None`) the best that is usable.
    Ofi(Option<String>),
}

impl FabricChoice {
    /// Reads a name as given to `--fabric`.
    ///
    /// # Errors
    /// [`JobError::Config`], with all names that exist.
    pub fn parse(name: &str) -> Result<Self, JobError> {
        match (name, name.strip_prefix("ofi:")) {
            ("auto", _) => Ok(Self::Auto),
            ("shm", _) => Ok(Self::Shm),
            ("verbs", _) => Ok(Self::Verbs),
            ("ofi", _) => Ok(Self::Ofi(None)),
            (_, Some("")) => Err(JobError::Config(
                "ofi: has no provider: name one (ofi:tcp), or use ofi for the best".into(),
            )),
            // A zero byte ends a name in libfabric.
            (_, Some(provider)) if !provider.contains('\0') => {
                Ok(Self::Ofi(Some(provider.to_owned())))
            }
            _ => Err(unknown("fabric", FABRICS, name)),
        }
    }
}

/// As `--fabric` takes it.
impl fmt::Display for FabricChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Shm => f.write_str("shm"),
            Self::Verbs => f.write_str("verbs"),
            Self::Ofi(None) => f.write_str("ofi"),
            Self::Ofi(Some(provider)) => write!(f, "ofi:{provider}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_written_alike() {
        for name in [
            "auto",
            "shm",
            "verbs",
            "ofi",
            "ofi:tcp",
            "ofi:tcp;ofi_rxm",
            "ofi:shm",
        ] {
            assert_eq!(FabricChoice::parse(name).unwrap().to_string(), name);
        }
        assert_eq!(
            FabricChoice::parse("ofi:tcp;ofi_rxm").unwrap(),
            FabricChoice::Ofi(Some("tcp;ofi_rxm".into()))
        );
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for (name, words) in [
            ("", "auto, shm, verbs, ofi"),
            ("OFI", "auto, shm, verbs, ofi"),
            ("ofi;tcp", "ofi:PROVIDER"),
            ("shm:", "auto, shm, verbs, ofi"),
            ("verbs:", "auto, shm, verbs, ofi"),
            ("ofi:", "has no provider"),
            ("ofi:t\0cp", "ofi:PROVIDER"),
        ] {
            let message = FabricChoice::parse(name).unwrap_err().to_string();
            assert!(message.contains(words), "{name:?}: {message}");
        }
    }
}
