//! The fabrics and protocols that can be chosen by name: the one list for the command line, the
//! launcher, ranks and `refrain info`.

pub mod events;
pub mod library;
pub mod provider;
pub mod verbs;

pub use refrain_transport::fabric::ofi::Provider;

use crate::JobError;
use crate::config::{Divergence, JobConfig, LogFullPolicy};
use core::fmt;
use refrain_logging::Member;
use refrain_storage::Io;

/// A fabric or protocol that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Its name on the command line.
    pub name: &'static str,
    /// A short description.
    pub summary: &'static str,
}

impl Choice {
    const fn new(name: &'static str, summary: &'static str) -> Self {
        Self { name, summary }
    }
}

/// Values of `--fabric`. [`check_fabric`] checks a name.
pub const FABRICS: &[Choice] = &[
    Choice::new(
        "auto",
        "shm between ranks on one host; between hosts verbs, or else ofi",
    ),
    Choice::new(
        "shm",
        "shared memory of one host; the receiver reads the sender's log",
    ),
    Choice::new(
        "verbs",
        "an RDMA device (InfiniBand, RoCE, soft-RoCE) by libibverbs",
    ),
    Choice::new(
        "ofi",
        "libfabric, by the best of its providers that is usable here",
    ),
    Choice::new(
        "ofi:PROVIDER",
        "libfabric by one provider; `refrain info --providers` lists them",
    ),
];

/// Values of `--protocol`: the members of the protocol family.
pub const PROTOCOLS: &[Choice] = &{
    let mut choices = [Choice::new("", ""); Member::ALL.len()];
    let mut index = 0;
    while index < choices.len() {
        let member = Member::ALL[index];
        choices[index] = Choice::new(member.name(), member.summary());
        index += 1;
    }
    choices
};

/// Checks the form of a fabric's name. [`provider::resolve`] checks whether a provider is
/// installed.
///
/// # Errors
/// [`JobError::Config`], with all valid names.
pub fn check_fabric(name: &str) -> Result<(), JobError> {
    FabricChoice::parse(name).map(drop)
}

/// Checks the name of a protocol.
///
/// # Errors
/// [`JobError::Config`], with all valid names.
pub fn check_protocol(name: &str) -> Result<(), JobError> {
    if PROTOCOLS.iter().any(|choice| choice.name == name) {
        return Ok(());
    }
    Err(unknown("protocol", PROTOCOLS, name))
}

/// Checks the names in a job's settings.
///
/// # Errors
/// [`JobError::Config`].
pub fn check(config: &JobConfig) -> Result<(), JobError> {
    check_fabric(&config.fabric)?;
    check_protocol(&config.protocol)?;
    events::commit_path(&config.events.way).map(drop)
}

/// The value of `--divergence` with this name.
///
/// # Errors
/// [`JobError::Config`], with all valid names.
pub fn divergence(name: &str) -> Result<Divergence, JobError> {
    events::named("--divergence", name, &Divergence::ALL)
}

/// The policy for full logs with this name. LOG-7
///
/// # Errors
/// [`JobError::Config`], with all valid names.
pub fn log_full(name: &str) -> Result<LogFullPolicy, JobError> {
    events::named("--log-full", name, &LogFullPolicy::ALL)
}

/// Names of the disk engines.
pub const DISK_ENGINES: [(&str, Io); 3] = [
    ("auto", Io::Auto),
    ("uring", Io::Uring),
    ("plain", Io::Plain),
];

/// The disk engine with this name, given as the value of `option`.
///
/// # Errors
/// [`JobError::Config`], with all valid names.
pub fn disk_engine(option: &str, name: &str) -> Result<Io, JobError> {
    events::named(option, name, &DISK_ENGINES)
}

fn unknown(kind: &str, choices: &[Choice], name: &str) -> JobError {
    let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
    JobError::Config(format!(
        "unknown {kind} {name:?}: choose one of {}",
        names.join(", ")
    ))
}

/// A value of `--fabric`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FabricChoice {
    /// Chosen for each pair of ranks by their hosts.
    Auto,
    /// Shared memory.
    Shm,
    /// An RDMA device, through libibverbs.
    Verbs,
    /// libfabric with this provider; `None`: with the best usable one.
    Ofi(Option<String>),
}

impl FabricChoice {
    /// Parses a value of `--fabric`.
    ///
    /// # Errors
    /// [`JobError::Config`], with all valid names.
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

/// The value of `--fabric`.
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
    fn an_unknown_name_is_answered_with_all_that_exist() {
        for choice in FABRICS {
            check_fabric(choice.name).unwrap();
        }
        for choice in PROTOCOLS {
            check_protocol(choice.name).unwrap();
        }
        let message = check_fabric("tcp").unwrap_err().to_string();
        assert_eq!(
            message,
            "unknown fabric \"tcp\": choose one of auto, shm, verbs, ofi, ofi:PROVIDER"
        );
        let message = check_protocol("").unwrap_err().to_string();
        assert!(message.contains("none, pessimist"), "{message}");
    }

    #[test]
    fn the_default_settings_are_choices() {
        check(&JobConfig::default()).unwrap();
    }

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
