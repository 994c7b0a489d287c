//! `refrain run`.

use crate::voice::tell;
use crate::{secret, statistics};
use clap::{ArgAction, Args};
use miette::{IntoDiagnostic, Report, miette};
use refrain_checkpoint::policy::{Choice, NotAPolicy};
use refrain_checkpoint::{Place, ServerAddress};
use refrain_eventlog::Level;
use refrain_job::choice::events::{Loggers, REPLICAS_MAX};
use refrain_job::config::{
    Divergence, EventConfig, JobConfig, Quorum, RecoveryConfig, VerbsConfig,
};
use refrain_job::same_memory::SameMemory;
use refrain_job::{JobError, choice};
use refrain_launch::leftovers;
use refrain_launch::seconds::{self, Limit};
use refrain_launch::{
    self, EventLoggerSpec, FaultSpec, HostSlots, HostsSpec, Job, JobSpec, Kill, KillRandom,
    MAX_RESTARTS_DEFAULT, NotAHost, Outcome, Output, Pause, RANKS_MAX, can_recover,
};
use refrain_launch::{LaunchError, size};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// As for a wrong command line: what was asked for cannot be.
const USAGE: u8 = 2;
/// As shells say it for a program that may not be executed …
const NOT_EXECUTABLE: u8 = 126;
/// … and for one that is not there.
const NOT_FOUND: u8 = 127;

/// Arguments of `refrain run`.
#[derive(Args)]
pub struct Arguments {
    /// How many ranks to start (1 to 1024).
    #[arg(short = 'n', value_name = "N", value_parser = ranks, allow_negative_numbers = true)]
    ranks: u32,
    /// Run the ranks on these hosts, by ssh: names, each with its number of ranks
    /// (1 if not given), in order.
    #[arg(long, value_name = "NAME[:SLOTS],…", value_parser = hosts, conflicts_with = "hostfile")]
    host: Option<Hosts>,
    /// The same from a file with lines like `NAME slots=N`.
    #[arg(long, value_name = "FILE", value_parser = hostfile)]
    hostfile: Option<Hosts>,
    /// What starts a command on a host, instead of `ssh -oBatchMode=yes`: words,
    /// behind which the host's name and the command come; else the environment's
    /// REFRAIN_SSH.
    #[arg(long, value_name = "COMMAND")]
    ssh: Option<String>,
    /// Where refrain is on those hosts, if not where it is here.
    #[arg(long, value_name = "FILE")]
    remote_refrain: Option<PathBuf>,
    /// What carries messages; `refrain info` lists what there is.
    #[arg(long, value_name = "FABRIC", default_value = "auto", value_parser = fabric)]
    fabric: String,
    /// What is logged: none, pessimist or pessimist-classic.
    #[arg(long, value_name = "PROTOCOL", default_value = "none", value_parser = protocol)]
    protocol: String,
    /// Memory for one rank's payload log, like 512M or 2GiB; chosen from the
    /// machine if not given.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    log_memory: Option<u64>,
    /// How long a send may wait for room in the log, without any progress of the
    /// disk, before it fails.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds::milliseconds)]
    log_full_wait: u64,
    /// Touch all log memory at the start.
    #[arg(long)]
    log_prefault: bool,
    /// The folder that the payload log goes to when memory is short.
    #[arg(long, value_name = "DIR")]
    spill_dir: Option<String>,
    /// The most that one rank's log may take there; half of what is free, shared
    /// by the ranks, if not given.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    log_disk: Option<u64>,
    /// How much of one rank's log stays in memory before it begins to write;
    /// half of --log-memory if not given.
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    spill_after: Option<u64>,
    /// How it writes: auto, uring or plain.
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = spill_io)]
    spill_io: String,
    /// Keep the files in --spill-dir when the job has ended; `refrain log` shows
    /// them, `refrain clean --spill-dir` removes them.
    #[arg(long)]
    keep_log: bool,
    /// Where events become stable: how many shards of event loggers to start
    /// beside the ranks, or where they run: unix:PATH or tcp:HOST:PORT, shards
    /// separated by commas, replicas of one by plus signs. For protocols that log
    /// events.
    #[arg(long, value_name = "K|ADDRESSES", default_value = "1", value_parser = event_loggers)]
    event_loggers: Loggers,
    /// A file with what the event loggers of --event-loggers tcp:… have to know, and
    /// this job: theirs of --secret.
    #[arg(long, value_name = "FILE")]
    event_secret: Option<PathBuf>,
    /// How many loggers each shard has that is started; a commit goes to all.
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = replicas)]
    event_replicas: u32,
    /// What makes an event stable at one logger: placed (in its memory) or
    /// durable (on its disk).
    #[arg(long, value_name = "LEVEL", default_value = "placed", value_parser = level)]
    stable: Level,
    /// At how many of a shard's loggers: majority or all.
    #[arg(long, value_name = "QUORUM", default_value = "majority", value_parser = quorum)]
    stable_quorum: Quorum,
    /// How ranks commit: auto, shm, messages, verbs or ofi:PROVIDER.
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = event_way)]
    event_way: String,
    /// Where event loggers keep their files, also after the job; else in a folder
    /// for temporary files that is removed with it. `refrain events` shows them.
    #[arg(long, value_name = "DIR")]
    event_dir: Option<PathBuf>,
    /// In which folder the event loggers that are started make one for the rings that
    /// ranks write into, removed with the job; else in /dev/shm with --event-way verbs,
    /// which needs one in memory, and with their files otherwise.
    #[arg(long, value_name = "DIR")]
    event_rings: Option<PathBuf>,
    /// How long a send may wait for its events, and a rank at its start for the
    /// event loggers, before that is an error.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds::milliseconds)]
    event_wait: u64,
    /// Hold back what a rank prints until its events up to then are stable.
    #[arg(long)]
    gate_output: bool,
    /// How often a rank that was killed is started again; a death before it has
    /// caught up counts twice. 8 with protocols that can recover, 0 with others.
    #[arg(long, value_name = "N")]
    max_restarts: Option<u32>,
    /// Keep the same in each life of a rank that may be started again, also where its
    /// program has not written: heap, stack, addresses (several, separated by commas), or
    /// none. All if not given.
    #[arg(long, value_name = "LIST", default_value_t = SameMemory::default(), hide_default_value = true)]
    same_memory: SameMemory,
    /// Where checkpoints go: a folder, or a checkpoint server as unix:PATH or
    /// tcp:HOST:PORT. If not given, a folder for temporary files. They are removed
    /// with the job.
    #[arg(long, value_name = "DIR|ADDRESS")]
    checkpoint_dir: Option<String>,
    /// A file with what the checkpoint server of --checkpoint-dir tcp:… has to know, and
    /// this job: that of its --secret.
    #[arg(long, value_name = "FILE")]
    checkpoint_secret: Option<PathBuf>,
    /// Whom the job asks for checkpoints: none (only those whose messages fill the
    /// log of others), round-robin (all in turn), adaptive (whose checkpoint frees
    /// most for its costs), ratio (who receives most for what it sends) or interval
    /// (each after --checkpoint-every). Programs see it at
    /// `World::checkpoint_requested`.
    #[arg(long, value_name = "POLICY", default_value = "none", value_parser = checkpoint_policy)]
    checkpoint_policy: String,
    /// How long between two such requests, at least; with interval: between two
    /// checkpoints of one rank.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds::milliseconds)]
    checkpoint_every: u64,
    /// Record the times that programs read (`World::time`, `refrain_wtime`), and in programs
    /// in C the answers of the C library (clocks, processor times, process ids, random
    /// bytes), so that a rank that is started again gets the same values; with protocols
    /// that can recover.
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set, value_parser = on_or_off)]
    record_clocks: bool,
    /// Action when a rank that was started again sends messages with other bytes than
    /// before: stop (the rank stops), warn (it goes on) or auto (it goes on, unless most
    /// bytes of many long messages differ). If it goes on, receivers keep the first bytes,
    /// the job reports it, and its exit status is 80.
    #[arg(long, value_name = "POLICY", default_value = "auto", value_parser = divergence)]
    divergence: Divergence,
    /// Kill a rank or an event logger, to see what happens: RANK@SECONDS,
    /// RANK@clock=N, eventlogger.K@SECONDS; several, separated by commas.
    #[arg(long, value_name = "WHOM@WHEN", value_delimiter = ',')]
    kill: Vec<Kill>,
    /// Kill ranks at random, with so many seconds between two kills in the mean.
    #[arg(long, value_name = "SECONDS[,SEED]")]
    kill_random: Option<KillRandom>,
    /// Stop a rank for a while; several, separated by commas.
    #[arg(long, value_name = "RANK@SECONDS:DURATION", value_delimiter = ',')]
    pause: Vec<Pause>,
    /// After how long a rank that is stopped counts as lost: it is killed, and
    /// started again.
    #[arg(long, value_name = "SECONDS|off", default_value = "off", value_parser = seconds::limit)]
    suspect_ranks_after: Limit,
    /// Show how the job is while it runs, on standard error.
    #[arg(long)]
    progress: bool,
    /// Say at the end what ranks did: messages, events, commits, waits, log.
    #[arg(long)]
    stats: bool,
    /// Write the same to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    stats_file: Option<PathBuf>,
    /// The file of libfabric; else the one that REFRAIN_LIBFABRIC names, else
    /// libfabric.so.1 as the loader finds it.
    #[arg(long, value_name = "FILE", value_parser = library)]
    libfabric: Option<String>,
    /// The file of libibverbs; else the one that REFRAIN_LIBIBVERBS names, else
    /// libibverbs.so.1 as the loader finds it.
    #[arg(long, value_name = "FILE", value_parser = library)]
    libibverbs: Option<String>,
    /// The RDMA device for --fabric verbs and --event-way verbs; else each rank takes the one that its
    /// REFRAIN_VERBS_DEVICE names, else the first that can be used.
    #[arg(long, value_name = "NAME")]
    verbs_device: Option<String>,
    /// Its port; else the first that can be used.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    verbs_port: Option<u8>,
    /// Which of the port's addresses (GIDs) to use; else one of RoCE v2.
    #[arg(long, value_name = "INDEX")]
    verbs_gid_index: Option<u8>,
    /// Bytes that a packet carries: 256, 512, 1024, 2048 or 4096; else what the
    /// port does.
    #[arg(long, value_name = "BYTES")]
    verbs_mtu: Option<u32>,
    /// How long a rank on another host may leave the greeting at the start
    /// unanswered, and a provider's error about it may last.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds::milliseconds)]
    peer_timeout: u64,
    /// After how long without an answer a rank on another host counts as lost,
    /// or off. A rank that computes answers nothing meanwhile.
    #[arg(long, value_name = "SECONDS|off", default_value = "off", value_parser = seconds::limit)]
    suspect_after: Limit,
    /// Say which fabric was chosen for which pairs, and why.
    #[arg(short, long)]
    verbose: bool,
    /// Do not put the rank before each line of output.
    #[arg(long)]
    no_prefix: bool,
    /// Do not pin ranks to cores (they are when there is a core for each).
    #[arg(long)]
    no_pin: bool,
    /// The program (a path, or a name from PATH or beside refrain) and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

fn ranks(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(ranks @ 1..=RANKS_MAX) => Ok(ranks),
        _ => Err(format!(
            "there are at least 1 and at most {RANKS_MAX} ranks"
        )),
    }
}

/// The hosts of a job; a type of its own, since clap takes a `Vec` for an argument
/// that may be given several times.
#[derive(Clone)]
struct Hosts(Vec<HostSlots>);

fn hosts(text: &str) -> Result<Hosts, NotAHost> {
    refrain_launch::parse_hosts(text).map(Hosts)
}

fn hostfile(path: &str) -> Result<Hosts, NotAHost> {
    refrain_launch::read_hostfile(path.as_ref()).map(Hosts)
}

/// Loggers that run, for who knows their secret.
fn sealed(loggers: Loggers, file: Option<&Path>) -> miette::Result<Loggers> {
    let (Loggers::Running(mut shards), Some(file)) = (loggers.clone(), file) else {
        return match file {
            None => Ok(loggers),
            Some(_) => Err(miette!(
                "--event-secret says nothing where event loggers are started: they get a secret of their own"
            )),
        };
    };
    let secret = secret::read("--event-secret", file)?;
    for address in shards.iter_mut().flatten() {
        *address = address.clone().sealed(&secret);
    }
    Ok(Loggers::Running(shards))
}

/// A checkpoint server, for who knows its secret.
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
            "--checkpoint-secret is for a checkpoint server at --checkpoint-dir tcp:HOST:PORT: a folder's permissions, and those of a Unix socket, do without"
        )),
    }
}

/// The words of the command; none: ssh.
fn ssh(given: Option<String>) -> Vec<OsString> {
    let given = given.or_else(|| std::env::var("REFRAIN_SSH").ok());
    let words = given.unwrap_or_default();
    words.split_ascii_whitespace().map(Into::into).collect()
}

fn fabric(name: &str) -> Result<String, JobError> {
    choice::check_fabric(name).map(|()| name.to_owned())
}

fn protocol(name: &str) -> Result<String, JobError> {
    choice::check_protocol(name).map(|()| name.to_owned())
}

fn spill_io(name: &str) -> Result<String, JobError> {
    choice::spill_io(name).map(|_| name.to_owned())
}

fn event_loggers(text: &str) -> Result<Loggers, JobError> {
    choice::events::loggers(text)
}

fn level(name: &str) -> Result<Level, JobError> {
    choice::events::level(name)
}

fn quorum(name: &str) -> Result<Quorum, JobError> {
    choice::events::quorum(name)
}

fn on_or_off(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("use on or off"),
    }
}

fn event_way(name: &str) -> Result<String, JobError> {
    choice::events::way(name).map(|_| name.to_owned())
}

fn divergence(name: &str) -> Result<Divergence, JobError> {
    choice::divergence(name)
}

fn checkpoint_policy(name: &str) -> Result<String, NotAPolicy> {
    Choice::named(name, 1).map(|_| name.to_owned())
}

fn replicas(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(replicas @ 1..=REPLICAS_MAX) => Ok(replicas),
        _ => Err(format!(
            "a shard has at least 1 and at most {REPLICAS_MAX} replicas"
        )),
    }
}

/// A file name that can be passed to ranks, and in which no word is missing.
fn library(file: &str) -> Result<String, String> {
    if file.is_empty() {
        return Err("name the file, like /usr/lib/x86_64-linux-gnu/LIBRARY.so.1".into());
    }
    Ok(file.to_owned())
}

/// Runs the job; its status is the result.
pub fn run(arguments: Arguments) -> miette::Result<ExitCode> {
    let mut command = arguments.command.into_iter();
    let program = command
        .next()
        .ok_or_else(|| miette!("no program was named"))?;
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
            log_prefault: arguments.log_prefault,
            log_full_wait_ms: arguments.log_full_wait,
            spill_dir: arguments.spill_dir,
            log_disk_bytes: arguments.log_disk,
            spill_after_bytes: arguments.spill_after,
            spill_io: arguments.spill_io,
            keep_log: arguments.keep_log,
            libfabric: arguments.libfabric,
            verbs: VerbsConfig {
                library: arguments.libibverbs,
                device: arguments.verbs_device,
                port: arguments.verbs_port,
                gid_index: arguments.verbs_gid_index,
                mtu_bytes: arguments.verbs_mtu,
            },
            peer_timeout_ms: arguments.peer_timeout,
            suspect_after_ms: arguments.suspect_after.milliseconds,
            events: EventConfig {
                level: arguments.stable,
                quorum: arguments.stable_quorum,
                way: arguments.event_way,
                wait_ms: arguments.event_wait,
                gate_output: arguments.gate_output,
                statistics: arguments.stats
                    || arguments.stats_file.is_some()
                    || arguments.event_dir.is_some(),
                ..EventConfig::default()
            },
            recovery: RecoveryConfig {
                max_restarts: arguments.max_restarts.unwrap_or(restarts_default),
                checkpoint_dir: sealed_place(
                    arguments.checkpoint_dir,
                    arguments.checkpoint_secret.as_deref(),
                )?,
                checkpoint_policy: arguments.checkpoint_policy,
                checkpoint_every_ms: arguments.checkpoint_every,
                same_memory: arguments.same_memory,
                record_clocks: arguments.record_clocks,
                divergence: arguments.divergence,
                ..RecoveryConfig::default()
            },
            verbose: arguments.verbose,
            ..JobConfig::default()
        },
        output: if arguments.no_prefix {
            Output::Plain
        } else {
            Output::Prefixed
        },
        pin: !arguments.no_pin,
        descriptors: Vec::new(),
        event_loggers: EventLoggerSpec {
            loggers: sealed(arguments.event_loggers, arguments.event_secret.as_deref())?,
            replicas: arguments.event_replicas,
            directory: arguments.event_dir.clone(),
            rings: arguments.event_rings,
            program: None,
        },
        faults: FaultSpec {
            kills: arguments.kill,
            kill_random: arguments.kill_random,
            pauses: arguments.pause,
            suspect_after: (arguments.suspect_ranks_after.milliseconds).map(Duration::from_millis),
        },
        hosts: HostsSpec {
            hosts: (arguments.host.or(arguments.hostfile)).map_or_else(Vec::new, |hosts| hosts.0),
            ssh: ssh(arguments.ssh),
            refrain: arguments.remote_refrain,
        },
    };
    // What a job before this one left behind must not take this one's room. What
    // cannot be removed is for `refrain clean` to tell.
    leftovers::remove(&leftovers::folders());
    match Job::start_forwarding_signals(spec) {
        Ok(mut job) => {
            if arguments.progress {
                job.show_progress();
            }
            let outcome = job.wait().into_diagnostic()?;
            if arguments.stats {
                tell(statistics::text(&outcome.statistics));
                let recoveries = statistics::recoveries(&outcome.recoveries);
                recoveries.into_iter().for_each(tell);
                let checkpoints = statistics::checkpoints(&outcome.checkpoints);
                checkpoints.into_iter().for_each(tell);
            }
            let status = report(&outcome);
            write_statistics(&arguments.stats_file, &arguments.event_dir, &outcome)?;
            Ok(status)
        }
        Err(error) => {
            let status = status_of(&error);
            tell(format!("{:?}", Report::msg(error)));
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
        tell(format!("refrain: {path}: cannot be written: {error}"));
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

fn report(outcome: &Outcome) -> ExitCode {
    if let Some(failure) = &outcome.failure {
        tell(format!("refrain: {failure}"));
    }
    ExitCode::from(u8::try_from(outcome.status).unwrap_or(1))
}
