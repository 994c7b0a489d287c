//! The options about where events become stable.

use super::{NetpipeError, wrong};
use refrain_job::choice::events;
use refrain_job::config::{EventConfig, Quorum};
use refrain_launch::EventLoggerSpec;

/// Where events become stable.
#[derive(Clone, Debug, clap::Args)]
// Two structs of one name would be one group.
#[group(skip)]
pub struct Options {
    /// How many loggers each job of a protocol that logs events has
    #[arg(long, value_name = "R", default_value_t = 1)]
    pub event_replicas: u32,
    /// What makes an event stable at one of them
    #[arg(long, value_name = "placed|durable", default_value = "placed")]
    pub stable: String,
    /// At how many of them
    #[arg(long, value_name = "majority|all", default_value = "majority")]
    pub stable_quorum: String,
    /// How ranks commit: auto, shm, messages or ofi:PROVIDER
    #[arg(long, value_name = "WAY", default_value = "auto")]
    pub event_way: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            event_replicas: 1,
            stable: "placed".into(),
            stable_quorum: "majority".into(),
            event_way: "auto".into(),
        }
    }
}

/// The same, checked.
#[derive(Clone, Debug)]
pub struct EventSettings {
    /// What ranks are told.
    pub config: EventConfig,
    /// What the launcher starts.
    pub loggers: EventLoggerSpec,
}

impl Options {
    /// Checks the options.
    pub fn check(self) -> Result<EventSettings, NetpipeError> {
        let refused = |option, error: refrain_job::JobError| {
            wrong(option, error.to_string(), "see refrain run --help")
        };
        if !(1..=events::REPLICAS_MAX).contains(&self.event_replicas) {
            return Err(wrong(
                "--event-replicas",
                format!("{} loggers cannot be started", self.event_replicas),
                format!("give 1 to {}", events::REPLICAS_MAX),
            ));
        }
        let quorum: Quorum = events::quorum(&self.stable_quorum)
            .map_err(|error| refused("--stable-quorum", error))?;
        events::way(&self.event_way).map_err(|error| refused("--event-way", error))?;
        Ok(EventSettings {
            config: EventConfig {
                level: events::level(&self.stable).map_err(|error| refused("--stable", error))?,
                quorum,
                way: self.event_way,
                ..EventConfig::default()
            },
            loggers: EventLoggerSpec {
                replicas: self.event_replicas,
                ..EventLoggerSpec::default()
            },
        })
    }
}
