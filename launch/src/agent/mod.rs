//! The launcher's agent on another host: starts the host's ranks, and forwards messages between
//! them and the launcher, their output, and their ends.
//!
//! One thread and one poll(2) loop. Ranks are children of the agent, with control sockets to the
//! agent, as ranks on the launcher's host have them to the launcher. No process or file of the job
//! stays on the host without the launcher: when the connection or the standard input is closed, or
//! the other side no longer acknowledges data, the agent kills its ranks and ends; when the agent
//! is killed, the kernel kills its ranks.
//!
//! | file | subject |
//! |---|---|
//! | `service` | the loop |
//! | `input` | the standard input of a rank |
//! | `ranks` | the ranks of the host, and the memory that they have shared |
//! | `services` | event loggers and checkpoint servers of a host without ranks |
//! | `watch` | stops the ranks while the agent has no lease |
//!
//! Docs: `docs/guide/hosts.md`.

mod input;
mod ranks;
mod service;
mod services;
mod watch;

pub use service::AgentError;

use crate::hosts::invitation::{Invitation, KEY, LINE_BYTES_MAX};
use crate::hosts::message::{AGENT, FromAgent};
use crate::polling;
use refrain_pmi::Server;
use refrain_wire::{Connection, WireError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::stdio::dup2_stdin;
use signal_hook::consts::{SIGTERM, SIGUSR1, SIGUSR2};
use std::io::{self, BufRead as _, ErrorKind, Read as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Reads the launcher's addresses from standard input, serves one job, and returns when the job
/// is over. No process of the job is left running then.
///
/// # Errors
/// When the launcher cannot be reached, or the connection to it is lost.
pub fn run() -> Result<(), AgentError> {
    let mut line = String::new();
    io::stdin()
        .lock()
        .take(LINE_BYTES_MAX)
        .read_line(&mut line)?;
    serve(&line.parse()?)
}

/// As [`run`], in a task that another launcher has started, with the addresses that the launcher has
/// published. Standard input is not read.
///
/// # Errors
/// As [`run`].
pub fn run_as_task(server: &mut Server) -> Result<(), AgentError> {
    let host = server.rank();
    let value = server.get(0, KEY)?;
    let Some(invitation) = Invitation::of_value(&value, host)? else {
        return Ok(());
    };
    // An agent ends when its standard input is closed: this one never is.
    let (empty, kept_open) = pipe_with(PipeFlags::CLOEXEC).map_err(io::Error::from)?;
    dup2_stdin(&empty).map_err(io::Error::from)?;
    let served = serve(&invitation);
    drop(kept_open);
    served
}

/// Makes this process outlive the signals that Slurm sends to all processes of a job: SIGTERM when it
/// ends the job; the launcher then ends the agent, which removes its files; SIGUSR1 and SIGUSR2 on
/// request (`sbatch --signal`). Handlers, since ranks would inherit that a signal is ignored. The flag is
/// set by SIGUSR1.
///
/// # Errors
/// Of the system.
pub fn outlive_signals() -> io::Result<Arc<AtomicBool>> {
    for signal in [SIGTERM, SIGUSR2] {
        signal_hook::flag::register(signal, Arc::default())?;
    }
    let asked = Arc::default();
    signal_hook::flag::register(SIGUSR1, Arc::clone(&asked))?;
    Ok(asked)
}

fn serve(invitation: &Invitation) -> Result<(), AgentError> {
    let asked = outlive_signals()?;
    match call(invitation)? {
        Some(wire) => service::serve(wire, invitation.host, asked),
        None => Ok(()),
    }
}

/// Time limit for a connection to one address.
const ADDRESS_MAX: Duration = Duration::from_secs(5);
/// Number of times that all addresses are tried: other clients may fill the launcher's door.
const ROUNDS: u32 = 3;

/// Connects to the launcher. `None`: the launcher no longer waits.
fn call(invitation: &Invitation) -> Result<Option<Connection>, AgentError> {
    let mut addresses: Vec<IpAddr> = where_ssh_came_from().into_iter().collect();
    for address in &invitation.addresses {
        if !addresses.contains(address) {
            addresses.push(*address);
        }
    }
    let mut tried = Vec::new();
    for _ in 0..ROUNDS {
        tried.clear();
        for address in &addresses {
            let address = SocketAddr::new(*address, invitation.port);
            match try_at(address, invitation) {
                Ok(wire) => return Ok(Some(wire)),
                Err(_) if is_dismissed() => return Ok(None),
                Err(error) => tried.push(format!("{address}: {error}")),
            }
        }
    }
    Err(AgentError::Unreachable(tried.join("; ")))
}

fn try_at(address: SocketAddr, invitation: &Invitation) -> Result<Connection, WireError> {
    let until = Instant::now() + ADDRESS_MAX;
    let mut wire = Connection::begin_tcp(address, Some(&invitation.secret), &AGENT)?;
    wire.say(&FromAgent::Hello(invitation.host))?;
    while !wire.is_proven() || wire.unsent_bytes() > 0 {
        wait(&wire, until)?;
        wire.flush()?;
        wire.receive()?;
    }
    Ok(wire)
}

/// Sleeps until the connection can be read or written, or until a time.
fn wait(wire: &Connection, until: Instant) -> io::Result<()> {
    let stdin = io::stdin();
    let mut polled = [
        PollFd::from_borrowed_fd(wire.as_fd(), wire.interest()),
        PollFd::new(&stdin, PollFlags::IN),
    ];
    let left = until.saturating_duration_since(Instant::now());
    let left = Timespec::try_from(left).map_err(io::Error::other)?;
    match rustix::io::retry_on_intr(|| poll(&mut polled, Some(&left)))? {
        0 => Err(ErrorKind::TimedOut.into()),
        _ if polled[0].revents().is_empty() => Err(ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

/// Whether stdin is closed: the launcher no longer waits.
fn is_dismissed() -> bool {
    polling::is_ready(&io::stdin(), PollFlags::IN)
}

/// The launcher's host as sshd has seen it: this address is known to be reachable.
fn where_ssh_came_from() -> Option<IpAddr> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    connection.split_ascii_whitespace().next()?.parse().ok()
}
