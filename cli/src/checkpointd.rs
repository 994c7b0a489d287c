//! `refrain checkpointd`.

use crate::secret;
use crate::serving;
use clap::Args;
use miette::IntoDiagnostic;
use refrain_checkpoint::ServerAddress;
use refrain_checkpoint::server::{FILES_PER_SESSION, SESSIONS_MAX, Server, ServerOptions};
use refrain_job::{JobError, choice, stderr};
use refrain_storage::Io;
use refrain_wire::STRANGERS_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
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
    /// How files are written: auto, uring (fails where io_uring is missing), thread (one for
    /// each checkpoint) or plain.
    #[arg(long, value_name = "ENGINE", default_value = "auto", value_parser = disk_engine)]
    io: Io,
}

fn disk_engine(name: &str) -> Result<Io, JobError> {
    match name {
        "thread" => Ok(Io::Thread),
        name => choice::disk_engine("--io", name),
    }
}

/// Serves until SIGTERM or SIGINT, then ends all sessions and returns.
pub fn run(arguments: Arguments) -> miette::Result<ExitCode> {
    let stop = serving::stop_at_signals()?;
    let mut listen = arguments.listen;
    secret::seal("--secret", arguments.secret.as_deref(), listen.iter_mut())?;
    let options = ServerOptions {
        folder: arguments.dir,
        listen,
        io: arguments.io,
        sessions_max: sessions_max(),
    };
    let report = |text: &str| stderr::report(format_args!("checkpoint server: {text}"));
    let mut server = Server::bind(&options, report).into_diagnostic()?;
    serving::print_addresses(server.addresses());
    server.serve_until(&stop).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}

/// Open files besides those of sessions and unauthenticated connections: listeners, the folder,
/// pipes.
const FILES_BESIDES: usize = 64;

/// Raises the limit of open files as far as needed and allowed. Returns the number of sessions for
/// which it is enough.
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
