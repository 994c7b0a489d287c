//! Jobs of the test program.

use refrain_job::choice::events::Loggers;
use refrain_job::config::{JobConfig, RecoveryConfig};
use refrain_launch::{EventLoggerSpec, JobSpec, Program};

/// A job of the test program; `steps` are separated by blanks.
pub fn spec(ranks: u32, steps: &str) -> JobSpec {
    let mut program = std::env::current_exe().unwrap();
    program.pop();
    program.set_file_name("examples");
    JobSpec {
        programs: vec![Program {
            path: program.join("refrain-test-rank"),
            arguments: steps.split_whitespace().map(Into::into).collect(),
            ranks,
            ..Program::default()
        }],
        ..JobSpec::default()
    }
}

/// As [`spec`], but ranks are restarted. No rank connects to the address of the event logger.
pub fn restarting(ranks: u32, max_restarts: u32, steps: &str) -> JobSpec {
    JobSpec {
        config: JobConfig {
            protocol: "pessimist".into(),
            recovery: RecoveryConfig {
                max_restarts,
                ..RecoveryConfig::default()
            },
            ..JobConfig::default()
        },
        event_loggers: EventLoggerSpec {
            loggers: Some(Loggers::Running(vec![vec![
                "unix:/nowhere".parse().unwrap(),
            ]])),
            ..EventLoggerSpec::default()
        },
        ..spec(ranks, steps)
    }
}
