//! Settings of event loggers, by their names.

use crate::JobError;
use crate::config::Quorum;
use refrain_eventlog::Level;
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::message::CommitPath;
use refrain_eventlog::remote::VERBS;

/// The path of a rank's commits to a logger, as chosen by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitPathChoice {
    /// Shared memory if the logger is on the same host, else messages.
    Auto,
    /// This path.
    Fixed(CommitPath),
    /// RMA writes through this provider of libfabric, or through verbs.
    Provider(String),
}

/// The level with this name.
///
/// # Errors
/// [`JobError::Config`], with all valid names.
pub fn level(name: &str) -> Result<Level, JobError> {
    named("--stable", name, &Level::ALL)
}

/// The quorum with this name.
///
/// # Errors
/// [`JobError::Config`], with all valid names.
pub fn quorum(name: &str) -> Result<Quorum, JobError> {
    named("--stable-quorum", name, &Quorum::ALL)
}

/// The commit path with this name.
///
/// # Errors
/// [`JobError::Config`], with all valid names.
pub fn commit_path(name: &str) -> Result<CommitPathChoice, JobError> {
    Ok(match name.split_once(':') {
        None if name == "auto" => CommitPathChoice::Auto,
        None if name == "shm" => CommitPathChoice::Fixed(CommitPath::SharedMemory),
        None if name == "messages" => CommitPathChoice::Fixed(CommitPath::Messages),
        None if name == VERBS => CommitPathChoice::Provider(VERBS.into()),
        Some(("ofi", VERBS)) => {
            return Err(JobError::Config(
                "--event-way: libfabric's provider verbs does not document its completions: \
                 choose verbs, which needs no libfabric"
                    .into(),
            ));
        }
        Some(("ofi", provider)) if !provider.is_empty() => {
            CommitPathChoice::Provider(provider.into())
        }
        _ => {
            return Err(JobError::Config(format!(
                "--event-way: unknown value {name:?}: choose one of auto, shm, messages, verbs, ofi:PROVIDER"
            )));
        }
    })
}

/// The event loggers of a job, as `--event-loggers` names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loggers {
    /// The launcher starts this number of shards.
    Started(u32),
    /// Running loggers: by shard, its replicas.
    Running(Vec<Vec<ServerAddress>>),
}

/// Maximum number of shards that a launcher starts.
pub const SHARDS_MAX: u32 = 64;
/// Maximum number of replicas of one shard.
pub const REPLICAS_MAX: u32 = 9;

/// Parses `K`, or addresses: commas between shards, plus signs between the replicas of a shard.
///
/// # Errors
/// [`JobError::Config`], with valid values.
pub fn loggers(text: &str) -> Result<Loggers, JobError> {
    if let Ok(shards) = text.parse::<u32>() {
        return match shards {
            0..=SHARDS_MAX => Ok(Loggers::Started(shards)),
            _ => Err(JobError::Config(format!(
                "--event-loggers {shards}: use 0 to {SHARDS_MAX}"
            ))),
        };
    }
    let shard = |text: &str| {
        text.split('+')
            .map(str::parse)
            .collect::<Result<Vec<ServerAddress>, _>>()
    };
    let shards: Vec<Vec<ServerAddress>> = text
        .split(',')
        .map(shard)
        .collect::<Result<_, _>>()
        .map_err(|error| {
            JobError::Config(format!(
                "--event-loggers: {error}; or use a number of shards to start. \
                 Separate shards by commas, replicas of a shard by plus signs"
            ))
        })?;
    let replicas = shards.first().map_or(0, Vec::len);
    if replicas > REPLICAS_MAX as usize || shards.iter().any(|shard| shard.len() != replicas) {
        return Err(JobError::Config(format!(
            "--event-loggers: name the same number of replicas for each shard, at most {REPLICAS_MAX}"
        )));
    }
    Ok(Loggers::Running(shards))
}

pub(super) fn named<T: Copy>(option: &str, name: &str, all: &[(&str, T)]) -> Result<T, JobError> {
    let found = all.iter().find(|(known, _)| *known == name);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
        JobError::Config(format!(
            "{option}: unknown value {name:?}: choose one of {}",
            names.join(", ")
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_others_are_answered_with_all_that_exist() {
        assert_eq!(level("durable").unwrap(), Level::Durable);
        assert_eq!(quorum("all").unwrap(), Quorum::All);
        assert_eq!(
            commit_path("shm").unwrap(),
            CommitPathChoice::Fixed(CommitPath::SharedMemory)
        );
        assert_eq!(
            commit_path("ofi:tcp").unwrap(),
            CommitPathChoice::Provider("tcp".into())
        );
        assert_eq!(
            commit_path("verbs").unwrap(),
            CommitPathChoice::Provider("verbs".into())
        );
        let error = commit_path("ofi:verbs").unwrap_err().to_string();
        assert!(error.contains("choose verbs"), "{error}");
        for (error, names) in [
            (level("safe").unwrap_err(), "placed, durable"),
            (quorum("2").unwrap_err(), "majority, all"),
            (
                commit_path("ofi:").unwrap_err(),
                "auto, shm, messages, verbs, ofi:PROVIDER",
            ),
        ] {
            assert!(error.to_string().ends_with(names), "{error}");
        }
    }

    #[test]
    fn loggers_are_a_number_or_addresses() {
        assert_eq!(loggers("3").unwrap(), Loggers::Started(3));
        let Loggers::Running(shards) = loggers("unix:/a+unix:/b,unix:/c+tcp:h:1").unwrap() else {
            panic!("addresses are not started");
        };
        assert_eq!(shards.len(), 2);
        assert_eq!(shards[1][1].to_string(), "tcp:h:1");
        for wrong in [
            "-1",
            "65",
            "",
            "unix:/a,",
            "unix:/a+unix:/b,unix:/c",
            "here",
        ] {
            assert!(loggers(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_majority_is_more_than_half() {
        let majorities = [1, 2, 3, 4, 5].map(|replicas| Quorum::Majority.of(replicas));
        assert_eq!(majorities, [1, 2, 2, 3, 3]);
        assert_eq!(Quorum::All.of(3), 3);
    }
}
