//! The fabrics and protocols that can be chosen by name: the one list that the
//! command line, the launcher and `refrain info` use.

use crate::config::JobConfig;
use crate::{Error, native};
use refrain_logging::Member;

/// One thing that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// As written on the command line.
    pub name: &'static str,
    /// What it is, in a few words.
    pub summary: &'static str,
}

/// What `--fabric` takes.
pub const FABRICS: &[Choice] = &[
    Choice {
        name: "auto",
        summary: "the best one for where the ranks run",
    },
    Choice {
        name: "shm",
        summary: "shared memory of one host; the receiver reads the sender's log",
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

/// Checks the name of a fabric.
///
/// # Errors
/// [`Error::Config`], with all names that exist.
pub fn check_fabric(name: &str) -> Result<(), Error> {
    check_name("fabric", FABRICS, name)
}

/// Checks the name of a protocol.
///
/// # Errors
/// [`Error::Config`], with all names that exist.
pub fn check_protocol(name: &str) -> Result<(), Error> {
    check_name("protocol", PROTOCOLS, name)
}

/// Checks the names in a job's settings.
///
/// # Errors
/// [`Error::Config`].
pub fn check(config: &JobConfig) -> Result<(), Error> {
    check_fabric(&config.fabric)?;
    check_protocol(&config.protocol)
}

fn check_name(kind: &str, choices: &[Choice], name: &str) -> Result<(), Error> {
    if choices.iter().any(|choice| choice.name == name) {
        return Ok(());
    }
    let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
    Err(Error::Config(format!(
        "there is no {kind} {name:?}: choose one of {}",
        names.join(", ")
    )))
}

/// What `auto` stands for on this host, and why.
pub fn auto_fabric() -> (&'static str, &'static str) {
    (
        "shm",
        "all ranks of a job run on this host, and nothing is faster between them",
    )
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

/// All fabrics, also those to come, as found on this machine.
pub fn fabrics() -> Vec<Availability> {
    let libfabric = native::libfabric_version().map_or_else(
        |why| format!("libfabric.so.1 not found ({why}); the ofi fabric comes later"),
        |(major, minor)| {
            format!("libfabric.so.1 found, version {major}.{minor}; the ofi fabric comes later")
        },
    );
    let verbs = native::has_libibverbs().map_or_else(
        |why| format!("libibverbs.so.1 not found ({why}); the verbs fabric comes later"),
        |()| "libibverbs.so.1 found; the verbs fabric comes later".into(),
    );
    vec![
        Availability {
            name: "shm",
            usable: true,
            reason: "built in, needs nothing".into(),
        },
        Availability {
            name: "ofi",
            usable: false,
            reason: libfabric,
        },
        Availability {
            name: "verbs",
            usable: false,
            reason: verbs,
        },
    ]
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
            "there is no fabric \"tcp\": choose one of auto, shm"
        );
        let message = check_protocol("").unwrap_err().to_string();
        assert!(message.contains("none, pessimist"), "{message}");
    }

    #[test]
    fn the_default_settings_and_auto_are_choices() {
        check(&JobConfig::default()).unwrap();
        let (fabric, _) = auto_fabric();
        check_fabric(fabric).unwrap();
        assert!(
            fabrics()
                .iter()
                .any(|found| found.name == fabric && found.usable)
        );
    }
}
