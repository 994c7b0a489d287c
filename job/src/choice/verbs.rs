//! Choice of the RDMA port of a job, and settings of libfabric's verbs.

use super::FabricChoice;
use crate::JobError;
use crate::config::{JobConfig, VerbsConfig};
use refrain_eventlog::remote::VERBS;
use refrain_transport::fabric::verbs::{self, PortChoice};
use std::ffi::OsString;
use std::path::Path;

/// Variable with the device's name, used by a rank if the command line has none: devices may have
/// different names on different hosts.
pub const DEVICE_VARIABLE: &str = "REFRAIN_VERBS_DEVICE";

/// Number of peers for which libfabric sizes its queues. Its default is 256, which is too many for
/// soft-RoCE.
const PEERS_VARIABLE: &str = "FI_UNIVERSE_SIZE";
/// The minimum: event loggers are peers, too.
const PEERS_MIN: u32 = 16;

/// The requested port, from the job's settings or else from this process's environment.
pub fn port(config: &VerbsConfig) -> PortChoice {
    let of_environment = || std::env::var(DEVICE_VARIABLE).ok();
    PortChoice {
        device: (config.device.clone().or_else(of_environment)).filter(|name| !name.is_empty()),
        port: config.port,
        gid_index: config.gid_index,
        mtu_bytes: config.mtu_bytes,
    }
}

/// The library's file; `None`: the one that the loader finds.
pub fn library(config: &VerbsConfig) -> Option<&Path> {
    config.library.as_ref().map(Path::new)
}

/// Describes the port that would be used here.
///
/// # Errors
/// [`JobError::Config`] if there is none: what was tried, what was found, and what to do.
pub fn usable(config: &VerbsConfig) -> Result<String, JobError> {
    verbs::choose(library(config), &port(config))
        .map(|chosen| chosen.to_string())
        .map_err(|error| JobError::Config(format!("the fabric verbs cannot be used: {error}")))
}

/// Checks, before any rank is started, that a job with `--fabric verbs` has a usable port.
///
/// # Errors
/// As [`usable`].
pub fn check(config: &JobConfig) -> Result<(), JobError> {
    match FabricChoice::parse(&config.fabric)? {
        FabricChoice::Verbs => usable(&config.verbs).map(drop),
        _ => Ok(()),
    }
}

/// Whether a provider for events is verbs, or one of libfabric over verbs.
pub fn is_under(provider: &str) -> bool {
    provider.split(';').any(|layer| layer == VERBS)
}

/// The environment variable with which libfabric's verbs provider requests no more of the device
/// than it has, for ranks and event loggers.
pub fn environment(config: &JobConfig, ranks: u32) -> Option<(OsString, OsString)> {
    let of_fabric = match FabricChoice::parse(&config.fabric) {
        Ok(FabricChoice::Ofi(provider)) => provider,
        _ => None,
    };
    let of_events = config.events.way.strip_prefix("ofi:");
    let mut providers = of_fabric.as_deref().into_iter().chain(of_events);
    let is_set = std::env::var_os(PEERS_VARIABLE).is_some();
    (providers.any(is_under) && !is_set).then(|| {
        let peers = ranks.max(PEERS_MIN);
        (PEERS_VARIABLE.into(), peers.to_string().into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(fabric: &str) -> JobConfig {
        JobConfig {
            fabric: fabric.into(),
            ..JobConfig::default()
        }
    }

    #[test]
    fn libfabric_gets_the_size_of_the_job_for_verbs_only() {
        let told = |fabric: &str, ranks| {
            let told = environment(&on(fabric), ranks)?;
            assert_eq!(told.0, PEERS_VARIABLE);
            told.1.into_string().ok()
        };
        for fabric in ["ofi:verbs", "ofi:verbs;ofi_rxm"] {
            assert_eq!(told(fabric, 2).as_deref(), Some("16"));
            assert_eq!(told(fabric, 100).as_deref(), Some("100"));
        }
        for fabric in ["ofi:tcp", "ofi", "verbs", "shm", "auto"] {
            assert_eq!(told(fabric, 100), None, "{fabric}");
        }
        let mut config = on("ofi:tcp");
        config.events.way = "ofi:verbs;ofi_rxm".into();
        assert!(environment(&config, 2).is_some(), "events go by it");
        config.events.way = "verbs".into();
        assert_eq!(environment(&config, 2), None);
    }

    #[test]
    fn only_a_job_on_verbs_is_asked_for_a_device() {
        let mut config = on("shm");
        config.verbs.device = Some("no-such-device".into());
        check(&config).unwrap();
        config.fabric = "verbs".into();
        let message = check(&config).unwrap_err().to_string();
        assert!(
            message.contains("the fabric verbs cannot be used: "),
            "{message}"
        );
    }

    #[test]
    fn the_settings_of_the_job_name_the_port() {
        let config = VerbsConfig {
            library: None,
            device: Some("mlx5_0".into()),
            port: Some(2),
            gid_index: Some(3),
            mtu_bytes: Some(4096),
        };
        let expected = PortChoice {
            device: Some("mlx5_0".into()),
            port: Some(2),
            gid_index: Some(3),
            mtu_bytes: Some(4096),
        };
        assert_eq!(port(&config), expected);
    }
}
