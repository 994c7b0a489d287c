//! `refrain eventlogger`.

use crate::secret;
use crate::voice::tell;
use clap::{Args, ValueEnum};
use miette::{IntoDiagnostic, WrapErr};
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::logbook::StoreIo;
use refrain_eventlog::remote::VERBS;
use refrain_eventlog::server::{RemoteOptions, Server, ServerOptions};
use refrain_eventlog::{Level, LoggerId};
use refrain_job::choice::library::{LIBFABRIC, LIBIBVERBS};
use refrain_job::choice::verbs;
use refrain_job::config::VerbsConfig;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{Write, stdout};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `refrain eventlogger`.
#[derive(Args)]
pub struct Arguments {
    /// Its folder: made if it is not there, of one logger for ever. A restart
    /// goes on with what is in it.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Listen at unix:PATH or tcp:HOST:PORT (port 0: one that is free). A Unix socket
    /// serves processes of the same user, a TCP port those who know the --secret;
    /// without one, whoever reaches it.
    #[arg(long, value_name = "ADDRESS", required = true)]
    listen: Vec<ServerAddress>,
    /// A file with what TCP clients and peers have to know: 64 hexadecimal digits, for
    /// nobody else's eyes; - for standard input. They prove it, and all that is said is
    /// encrypted.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// Which event logger of the job it is.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    logger: u32,
    /// What it acknowledges: placed (survives the death of any process) or
    /// durable (of the host, too).
    #[arg(long, value_enum, default_value_t = LevelName::Placed)]
    level: LevelName,
    /// Another replica of its shard, to be asked for what this one lacks.
    #[arg(long, value_name = "ADDRESS")]
    peer: Vec<ServerAddress>,
    /// End with an error if DIR has no files of an earlier start: they were lost, with
    /// the events that this logger acknowledged.
    #[arg(long = "continue")]
    continues: bool,
    /// How to write its files.
    #[arg(long, value_enum, default_value_t = IoName::Auto)]
    io: IoName,
    /// Offer commits by one-sided writes too: a provider of libfabric, or verbs
    /// (docs/design/event-remote.md).
    #[arg(long, value_name = "PROVIDER")]
    provider: Option<String>,
    /// Where the rings lie that clients write into, if not in DIR: a folder for this
    /// logger alone. Devices of verbs need one in memory, such as one in /dev/shm.
    #[arg(long, value_name = "FOLDER")]
    rings: Option<PathBuf>,
    /// The file of libfabric; else the one that REFRAIN_LIBFABRIC names, else
    /// libfabric.so.1 as the loader finds it.
    #[arg(long, value_name = "FILE", requires = "provider")]
    libfabric: Option<PathBuf>,
    /// The file of libibverbs; else the one that REFRAIN_LIBIBVERBS names, else
    /// libibverbs.so.1 as the loader finds it.
    #[arg(long, value_name = "FILE", requires = "provider")]
    libibverbs: Option<PathBuf>,
    /// The RDMA device for --provider verbs; else the one that REFRAIN_VERBS_DEVICE
    /// names, else the first that can be used.
    #[arg(long, value_name = "NAME", requires = "provider")]
    verbs_device: Option<String>,
    /// Its port; else the first that can be used.
    #[arg(long, value_name = "N", requires = "provider", value_parser = clap::value_parser!(u8).range(1..))]
    verbs_port: Option<u8>,
    /// Which of the port's addresses (GIDs) to use; else one of RoCE v2.
    #[arg(long, value_name = "INDEX", requires = "provider")]
    verbs_gid_index: Option<u8>,
    /// Bytes that a packet carries: 256, 512, 1024, 2048 or 4096; else what the
    /// port does.
    #[arg(long, value_name = "BYTES", requires = "provider")]
    verbs_mtu: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum LevelName {
    Placed,
    Durable,
}

#[derive(Clone, Copy, ValueEnum)]
enum IoName {
    /// What is best here.
    Auto,
    /// io_uring, or not at all.
    Uring,
    /// Plain system calls.
    Plain,
}

/// Serves until SIGTERM or SIGINT; then stores everything and ends.
pub fn run(arguments: Arguments) -> miette::Result<ExitCode> {
    let (stop, signalled) = UnixStream::pair().into_diagnostic()?;
    for signal in [SIGTERM, SIGINT] {
        let signalled = signalled.try_clone().into_diagnostic()?;
        signal_hook::low_level::pipe::register(signal, signalled)
            .into_diagnostic()
            .wrap_err("catching signals")?;
    }
    let level = match arguments.level {
        LevelName::Placed => Level::Placed,
        LevelName::Durable => Level::Durable,
    };
    let logger = LoggerId(arguments.logger);
    let mut options = ServerOptions::new(arguments.folder, logger, level);
    options.listen = arguments.listen;
    options.rings = arguments.rings;
    options.peers = arguments.peer;
    options.continues = arguments.continues;
    if let Some(file) = &arguments.secret {
        let secret = secret::read("--secret", file)?;
        for address in options.listen.iter_mut().chain(&mut options.peers) {
            *address = address.clone().sealed(&secret);
        }
    }
    options.io = match arguments.io {
        IoName::Auto => StoreIo::Auto,
        IoName::Uring => StoreIo::Uring,
        IoName::Plain => StoreIo::Plain,
    };
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
    let report = move |text: &str| tell(format_args!("refrain: event logger {number}: {text}"));
    let mut server = Server::bind(options, report).into_diagnostic()?;
    let addresses: Vec<String> = server.addresses().map(ToString::to_string).collect();
    let mut out = stdout();
    // Whoever started it may not care, and may have closed that.
    let _ = writeln!(out, "listening on {}", addresses.join(", ")).and_then(|()| out.flush());
    server.serve_until(&stop).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}
