//! The fabrics and protocols that can be chosen by name: the one list that the
//! command line, the launcher, ranks and `refrain info` use.

pub mod events;
mod fabric;
pub mod library;
pub mod provider;
pub mod verbs;

pub use fabric::FabricChoice;
pub use refrain_transport::fabric::ofi::Provider;

use crate::JobError;
use crate::config::{Divergence, JobConfig};
use refrain_logging::Member;
use refrain_logging::store::disk::DiskEngine;
use std::path::Path;

/// One thing that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// As written on the command line.
    pub name: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
}

/// What `--fabric` takes. [`check_fabric`] says whether a name is one of them.
pub const FABRICS: &[Choice] = &[
    Choice {
        name: "auto",
        summary: "shm between ranks on one host; between hosts verbs, or else ofi",
    },
    Choice {
        name: "shm",
        summary: "shared memory of one host; the receiver reads the sender's log",
    },
    Choice {
        name: "verbs",
        summary: "an RDMA device (InfiniBand, RoCE, soft-RoCE) by libibverbs",
    },
    Choice {
        name: "ofi",
        summary: "libfabric, by the best of its providers that is usable here",
    },
    Choice {
        name: "ofi:PROVIDER",
        summary: "libfabric by one provider; `refrain info --providers` lists them",
    },
];

/// What `--protocol` takes: the members of the protocol family.
pub const PROTOCOLS: &[Choice] = &{
    let mut choices = [Choice {
        name: "",
        summary: "",
    }; Member::ALL.len()];
    let mut index = 0;
    while index < choices.len() {
        let member = Member::ALL[index];
        choices[index] = Choice {
            name: member.name(),
            summary: member.summary(),
        };
        index += 1;
    }
    choices
};

/// Checks the form of a fabric's name. Whether a provider is installed is for
/// [`provider::resolve`] to say.
///
/// # Errors
/// [`JobError::Config`], with all names that exist.
pub fn check_fabric(name: &str) -> Result<(), JobError> {
    FabricChoice::parse(name).map(drop)
}

/// Checks the name of a protocol.
///
/// # Errors
/// [`JobError::Config`], with all names that exist.
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
    events::way(&config.events.way).map(drop)
}

/// What `--divergence` calls by this name.
///
/// # Errors
/// [`JobError::Config`], with all names that exist.
pub fn divergence(name: &str) -> Result<Divergence, JobError> {
    events::named("--divergence", name, &Divergence::ALL)
}

/// How the log is written to disk, by the names that `--spill-io` takes.
pub const SPILL_IO: [(&str, DiskEngine); 3] = [
    ("auto", DiskEngine::Auto),
    ("uring", DiskEngine::Uring),
    ("plain", DiskEngine::Plain),
];

/// The disk engine that has this name.
///
/// # Errors
/// [`JobError::Config`], with all names that exist.
pub fn spill_io(name: &str) -> Result<DiskEngine, JobError> {
    events::named("--spill-io", name, &SPILL_IO)
}

fn unknown(kind: &str, choices: &[Choice], name: &str) -> JobError {
    let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
    JobError::Config(format!(
        "unknown {kind} {name:?}: choose one of {}",
        names.join(", ")
    ))
}

/// What `auto` stands for on this host, and why; `verbs` is the RDMA port that
/// would be used, or why none, `providers` are those of libfabric, or why there are
/// none.
pub fn auto_fabric(
    verbs: Result<&str, &str>,
    providers: Result<&[Provider], &str>,
) -> (String, String) {
    let inside = "nothing is faster between ranks of one host than shm";
    if let Ok(port) = verbs {
        return (
            "shm, verbs between hosts".into(),
            format!("{inside}; there is an RDMA port ({port})"),
        );
    }
    match providers.map(provider::best) {
        Ok(Some(best)) => (
            format!("shm, ofi:{} between hosts", best.provider.name),
            format!("{inside}; {}", best.reason),
        ),
        Ok(None) => (
            "shm".into(),
            format!("{inside}; no provider of libfabric can be used between hosts"),
        ),
        Err(why) => (
            "shm".into(),
            format!("{inside}; between hosts nothing is available: {why}"),
        ),
    }
}

/// A fabric as found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// The fabric, or the library it will use.
    pub name: &'static str,
    /// It can be chosen now.
    pub usable: bool,
    /// What was found, and why it can or cannot be used.
    pub reason: String,
}

/// All fabrics as found on this machine; the arguments are as those of
/// [`auto_fabric`].
pub fn fabrics(
    verbs: Result<&str, &str>,
    providers: Result<&[Provider], &str>,
) -> Vec<Availability> {
    let (ofi_usable, ofi) = match providers {
        Err(why) => (false, why.to_owned()),
        Ok(found) => match provider::usable_names(found) {
            names if names.is_empty() => (false, "no provider of libfabric can be used".into()),
            names => (
                true,
                format!("{} (refrain info --providers)", names.join(", ")),
            ),
        },
    };
    vec![
        Availability {
            name: "shm",
            usable: true,
            reason: "built in, needs nothing".into(),
        },
        Availability {
            name: "verbs",
            usable: verbs.is_ok(),
            reason: verbs.map_or_else(str::to_owned, |port| {
                format!("{port} (refrain info --verbs)")
            }),
        },
        Availability {
            name: "ofi",
            usable: ofi_usable,
            reason: ofi,
        },
    ]
}

/// The version of libfabric, as `1.17`, or one line as [`providers`] has it.
///
/// # Errors
/// That line.
pub fn library_version(library: Option<&Path>) -> Result<String, String> {
    provider::library_version(library).map_err(|error| error.to_string())
}

/// The providers of libfabric, or one line that says why there are none and
/// what to do.
///
/// # Errors
/// That line.
pub fn providers(library: Option<&Path>) -> Result<Vec<Provider>, String> {
    provider::installed(library).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::provider::tests::{broken, working};
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
    fn auto_says_what_it_takes_between_hosts_or_why_nothing() {
        let found = [working("tcp"), working("sockets"), broken("verbs")];
        let none = Err("no device");
        let (stands_for, why) = auto_fabric(none, Ok(&found));
        assert_eq!(stands_for, "shm, ofi:tcp between hosts");
        assert!(why.contains("best of tcp, sockets"), "{why}");
        let (stands_for, _) = auto_fabric(none, Ok(&[broken("verbs")]));
        assert_eq!(stands_for, "shm");
        let (stands_for, why) = auto_fabric(none, Err("libfabric.so.1 is missing: install it"));
        assert_eq!(stands_for, "shm");
        assert!(why.contains("install it"), "{why}");
        let (stands_for, why) = auto_fabric(Ok("rxe0:1"), Ok(&found));
        assert_eq!(stands_for, "shm, verbs between hosts");
        assert!(why.contains("rxe0:1"), "{why}");
    }

    #[test]
    fn what_is_found_is_listed_with_the_reason() {
        let state = |providers: Result<&[Provider], &str>| {
            let mut found = fabrics(Err("no device"), providers);
            assert_eq!(found.remove(0).name, "shm");
            let verbs = found.remove(0);
            assert_eq!((verbs.usable, &*verbs.reason), (false, "no device"));
            let ofi = found.remove(0);
            (ofi.usable, ofi.reason)
        };
        let (usable, reason) = state(Ok(&[working("tcp"), broken("udp")]));
        assert!(usable && reason.starts_with("tcp ("), "{reason}");
        assert!(!state(Ok(&[broken("udp")])).0);
        assert_eq!(state(Err("no library")), (false, "no library".into()));
    }

    #[test]
    fn verbs_are_listed_with_the_reason() {
        let state = |port| fabrics(port, Err("no library")).remove(1);
        let (without, with) = (state(Err("install it")), state(Ok("rxe0, port 1")));
        assert_eq!((without.name, with.name), ("verbs", "verbs"));
        assert_eq!((without.usable, &*without.reason), (false, "install it"));
        assert!(with.usable && with.reason.starts_with("rxe0, port 1"));
    }
}
