//! `refrain checkpointd`.

use crate::secret;
use clap::{Args, ValueEnum};
use miette::{IntoDiagnostic, WrapErr};
use refrain_checkpoint::ServerAddress;
use refrain_checkpoint::server::{FILES_PER_SESSION, SESSIONS_MAX, Server, ServerOptions};
use refrain_job::stderr;
use refrain_storage::Io;
use refrain_wire::STRANGERS_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io::{Write, stdout};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `refrain checkpointd`.
#[derive(Args)]
pub struct Arguments {
    /// Folder of the checkpoints, for this server alone; created if missing, reused after a
    /// restart.
    #[arg(long, value_name = "DIR")]
    dir: PathBuf,
    /// Address to listen at: unix:PATH (for processes of the same user) or tcp:HOST:PORT (port
    /// 0: any free port).
    #[arg(long, value_name = "ADDRESS", required = true)]
    listen: Vec<ServerAddress>,
    /// File with the secret of TCP connections, which are then authenticated and encrypted: 64
    /// hexadecimal digits, mode 600; - for stdin.
    #[arg(long, value_name = "FILE")]
    secret: Option<PathBuf>,
    /// How files are written.
    #[arg(long, value_enum, default_value_t = IoName::Auto)]
    io: IoName,
}

#[derive(Clone, Copy, ValueEnum)]
enum IoName {
    /// The fastest engine that works here.
    Auto,
    /// io_uring; fails where it is missing.
    Uring,
    /// A thread for each checkpoint.
    Thread,
    /// System calls.
    Plain,
}

/// Serves until SIGTERM or SIGINT; then ends sessions and itself.
pub fn run(arguments: Arguments) -> miette::Result<ExitCode> {
    let (stop, signalled) = UnixStream::pair().into_diagnostic()?;
    for signal in [SIGTERM, SIGINT] {
        let signalled = signalled.try_clone().into_diagnostic()?;
        signal_hook::low_level::pipe::register(signal, signalled)
            .into_diagnostic()
            .wrap_err("catching signals")?;
    }
    let mut listen = arguments.listen;
    if let Some(file) = &arguments.secret {
        let secret = secret::read("--secret", file)?;
        for address in &mut listen {
            *address = address.clone().sealed(&secret);
        }
    }
    let options = ServerOptions {
        folder: arguments.dir,
        listen,
        io: match arguments.io {
            IoName::Auto => Io::Auto,
            IoName::Uring => Io::Uring,
            IoName::Thread => Io::Thread,
            IoName::Plain => Io::Plain,
        },
        sessions_max: sessions_max(),
    };
    let report = |text: &str| stderr::report(format_args!("checkpoint server: {text}"));
    let mut server = Server::bind(&options, report).into_diagnostic()?;
    let addresses: Vec<String> = server.addresses().map(ToString::to_string).collect();
    let mut out = stdout();
    // A closed stdout is no error.
    let _ = writeln!(out, "listening on {}", addresses.join(", ")).and_then(|()| out.flush());
    server.serve_until(&stop).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}

/// Open files besides those of sessions and unproven connections: listeners, the folder, pipes.
const FILES_BESIDES: usize = 64;

/// Raises the limit of open files as far as needed and allowed. Returns the number of
/// sessions that it allows.
fn sessions_max() -> usize {
    let besides = FILES_BESIDES + STRANGERS_MAX;
    let needed = (besides + SESSIONS_MAX * FILES_PER_SESSION) as u64;
    let limit = getrlimit(Resource::Nofile);
    let mut allowed = limit.current.unwrap_or(u64::MAX);
    if allowed < needed {
        let raised = limit.maximum.map_or(needed, |maximum| maximum.min(needed));
        let wanted = Rlimit {
            current: Some(raised),
            maximum: limit.maximum,
        };
        if setrlimit(Resource::Nofile, wanted).is_ok() {
            allowed = raised;
        }
    }
    let left = usize::try_from(allowed).unwrap_or(usize::MAX);
    let room = left.saturating_sub(besides) / FILES_PER_SESSION;
    room.clamp(1, SESSIONS_MAX)
}
