//! `refrain run`.

mod arguments;

pub use arguments::Arguments;

use crate::{secret, statistics};
use miette::{IntoDiagnostic, Report, miette};
use refrain_checkpoint::{Place, ServerAddress};
use refrain_job::JobError;
use refrain_job::choice::events::Loggers;
use refrain_job::config::{EventConfig, JobConfig, RecoveryConfig, VerbsConfig};
use refrain_job::stderr::{print, report};
use refrain_launch::leftovers;
use refrain_launch::{
    EventLoggerSpec, FaultSpec, HostsSpec, Job, JobSpec, LaunchError, MAX_RESTARTS_DEFAULT,
    Outcome, Output, can_recover,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Status for arguments and settings that cannot be used, as for a wrong command line.
const USAGE: u8 = 2;
/// Status of shells for a program that may not be executed …
const NOT_EXECUTABLE: u8 = 126;
/// … and for one that does not exist.
const NOT_FOUND: u8 = 127;

/// Running loggers, with their secret.
fn sealed(loggers: Loggers, file: Option<&Path>) -> miette::Result<Loggers> {
    let (Loggers::Running(mut shards), Some(file)) = (loggers.clone(), file) else {
        return match file {
            None => Ok(loggers),
            Some(_) => Err(miette!(
                "--event-secret has no effect with event loggers that this job starts: name the addresses of running ones with --event-loggers"
            )),
        };
    };
    let secret = secret::read("--event-secret", file)?;
    for address in shards.iter_mut().flatten() {
        *address = address.clone().sealed(&secret);
    }
    Ok(Loggers::Running(shards))
}

/// The place of checkpoints: a server with its secret.
fn sealed_place(place: Option<String>, file: Option<&Path>) -> miette::Result<Option<String>> {
    let Some(file) = file else { return Ok(place) };
    match place.as_deref().map(str::parse) {
        Some(Ok(Place::Server(
            address @ (ServerAddress::Tcp(_) | ServerAddress::Sealed { .. }),
        ))) => {
            let secret = secret::read("--checkpoint-secret", file)?;
            Ok(Some(address.sealed(&secret).to_secret_text()))
        }
        _ => Err(miette!(
            "--checkpoint-secret has no effect without a server at a tcp: address: use --checkpoint-dir tcp:HOST:PORT"
        )),
    }
}

/// The words of the remote shell command; empty for ssh.
fn ssh(given: Option<String>) -> Vec<OsString> {
    let given = given.or_else(|| std::env::var("REFRAIN_SSH").ok());
    let words = given.unwrap_or_default();
    words.split_ascii_whitespace().map(Into::into).collect()
}

/// Runs the job; its status is the result.
pub fn run(arguments: Arguments) -> miette::Result<ExitCode> {
    let mut command = arguments.command.into_iter();
    let program = command
        .next()
        .ok_or_else(|| miette!("no program is given: name it after --"))?;
    let restarts_default = match can_recover(&arguments.protocol) {
        true => MAX_RESTARTS_DEFAULT,
        false => 0,
    };
    let spec = JobSpec {
        program: program.into(),
        arguments: command.collect(),
        environment: Vec::new(),
        ranks: arguments.ranks,
        config: JobConfig {
            fabric: arguments.fabric,
            protocol: arguments.protocol,
            log_memory_bytes: arguments.log_memory,
            log_prefault: arguments.log.log_prefault,
            log_full_wait_ms: arguments.log.log_full_wait,
            spill_dir: arguments.log.spill_dir,
            log_disk_bytes: arguments.log.log_disk,
            spill_after_bytes: arguments.log.spill_after,
            spill_io: arguments.log.spill_io,
            keep_log: arguments.log.keep_log,
            libfabric: arguments.fabric_options.libfabric,
            verbs: VerbsConfig {
                library: arguments.fabric_options.libibverbs,
                device: arguments.fabric_options.verbs_device,
                port: arguments.fabric_options.verbs_port,
                gid_index: arguments.fabric_options.verbs_gid_index,
                mtu_bytes: arguments.fabric_options.verbs_mtu,
            },
            peer_timeout_ms: arguments.fabric_options.peer_timeout,
            suspect_after_ms: arguments.fabric_options.suspect_after.milliseconds,
            events: EventConfig {
                level: arguments.events.stable,
                quorum: arguments.events.stable_quorum,
                way: arguments.events.event_way,
                wait_ms: arguments.events.event_wait,
                gate_output: arguments.events.gate_output,
                statistics: arguments.stats
                    || arguments.output.stats_file.is_some()
                    || arguments.events.event_dir.is_some(),
                ..EventConfig::default()
            },
            recovery: RecoveryConfig {
                max_restarts: arguments.max_restarts.unwrap_or(restarts_default),
                checkpoint_dir: sealed_place(
                    arguments.checkpoints.checkpoint_dir,
                    arguments.checkpoints.checkpoint_secret.as_deref(),
                )?,
                checkpoint_policy: arguments.checkpoint_policy,
                checkpoint_every_ms: arguments.checkpoints.checkpoint_every,
                same_memory: arguments.replay.same_memory,
                record_clocks: arguments.replay.record_clocks,
                divergence: arguments.replay.divergence,
                ..RecoveryConfig::default()
            },
            verbose: arguments.verbose,
            ..JobConfig::default()
        },
        output: if arguments.output.no_prefix {
            Output::Plain
        } else {
            Output::Prefixed
        },
        pin: !arguments.placement.no_pin,
        descriptors: Vec::new(),
        event_loggers: EventLoggerSpec {
            loggers: sealed(
                arguments.events.event_loggers,
                arguments.events.event_secret.as_deref(),
            )?,
            replicas: arguments.events.event_replicas,
            directory: arguments.events.event_dir.clone(),
            rings: arguments.events.event_rings,
            program: None,
        },
        faults: FaultSpec {
            kills: arguments.faults.kill,
            kill_random: arguments.faults.kill_random,
            pauses: arguments.faults.pause,
            suspect_after: (arguments.faults.suspect_ranks_after.milliseconds)
                .map(Duration::from_millis),
        },
        hosts: HostsSpec {
            hosts: (arguments.host.or(arguments.hostfile)).map_or_else(Vec::new, |hosts| hosts.0),
            ssh: ssh(arguments.placement.ssh),
            refrain: arguments.placement.remote_refrain,
        },
    };
    // Files of dead jobs must not take room from this one. `refrain clean` reports what
    // cannot be removed.
    leftovers::remove(&leftovers::folders());
    match Job::start_forwarding_signals(spec) {
        Ok(mut job) => {
            if arguments.output.progress {
                job.show_progress();
            }
            let outcome = job.wait().into_diagnostic()?;
            if arguments.stats {
                print(statistics::text(&outcome.statistics));
                let recoveries = statistics::recoveries(&outcome.recoveries);
                recoveries.into_iter().for_each(print);
                let checkpoints = statistics::checkpoints(&outcome.checkpoints);
                checkpoints.into_iter().for_each(print);
            }
            let status = exit_code(&outcome);
            write_statistics(
                &arguments.output.stats_file,
                &arguments.events.event_dir,
                &outcome,
            )?;
            Ok(status)
        }
        Err(error) => {
            let status = status_of(&error);
            print(format_args!("{:?}", Report::msg(error)));
            Ok(ExitCode::from(status))
        }
    }
}

/// To the file that was asked for, and beside the events where loggers were
/// started.
fn write_statistics(
    file: &Option<PathBuf>,
    event_dir: &Option<PathBuf>,
    outcome: &Outcome,
) -> miette::Result<()> {
    let beside_events = event_dir.as_ref().filter(|folder| folder.is_dir());
    if let Some(path) = beside_events.map(|folder| folder.join(statistics::STATISTICS_FILE))
        && let Err(error) = statistics::write(&path, outcome)
    {
        let path = path.display();
        report(format_args!("{path}: cannot be written: {error}"));
    }
    match file {
        Some(path) => statistics::write(path, outcome).map_err(|error| {
            miette!(
                "--stats-file {}: cannot be written: {error}",
                path.display()
            )
        }),
        None => Ok(()),
    }
}

/// Exit status for a job that could not be started.
fn status_of(error: &LaunchError) -> u8 {
    match error {
        LaunchError::Job(JobError::Argument(_) | JobError::Config(_)) => USAGE,
        LaunchError::Program { found: true, .. } => NOT_EXECUTABLE,
        LaunchError::Program { found: false, .. } => NOT_FOUND,
        LaunchError::Interrupted { status, .. } => *status,
        _ => 1,
    }
}

fn exit_code(outcome: &Outcome) -> ExitCode {
    if let Some(failure) = &outcome.failure {
        report(format_args!("{failure}"));
    }
    ExitCode::from(u8::try_from(outcome.status).unwrap_or(1))
}
