//! `refrain eventlogger`.

use crate::secret;
use crate::serving;
use clap::Args;
use miette::IntoDiagnostic;
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::remote::VERBS;
use refrain_eventlog::server::{RemoteOptions, Server, ServerOptions};
use refrain_eventlog::{Level, LoggerId};
use refrain_job::choice::library::{LIBFABRIC, LIBIBVERBS};
use refrain_job::choice::{self, events, verbs};
use refrain_job::config::VerbsConfig;
use refrain_job::{JobError, stderr};
use refrain_storage::Io;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `refrain eventlogger`.
#[derive(Args)]
pub struct Arguments {
    /// Folder of the events, for this logger alone; created if missing, reused after a
    /// restart.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Address to listen at: unix:PATH (for processes of the same user) or tcp:HOST:PORT (port
    /// 0: any free port).
    #[arg(long, value_name = "ADDRESS", required = true)]
    listen: Vec<ServerAddress>,
    /// File with the secret of TCP connections, which are then authenticated and encrypted: 64
    /// hexadecimal digits, mode 600; - for stdin.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Number of this event logger in the job.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    logger: u32,
    /// When an event is acknowledged: placed (survives the death of processes) or durable (also
    /// that of the host).
    #[arg(long, value_name = "LEVEL", default_value = "placed", value_parser = events::level)]
    level: Level,
    /// Address of another replica of the shard, which provides missing events.
    #[arg(long, value_name = "ADDRESS")]
    peer: Vec<ServerAddress>,
    /// Fail if DIR has no files of an earlier start: acknowledged events are then lost.
    #[arg(long = "continue")]
    continues: bool,
    /// How files are written: auto, uring (fails where io_uring is missing) or plain.
    #[arg(long, value_name = "ENGINE", default_value = "auto", value_parser = disk_engine)]
    io: Io,
    /// Accept events by one-sided writes through a provider of libfabric, or verbs; see
    /// docs/design/event-remote.md.
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Folder of the rings that clients write to, for this logger alone; in memory (/dev/shm)
    /// for verbs [default: DIR].
    #[arg(long, value_name = "FOLDER")]
    rings: Option<PathBuf>,
    /// File of libfabric [default: $REFRAIN_LIBFABRIC or libfabric.so.1].
    #[arg(long, value_name = "FILE", requires = "provider")]
    libfabric: Option<PathBuf>,
    /// File of libibverbs [default: $REFRAIN_LIBIBVERBS or libibverbs.so.1].
    #[arg(long, value_name = "FILE", requires = "provider")]
    libibverbs: Option<PathBuf>,
    /// RDMA device of --provider verbs [default: $REFRAIN_VERBS_DEVICE or the first usable].
    #[arg(long, value_name = "NAME", requires = "provider")]
    verbs_device: Option<String>,
    /// Port of the RDMA device [default: the first usable].
    #[arg(long, value_name = "N", requires = "provider", value_parser = clap::value_parser!(u8).range(1..))]
    verbs_port: Option<u8>,
    /// Index of the port's address (GID) [default: that of a RoCE v2 address].
    #[arg(long, value_name = "INDEX", requires = "provider")]
    verbs_gid_index: Option<u8>,
    /// Bytes per packet: 256, 512, 1024, 2048 or 4096 [default: the port's MTU].
    #[arg(long, value_name = "BYTES", requires = "provider")]
    verbs_mtu: Option<u32>,
}

fn disk_engine(name: &str) -> Result<Io, JobError> {
    choice::disk_engine("--io", name)
}

/// Serves until SIGTERM or SIGINT, then stores all events and returns.
pub fn run(arguments: Arguments) -> miette::Result<ExitCode> {
    let stop = serving::stop_at_signals()?;
    let logger = LoggerId(arguments.logger);
    let mut options = ServerOptions::new(arguments.folder, logger, arguments.level);
    options.listen = arguments.listen;
    options.rings = arguments.rings;
    options.peers = arguments.peer;
    options.continues = arguments.continues;
    let addresses = options.listen.iter_mut().chain(&mut options.peers);
    secret::seal("--secret", arguments.secret.as_deref(), addresses)?;
    options.io = arguments.io;
    let port = verbs::port(&VerbsConfig {
        device: arguments.verbs_device,
        port: arguments.verbs_port,
        gid_index: arguments.verbs_gid_index,
        mtu_bytes: arguments.verbs_mtu,
        library: None,
    });
    options.remote = arguments.provider.map(|name| RemoteOptions {
        library: match name == VERBS {
            true => LIBIBVERBS.or_of_environment(arguments.libibverbs),
            false => LIBFABRIC.or_of_environment(arguments.libfabric),
        },
        provider: name,
        port,
    });
    let number = logger.0;
    let report = move |text: &str| stderr::report(format_args!("event logger {number}: {text}"));
    let mut server = Server::bind(options, report).into_diagnostic()?;
    serving::print_addresses(server.addresses());
    server.serve_until(&stop).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}
