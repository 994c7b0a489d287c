//! `refrain run`.

mod arguments;
mod hosts;

pub use arguments::{Arguments, KeptOfCollectives, Launcher};
pub use hosts::{lease, tasks};

use crate::secret;
use crate::statistics;
use miette::{IntoDiagnostic, Report, miette};
use refrain_checkpoint::{CheckpointStoreSpec, ServerAddress};
use refrain_job::JobError;
use refrain_job::choice::events::Loggers;
use refrain_job::config::{CollectivesConfig, EventConfig, JobConfig, RecoveryConfig, VerbsConfig};
use refrain_job::stderr::{print, report};
use refrain_launch::leftovers;
use refrain_launch::{
    EventLoggerSpec, FaultSpec, HostsSpec, Job, JobSpec, LaunchError, MAX_RESTARTS_DEFAULT,
    MonitorSpec, Outcome, Output, Program, can_recover,
};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Exit status for invalid arguments and settings, as for a wrong command line.
const USAGE: u8 = 2;
/// Exit status of shells for a program that is not executable.
const NOT_EXECUTABLE: u8 = 126;
/// Exit status of shells for a program that does not exist.
const NOT_FOUND: u8 = 127;

/// Addresses of running loggers, with their secret added.
fn sealed(mut loggers: Option<Loggers>, file: Option<&Path>) -> miette::Result<Option<Loggers>> {
    match &mut loggers {
        Some(Loggers::Running(shards)) => {
            secret::seal("--event-secret", file, shards.iter_mut().flatten())?;
        }
        _ if file.is_some() => {
            return Err(miette!(
                "--event-secret has no effect with event loggers that this job starts: name the addresses of running ones with --event-loggers"
            ));
        }
        _ => {}
    }
    Ok(loggers)
}

/// Address of the checkpoint server, with its secret added.
fn sealed_place(place: Option<String>, file: Option<&Path>) -> miette::Result<Option<String>> {
    let Some(file) = file else { return Ok(place) };
    match place.as_deref().map(str::parse) {
        Some(Ok(CheckpointStoreSpec::Server(
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

fn config(arguments: &Arguments) -> miette::Result<JobConfig> {
    let (fabric, log) = (&arguments.fabric_options, &arguments.log);
    Ok(JobConfig {
        fabric: arguments.fabric.clone(),
        protocol: arguments.protocol.clone(),
        log_memory_bytes: arguments.log_memory,
        log_prefault: log.log_prefault,
        log_full: log.log_full,
        log_full_wait_ms: log.log_full_wait,
        spill_dir: spill_dir(arguments)?,
        spill_dir_is_default: log.spill_dir.is_none(),
        log_disk_bytes: log.log_disk.filter(|bytes| *bytes > 0),
        spill_after_bytes: log.spill_after,
        spill_io: log.spill_io.clone(),
        keep_log: log.keep_log,
        libfabric: fabric.libfabric.clone(),
        verbs: VerbsConfig {
            library: fabric.libibverbs.clone(),
            device: fabric.verbs_device.clone(),
            port: fabric.verbs_port,
            gid_index: fabric.verbs_gid_index,
            mtu_bytes: fabric.verbs_mtu,
        },
        peer_timeout_ms: fabric.peer_timeout,
        suspect_after_ms: fabric.suspect_after.milliseconds,
        events: event_config(arguments),
        collectives: CollectivesConfig {
            table: arguments
                .collectives
                .collectives_table
                .clone()
                .unwrap_or_default(),
            check: arguments.collectives.check_collectives,
            whole: whole_collectives(arguments)?,
            ..CollectivesConfig::default()
        },
        recovery: recovery_config(arguments)?,
        verbose: arguments.verbose,
        ..JobConfig::default()
    })
}

/// How many failures the results of collectives survive, if they are kept.
fn whole_collectives(arguments: &Arguments) -> miette::Result<Option<u32>> {
    let collectives = &arguments.collectives;
    if collectives.collectives == KeptOfCollectives::Messages {
        if collectives.collective_failures.is_some() {
            miette::bail!(
                "--collective-failures is about results that are kept: give --collectives whole, too"
            );
        }
        return Ok(None);
    }
    if arguments.protocol == "none" {
        miette::bail!(
            "--collectives whole keeps results for replays, and protocol none has no replays: choose another --protocol"
        );
    }
    Ok(Some(collectives.collective_failures.unwrap_or(1)))
}

/// The folder of the log's files; `None`: the log stays in memory.
fn spill_dir(arguments: &Arguments) -> miette::Result<Option<String>> {
    let log = &arguments.log;
    match (&log.spill_dir, log.log_disk) {
        (Some(folder), Some(0)) => Err(miette!(
            "--log-disk 0 keeps the log in memory: it cannot be written to --spill-dir {folder}"
        )),
        (_, Some(0)) => Ok(None),
        (Some(folder), _) => Ok(Some(folder.clone())),
        (None, _) if arguments.protocol == "none" => Ok(None),
        (None, _) => {
            let folder = std::env::temp_dir();
            Ok(folder.to_str().map(str::to_owned))
        }
    }
}

fn event_config(arguments: &Arguments) -> EventConfig {
    let events = &arguments.events;
    EventConfig {
        level: events.stable,
        quorum: events.stable_quorum,
        way: events.event_way.clone(),
        wait_ms: events.event_wait,
        gate_output: events.gate_output,
        statistics: arguments.stats
            || arguments.output.stats_file.is_some()
            || events.event_dir.is_some(),
        ..EventConfig::default()
    }
}

fn recovery_config(arguments: &Arguments) -> miette::Result<RecoveryConfig> {
    let (checkpoints, replay) = (&arguments.checkpoints, &arguments.replay);
    let restarts_default = match can_recover(&arguments.protocol) {
        true => MAX_RESTARTS_DEFAULT,
        false => 0,
    };
    Ok(RecoveryConfig {
        failures_at_once: arguments.events.causal_f,
        max_restarts: arguments.max_restarts.unwrap_or(restarts_default),
        checkpoint_dir: sealed_place(
            checkpoints.checkpoint_dir.clone(),
            checkpoints.checkpoint_secret.as_deref(),
        )?,
        checkpoint_policy: arguments.checkpoint_policy.clone(),
        checkpoint_every_ms: checkpoints.checkpoint_every,
        same_memory: replay.same_memory,
        record_clocks: replay.record_clocks,
        divergence: replay.divergence,
        ..RecoveryConfig::default()
    })
}

/// The program of the command line.
fn programs(arguments: &Arguments, ranks: u32) -> miette::Result<Vec<Program>> {
    let (path, program_arguments) = arguments
        .command
        .split_first()
        .ok_or_else(|| miette!("no program is given: name it after --"))?;
    Ok(vec![Program {
        path: path.into(),
        arguments: program_arguments.into(),
        ranks,
        ..Program::default()
    }])
}

fn spec(
    arguments: &Arguments,
    programs: Vec<Program>,
    hosts: HostsSpec,
) -> miette::Result<JobSpec> {
    let (events, faults) = (&arguments.events, &arguments.faults);
    Ok(JobSpec {
        programs,
        environment: Vec::new(),
        config: config(arguments)?,
        output: match arguments.output.no_prefix {
            true => Output::Plain,
            false => Output::Prefixed,
        },
        pin: !arguments.placement.no_pin,
        descriptors: Vec::new(),
        event_loggers: EventLoggerSpec {
            loggers: sealed(events.event_loggers.clone(), events.event_secret.as_deref())?,
            replicas: events.event_replicas,
            directory: events.event_dir.clone(),
            rings: events.event_rings.clone(),
            spread: events.spread_loggers,
            continues: false,
            program: None,
        },
        faults: FaultSpec {
            kills: faults.kill.clone(),
            kill_random: faults.kill_random,
            kills_in_turn: faults.kill_in_turn,
            pauses: faults.pause.clone(),
            suspect_after: (faults.suspect_ranks_after.milliseconds).map(Duration::from_millis),
        },
        monitor: MonitorSpec {
            status_file: arguments.output.status_file.clone(),
            metrics: arguments.output.metrics,
        },
        sets: arguments.sets.clone().unwrap_or_default(),
        job_dir: arguments.checkpoints.job_dir.clone(),
        hosts,
    })
}

/// Runs a job of one program; returns the job's exit status.
pub fn run(arguments: &Arguments) -> miette::Result<ExitCode> {
    match hosts::ranks(arguments) {
        Ok(ranks) => run_programs(arguments, programs(arguments, ranks)?),
        Err(refusal) => Ok(refused(&refusal)),
    }
}

/// Runs the job of these programs instead of that of the command line.
pub fn run_programs(arguments: &Arguments, programs: Vec<Program>) -> miette::Result<ExitCode> {
    let ranks = programs.iter().map(|program| program.ranks);
    match hosts::hosts(arguments, ranks.fold(0, u32::saturating_add)) {
        Ok(hosts) => run_on(arguments, programs, hosts).map(ExitCode::from),
        Err(refusal) => Ok(refused(&refusal)),
    }
}

/// Runs the job of these programs on these hosts; returns its exit status.
pub fn run_on(
    arguments: &Arguments,
    programs: Vec<Program>,
    hosts: HostsSpec,
) -> miette::Result<u8> {
    let spec = spec(arguments, programs, hosts)?;
    // Removes leftovers first, since files of dead jobs must not take space from this one.
    // `refrain clean` reports files that cannot be removed.
    leftovers::remove(&leftovers::folders());
    let mut job = match Job::start_forwarding_signals(spec) {
        Ok(job) => job,
        Err(error) => {
            let status = status_of(&error);
            print(format_args!("{:?}", Report::msg(error)));
            return Ok(status);
        }
    };
    if arguments.output.progress {
        job.show_progress();
    }
    let outcome = job.wait().into_diagnostic()?;
    if arguments.stats {
        print(statistics::text(&outcome.statistics));
        let recoveries = statistics::recoveries(&outcome.recoveries);
        let checkpoints = statistics::checkpoints(&outcome.checkpoints);
        recoveries.into_iter().chain(checkpoints).for_each(print);
    }
    if let Some(failure) = &outcome.failure {
        report(failure);
    }
    let (file, event_dir) = (&arguments.output.stats_file, &arguments.events.event_dir);
    write_statistics(file, event_dir, &outcome)?;
    Ok(u8::try_from(outcome.status).unwrap_or(1))
}

/// Writes the statistics to the file of --stats-file, and to --event-dir if loggers were started.
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
            let path = path.display();
            miette!("--stats-file {path}: cannot be written: {error}")
        }),
        None => Ok(()),
    }
}

/// Prints why the number of ranks or their hosts cannot be.
fn refused(refusal: &Report) -> ExitCode {
    print(format_args!("{refusal:?}"));
    ExitCode::from(USAGE)
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
