//! Choice of the libfabric provider for a job.

use super::FabricChoice;
use crate::JobError;
use crate::config::JobConfig;
use refrain_transport::fabric::FabricError;
use refrain_transport::fabric::ofi::{self, Provider};
use std::path::Path;

/// Providers in the order of preference between hosts: NICs with remote memory access, then the
/// host's network.
const ORDER: [&str; 9] = [
    "cxi", "efa", "opx", "psm3", "psm2", "verbs", "usnic", "tcp", "net",
];
/// Providers that do not reach other hosts.
const ONE_HOST: [&str; 2] = ["shm", "sm2"];

/// The providers that libfabric offers on this machine.
///
/// # Errors
/// [`JobError::Config`] if the library cannot be used: what was tried and what to do.
pub fn installed(library: Option<&Path>) -> Result<Vec<Provider>, JobError> {
    ofi::providers(library).map_err(|error| unusable(&error))
}

/// The version of libfabric, as `1.17`.
///
/// # Errors
/// As [`installed`].
pub fn library_version(library: Option<&Path>) -> Result<String, JobError> {
    ofi::library_version(library).map_err(|error| unusable(&error))
}

fn unusable(error: &FabricError) -> JobError {
    JobError::Config(format!("the fabric ofi cannot be used: {error}"))
}

/// The best provider between hosts, and the reason for the choice.
#[derive(Clone, Debug)]
pub struct Best<'a> {
    /// The provider.
    pub provider: &'a Provider,
    /// The reason, such as `best of tcp, net`.
    pub reason: String,
}

/// The best usable provider that reaches other hosts.
pub fn best(found: &[Provider]) -> Option<Best<'_>> {
    let mut usable: Vec<&Provider> = found
        .iter()
        .filter(|provider| provider.usable.is_ok() && !ONE_HOST.contains(&core(&provider.name)))
        .collect();
    // A provider that is layered over another one (tcp;ofi_rxm) comes after that one.
    usable.sort_by_key(|provider| (place(&provider.name), provider.name.len()));
    usable.dedup_by(|a, b| a.name == b.name);
    let names: Vec<&str> = usable
        .iter()
        .map(|provider| provider.name.as_str())
        .collect();
    let reason = match names[..] {
        [_] => "the only provider here that reaches other hosts".into(),
        _ => format!("best of {}", names.join(", ")),
    };
    usable.first().map(|provider| Best { provider, reason })
}

/// The lower provider in a layered name: `tcp` of `tcp;ofi_rxm`.
fn core(name: &str) -> &str {
    name.split(';').next().unwrap_or(name)
}

fn place(name: &str) -> usize {
    let known = ORDER.iter().position(|known| *known == core(name));
    known.unwrap_or(ORDER.len())
}

/// Names of the usable providers, without repetitions.
pub fn usable_names(found: &[Provider]) -> Vec<&str> {
    let mut names: Vec<&str> = found
        .iter()
        .filter(|provider| provider.usable.is_ok())
        .map(|provider| provider.name.as_str())
        .collect();
    names.dedup();
    names
}

/// Checks that `name` is a usable provider, or (`tcp`) that a layered one (`tcp;ofi_rxm`), which
/// libfabric adds by itself, is usable.
fn check(found: &[Provider], name: &str) -> Result<(), JobError> {
    let meant = || {
        found
            .iter()
            .filter(|provider| provider.name == name || core(&provider.name) == name)
    };
    if meant().any(|provider| provider.usable.is_ok()) {
        return Ok(());
    }
    let usable = usable_names(found).join(", ");
    let why = meant().find_map(|provider| provider.usable.as_ref().err());
    Err(JobError::Config(match why {
        Some(why) => {
            format!("libfabric's provider {name:?} cannot be used here: {why}; usable are {usable}")
        }
        None => format!(
            "libfabric has no provider {name:?} on this machine: choose one of {usable} (see refrain info --providers)"
        ),
    }))
}

/// Chooses and checks the provider of a job with `--fabric ofi`, before any rank is started:
/// afterwards `config` names a provider. Libfabric need not be installed for a job that may not
/// use it.
///
/// # Errors
/// [`JobError::Config`]: an unknown or unusable provider, or a library that cannot be used.
pub fn resolve(config: &mut JobConfig) -> Result<(), JobError> {
    let FabricChoice::Ofi(provider) = FabricChoice::parse(&config.fabric)? else {
        return Ok(());
    };
    let found = installed(config.libfabric.as_ref().map(Path::new))?;
    match provider {
        Some(name) => check(&found, &name),
        None => {
            let name = best_name(&found)?.0;
            config.fabric = FabricChoice::Ofi(Some(name)).to_string();
            Ok(())
        }
    }
}

/// Name of the best provider between hosts, and the reason for the choice.
///
/// # Errors
/// [`JobError::Config`] if there is none: all providers that were found, each with the reason.
pub fn best_name(found: &[Provider]) -> Result<(String, String), JobError> {
    let reasons = || {
        let each = found.iter().map(|provider| match &provider.usable {
            Ok(()) => format!("{} stays on one host", provider.name),
            Err(why) => format!("{}: {why}", provider.name),
        });
        each.collect::<Vec<_>>().join("; ")
    };
    best(found)
        .map(|best| (best.provider.name.clone(), best.reason))
        .ok_or_else(|| {
            JobError::Config(format!(
                "libfabric has no provider here that reaches other hosts ({})",
                reasons()
            ))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn working(name: &str) -> Provider {
        Provider {
            name: name.into(),
            version: (1, 17),
            usable: Ok(()),
            long_messages: "messages",
            sleeps: "descriptor",
            inject_bytes: 64,
            message_completion: "",
            write_completion: "",
        }
    }

    fn broken(name: &str) -> Provider {
        Provider {
            usable: Err(format!("no {name} today")),
            ..working(name)
        }
    }

    fn best_of(names: &[&str]) -> Option<String> {
        let found: Vec<Provider> = names.iter().map(|name| working(name)).collect();
        best(&found).map(|best| best.provider.name.clone())
    }

    #[test]
    fn tcp_is_best_unless_a_nic_does_better() {
        assert_eq!(
            best_of(&["shm", "strange", "tcp;ofi_rxm", "tcp", "net"]).unwrap(),
            "tcp"
        );
        assert_eq!(best_of(&["net", "tcp;ofi_rxm"]).unwrap(), "tcp;ofi_rxm");
        assert_eq!(best_of(&["tcp", "verbs;ofi_rxm"]).unwrap(), "verbs;ofi_rxm");
        assert_eq!(best_of(&["tcp", "verbs", "efa"]).unwrap(), "efa");
        assert_eq!(best_of(&["strange", "net"]).unwrap(), "net");
        assert_eq!(best_of(&["shm", "sm2"]), None, "they stay on one host");
        assert_eq!(
            best(&[broken("verbs"), working("tcp")])
                .unwrap()
                .provider
                .name,
            "tcp"
        );
    }

    #[test]
    fn the_reason_names_those_that_were_chosen_from() {
        let found = [working("net"), broken("verbs"), working("tcp")];
        assert_eq!(best(&found).unwrap().reason, "best of tcp, net");
        let only = best(&found[..1]).unwrap().reason;
        assert!(only.contains("only"), "{only}");
        let message = best_name(&[broken("udp"), working("shm")])
            .unwrap_err()
            .to_string();
        assert!(
            message.contains("udp: no udp today") && message.contains("shm stays on one host"),
            "{message}"
        );
    }

    #[test]
    fn a_provider_is_meant_by_its_own_name_or_its_layers() {
        let found = [
            broken("tcp"),
            working("tcp;ofi_rxm"),
            broken("udp"),
            working("shm"),
        ];
        for name in ["tcp", "tcp;ofi_rxm", "shm"] {
            check(&found, name).unwrap();
        }
        let message = check(&found, "udp").unwrap_err().to_string();
        assert!(message.contains("no udp today"), "{message}");
        let message = check(&found, "warp").unwrap_err().to_string();
        assert!(
            message.contains("\"warp\"") && message.contains("tcp;ofi_rxm, shm"),
            "{message}"
        );
        check(&found, "ofi_rxm").unwrap_err();
    }
}
