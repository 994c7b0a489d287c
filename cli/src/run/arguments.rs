//! The options of `refrain run`.

use clap::{ArgAction, Args, ValueEnum};
use refrain_checkpoint::policy::Choice;
use refrain_eventlog::Level;
use refrain_job::choice;
use refrain_job::choice::events::{self, Loggers, REPLICAS_MAX};
use refrain_job::config::{Divergence, LogFullPolicy, Quorum};
use refrain_job::same_memory::SameMemory;
use refrain_launch::seconds::{self, Limit};
use refrain_launch::{
    FAN_OUT, HostSlots, Kill, KillRandom, NotAHost, Pause, RANKS_MAX, SetsSpec, parse_hosts,
    read_hostfile, size,
};
use refrain_logging::held::Tolerance;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Arguments of `refrain run`: the most used options, and the rest by subject.
#[derive(Args)]
pub struct Arguments {
    /// Number of ranks, 1 to 4096 [default: the number of tasks that Slurm or PBS has given, of cores that Flux has].
    #[arg(short = 'n', value_name = "N", value_parser = ranks, allow_negative_numbers = true)]
    pub ranks: Option<u32>,
    /// Hosts to run ranks on, filled in order; SLOTS is the number of ranks [default: this
    /// host; SLOTS 1].
    #[arg(long, value_name = "NAME[:SLOTS],…", value_parser = hosts, conflicts_with = "hostfile")]
    pub host: Option<Hosts>,
    /// Hosts from a file with lines `NAME slots=N`.
    #[arg(long, value_name = "FILE", value_parser = hostfile)]
    pub hostfile: Option<Hosts>,
    /// Fabric of messages: auto, shm, verbs, ofi or ofi:PROVIDER; see `refrain info`.
    #[arg(long, value_name = "FABRIC", default_value = "auto", value_parser = checked(choice::check_fabric))]
    pub fabric: String,
    /// Logging protocol: none, pessimist, ticket, causal, or pessimist-classic, ticket-classic, causal-classic.
    #[arg(long, value_name = "PROTOCOL", default_value = "pessimist", value_parser = checked(choice::check_protocol))]
    pub protocol: String,
    /// Memory of the payload log per rank, such as 512M or 2GiB [default: 512 MiB, less if
    /// memory is short].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub log_memory: Option<u64>,
    /// Restarts per killed rank; a death during replay counts twice [default: 8 with
    /// protocols that can recover, else 0].
    #[arg(long, value_name = "N")]
    pub max_restarts: Option<u32>,
    /// Which ranks are asked for checkpoints: none, round-robin, adaptive, ratio or interval.
    #[arg(long, value_name = "POLICY", default_value = "none", value_parser = checked(|name| Choice::named(name, 1)))]
    pub checkpoint_policy: String,
    /// Correlated sets, which keep no messages for each other and go back to their checkpoints
    /// together: host, a number of ranks, or a file with a line of ranks for each.
    #[arg(long, value_name = "host|N|FILE")]
    pub sets: Option<SetsSpec>,
    /// Print statistics at the end: messages, events, commits, waits, log.
    #[arg(long)]
    pub stats: bool,
    /// Print which fabric is chosen for which pairs of ranks, and why.
    #[arg(short, long)]
    pub verbose: bool,
    /// The program (a path, or a name in PATH or beside refrain) and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
    #[command(flatten)]
    pub placement: Placement,
    #[command(flatten)]
    pub fabric_options: FabricOptions,
    #[command(flatten)]
    pub collectives: Collectives,
    #[command(flatten)]
    pub replay: ProtocolOptions,
    #[command(flatten)]
    pub log: PayloadLog,
    #[command(flatten)]
    pub events: Events,
    #[command(flatten)]
    pub checkpoints: Checkpoints,
    #[command(flatten)]
    pub faults: Faults,
    #[command(flatten)]
    pub output: OutputOptions,
}

/// Placement of ranks.
#[derive(Args)]
#[command(next_help_heading = "Placement")]
pub struct Placement {
    /// How ranks are started; auto: on the nodes that Slurm, Flux or PBS has given, if it has and no
    /// hosts are named.
    #[arg(long, value_enum, default_value_t)]
    pub launcher: Launcher,
    /// Remote shell command; host name and command are appended [default: $REFRAIN_SSH or ssh
    /// -oBatchMode=yes].
    #[arg(long, value_name = "COMMAND")]
    pub ssh: Option<String>,
    /// Path of refrain on the other hosts [default: its path here].
    #[arg(long, value_name = "FILE")]
    pub remote_refrain: Option<PathBuf>,
    /// Number of hosts, the last of the allocation or list, that get no ranks at the start but take
    /// those of a lost host.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub spare_nodes: usize,
    /// Number of hosts, behind all others of the allocation or list, that get the event loggers and
    /// checkpoint servers, and no ranks.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub service_nodes: usize,
    /// Seconds without an answer after which a host counts as lost; its ranks stop there before they
    /// start on another host. Without restarts a host is lost with its connection [default: 15].
    #[arg(long, value_name = "SECONDS", value_parser = seconds::milliseconds)]
    pub host_lease: Option<u64>,
    /// Number of agents that are connected with the launcher, and with each agent, if the job has more
    /// hosts: they form a tree. 1 to 1024.
    #[arg(long, value_name = "N", default_value_t = FAN_OUT, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub fan_out: u32,
    /// Do not pin ranks to cores [default: pinned if there is a core for each].
    #[arg(long)]
    pub no_pin: bool,
}

/// How the ranks of a job are started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Launcher {
    /// By srun in a Slurm allocation, by ssh in a job of PBS, otherwise as with --host.
    #[default]
    Auto,
    /// By ssh on the hosts of --host or --hostfile.
    Ssh,
    /// By srun on the nodes of the Slurm allocation.
    Slurm,
    /// By ssh on the nodes of the job of PBS.
    Pbs,
    /// By `flux exec` on the nodes of the Flux instance.
    Flux,
    /// On this host.
    Local,
}

/// Fabric of messages.
#[derive(Args)]
#[command(next_help_heading = "Fabric")]
pub struct FabricOptions {
    /// File of libfabric [default: $REFRAIN_LIBFABRIC or libfabric.so.1].
    #[arg(long, value_name = "FILE", value_parser = library)]
    pub libfabric: Option<String>,
    /// File of libibverbs [default: $REFRAIN_LIBIBVERBS or libibverbs.so.1].
    #[arg(long, value_name = "FILE", value_parser = library)]
    pub libibverbs: Option<String>,
    /// RDMA device of --fabric verbs and --event-way verbs [default: $REFRAIN_VERBS_DEVICE of
    /// the rank or the first usable].
    #[arg(long, value_name = "NAME")]
    pub verbs_device: Option<String>,
    /// Port of the RDMA device [default: the first usable].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub verbs_port: Option<u8>,
    /// Index of the port's address (GID) [default: that of a RoCE v2 address].
    #[arg(long, value_name = "INDEX")]
    pub verbs_gid_index: Option<u8>,
    /// Bytes per packet: 256, 512, 1024, 2048 or 4096 [default: the port's MTU].
    #[arg(long, value_name = "BYTES")]
    pub verbs_mtu: Option<u32>,
    /// Time limit for a rank on another host to answer at the start, and for a provider's
    /// error about it.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds::milliseconds)]
    pub peer_timeout: u64,
    /// Silence after which a rank on another host is taken for dead; a computing rank is
    /// silent.
    #[arg(long, value_name = "SECONDS|off", default_value = "off", value_parser = seconds::limit)]
    pub suspect_after: Limit,
}

/// Collectives.
#[derive(Args)]
#[command(next_help_heading = "Collectives")]
pub struct Collectives {
    /// File with rules that choose algorithms, before those of `refrain info --collectives`.
    #[arg(long, value_name = "FILE", value_parser = collectives_table)]
    pub collectives_table: Option<String>,
    /// Compare the calls of a group's ranks before each collective, and stop where they differ.
    #[arg(long)]
    pub check_collectives: bool,
    /// What is kept of collectives: the messages inside them, or, as a whole, their results
    /// where these are smaller.
    #[arg(long, value_name = "messages|whole", default_value = "messages")]
    pub collectives: KeptOfCollectives,
    /// Failures at a time that the results of whole collectives survive [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub collective_failures: Option<u32>,
}

/// What is kept of collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeptOfCollectives {
    Messages,
    Whole,
}

/// Recording of events, and replay.
#[derive(Args)]
#[command(next_help_heading = "Protocol")]
pub struct ProtocolOptions {
    /// Record clocks, process ids and random bytes that the program reads, and return the
    /// same in a replay.
    #[arg(long, value_name = "on|off", default_value = "on", action = ArgAction::Set, value_parser = on_or_off)]
    pub record_clocks: bool,
    /// Memory that is the same in each incarnation: heap, stack, addresses, or none [default:
    /// heap,stack,addresses].
    #[arg(long, value_name = "LIST", default_value_t = SameMemory::default(), hide_default_value = true)]
    pub same_memory: SameMemory,
    /// If a replay sends other bytes: stop the rank, warn, or auto (stop if most bytes of
    /// long messages differ).
    #[arg(long, value_name = "POLICY", default_value = "auto", value_parser = choice::divergence)]
    pub divergence: Divergence,
}

/// Payload log.
#[derive(Args)]
#[command(next_help_heading = "Payload log")]
pub struct PayloadLog {
    /// When a log is full and no checkpoint frees it: unprotected (the job goes on, and ends if
    /// a rank is killed) or stop.
    #[arg(long, value_name = "POLICY", default_value = "unprotected", value_parser = choice::log_full)]
    pub log_full: LogFullPolicy,
    /// Time that a send waits for room in the log, without progress of the disk, before the log
    /// counts as full.
    #[arg(long, value_name = "SECONDS", default_value = "10", value_parser = seconds::milliseconds)]
    pub log_full_wait: u64,
    /// Touch all log memory at the start.
    #[arg(long)]
    pub log_prefault: bool,
    /// Folder that the log is written to when memory is short [default: the folder for temporary
    /// files].
    #[arg(long, value_name = "DIR")]
    pub spill_dir: Option<String>,
    /// Disk space of the log per rank; 0: none is used [default: half of the free space, shared
    /// by the ranks of the host].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub log_disk: Option<u64>,
    /// Log size per rank above which the log is written to --spill-dir [default: half of
    /// --log-memory].
    #[arg(long, value_name = "SIZE", value_parser = size::parse)]
    pub spill_after: Option<u64>,
    /// How the log is written: auto, uring or plain.
    #[arg(long, value_name = "ENGINE", default_value = "auto", value_parser = checked(|name| choice::disk_engine("--spill-io", name)))]
    pub spill_io: String,
    /// Keep the files in --spill-dir after the job; see `refrain log`, `refrain clean`.
    #[arg(long)]
    pub keep_log: bool,
}

/// Event loggers.
#[derive(Args)]
#[command(next_help_heading = "Events")]
pub struct Events {
    /// Shards of event loggers to start, or addresses of running ones: unix:PATH or
    /// tcp:HOST:PORT, `,` between shards, `+` between replicas [default: 1 with pessimist, 0 with
    /// causal].
    #[arg(long, value_name = "K|ADDRESSES", value_parser = events::loggers)]
    pub event_loggers: Option<Loggers>,
    /// Ranks, or correlated sets, that may be dead at the same time with ticket and causal; F other
    /// ranks keep a copy of each event [default: 1].
    #[arg(long, value_name = "F", value_parser = clap::value_parser!(u32).range(1..=Tolerance::FAILURES_MAX as i64))]
    pub causal_f: Option<u32>,
    /// Event loggers per started shard; each event is sent to all of them.
    #[arg(long, value_name = "R", default_value_t = 1, value_parser = replicas)]
    pub event_replicas: u32,
    /// Start the event loggers on the hosts of ranks, those of a shard on other hosts than its ranks;
    /// each host has a shard unless --event-loggers says otherwise. With --event-replicas 3 the job
    /// outlives a host [default: on the launcher's host].
    #[arg(long)]
    pub spread_loggers: bool,
    /// File with the --secret of the event loggers at tcp: addresses.
    #[arg(long, value_name = "FILE")]
    pub event_secret: Option<PathBuf>,
    /// When an event is stable at a logger: placed (in its memory) or durable (on its disk).
    #[arg(long, value_name = "LEVEL", default_value = "placed", value_parser = events::level)]
    pub stable: Level,
    /// Number of a shard's replicas at which an event must be stable: majority or all.
    #[arg(long, value_name = "QUORUM", default_value = "majority", value_parser = events::quorum)]
    pub stable_quorum: Quorum,
    /// How ranks send events to loggers: auto, shm, messages, verbs or ofi:PROVIDER.
    #[arg(long, value_name = "WAY", default_value = "auto", value_parser = checked(events::commit_path))]
    pub event_way: String,
    /// Folder of the started loggers' files, kept after the job; see `refrain events`
    /// [default: a temporary folder].
    #[arg(long, value_name = "DIR")]
    pub event_dir: Option<PathBuf>,
    /// Folder of the started loggers' rings [default: /dev/shm with --event-way verbs, else
    /// with their files].
    #[arg(long, value_name = "DIR")]
    pub event_rings: Option<PathBuf>,
    /// Time that a send waits for its events, and a starting rank for the loggers, before it
    /// fails.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds::milliseconds)]
    pub event_wait: u64,
    /// Hold back output of a rank until the events before it are stable.
    #[arg(long)]
    pub gate_output: bool,
}

/// Checkpoints.
#[derive(Args)]
#[command(next_help_heading = "Checkpoints")]
pub struct Checkpoints {
    /// Folder of the job, on all hosts: SIGUSR1 and SIGTERM stop the job at checkpoints of all ranks
    /// (status 85), and a job that is started again with the same folder goes on.
    #[arg(long, value_name = "DIR")]
    pub job_dir: Option<PathBuf>,
    /// Folder or server (unix:PATH or tcp:HOST:PORT) for checkpoints, which are removed with
    /// the job [default: a temporary folder].
    #[arg(long, value_name = "DIR|ADDRESS")]
    pub checkpoint_dir: Option<String>,
    /// File with the --secret of the checkpoint server at a tcp: address.
    #[arg(long, value_name = "FILE")]
    pub checkpoint_secret: Option<PathBuf>,
    /// Time between two requests for checkpoints; with interval, between two checkpoints of a
    /// rank.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = seconds::milliseconds)]
    pub checkpoint_every: u64,
}

/// Injected faults, and ranks that count as lost.
#[derive(Args)]
#[command(next_help_heading = "Faults")]
pub struct Faults {
    /// Kill ranks or event loggers: RANK@SECONDS, RANK@clock=N, eventlogger.K@SECONDS, with
    /// `,` between them.
    #[arg(long, value_name = "TARGET@WHEN", value_delimiter = ',')]
    pub kill: Vec<Kill>,
    /// Kill ranks at random, on average every SECONDS.
    #[arg(long, value_name = "SECONDS[,SEED]")]
    pub kill_random: Option<KillRandom>,
    /// Kill no rank while the events of another dead one are in danger: --kill waits, random kills
    /// are left out.
    #[arg(long)]
    pub kill_in_turn: bool,
    /// Stop ranks at SECONDS for DURATION seconds, with `,` between them.
    #[arg(long, value_name = "RANK@SECONDS:DURATION", value_delimiter = ',')]
    pub pause: Vec<Pause>,
    /// Time after which a stopped rank is killed and restarted.
    #[arg(long, value_name = "SECONDS|off", default_value = "off", value_parser = seconds::limit)]
    pub suspect_ranks_after: Limit,
}

/// Output of the job.
#[derive(Args)]
#[command(next_help_heading = "Output")]
pub struct OutputOptions {
    /// Do not put the rank before each line of output.
    #[arg(long)]
    pub no_prefix: bool,
    /// Show the state of the job on stderr while it runs.
    #[arg(long)]
    pub progress: bool,
    /// Write the statistics to a file, as JSON.
    #[arg(long, value_name = "FILE")]
    pub stats_file: Option<PathBuf>,
    /// Append the state of the job to a file each second, as a line of JSON.
    #[arg(long, value_name = "FILE")]
    pub status_file: Option<PathBuf>,
    /// Serve the state of the job by HTTP at this address, as text for Prometheus; port 0: a free
    /// one.
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub metrics: Option<SocketAddr>,
}

fn ranks(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(ranks @ 1..=RANKS_MAX) => Ok(ranks),
        _ => Err(format!("use a number from 1 to {RANKS_MAX}")),
    }
}

/// The hosts of a job. A type of its own, since clap takes a `Vec` for an argument that may be
/// given several times.
#[derive(Clone)]
pub struct Hosts(pub Vec<HostSlots>);

fn hosts(text: &str) -> Result<Hosts, NotAHost> {
    parse_hosts(text).map(Hosts)
}

fn hostfile(path: &str) -> Result<Hosts, NotAHost> {
    read_hostfile(path.as_ref()).map(Hosts)
}

/// A parser of names that `check` accepts.
fn checked<T, E>(check: fn(&str) -> Result<T, E>) -> impl Fn(&str) -> Result<String, E> + Clone {
    move |name| check(name).map(|_| name.to_owned())
}

/// Reads a table of algorithms.
fn collectives_table(file: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("cannot read it: {error}"))?;
    let mut table = refrain_collectives::choice::Table::default();
    match table.override_with(&text) {
        Ok(()) => Ok(text),
        Err(error) => Err(error.to_string()),
    }
}

fn on_or_off(text: &str) -> Result<bool, &'static str> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err("use on or off"),
    }
}

fn replicas(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(replicas @ 1..=REPLICAS_MAX) => Ok(replicas),
        _ => Err(format!("use a number from 1 to {REPLICAS_MAX}")),
    }
}

/// A file name that can be passed to ranks. Empty text is refused.
fn library(file: &str) -> Result<String, String> {
    if file.is_empty() {
        return Err("name the file, such as /usr/lib/x86_64-linux-gnu/LIBRARY.so.1".into());
    }
    Ok(file.to_owned())
}
