//! Functions that `refrain eventlogger` and `refrain checkpointd` share.

use miette::{IntoDiagnostic, WrapErr};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Display;
use std::io::{Write, stdout};
use std::os::unix::net::UnixStream;

/// A socket that becomes readable after SIGTERM or SIGINT.
pub fn stop_at_signals() -> miette::Result<UnixStream> {
    let (stop, signalled) = UnixStream::pair().into_diagnostic()?;
    for signal in [SIGTERM, SIGINT] {
        let signalled = signalled.try_clone().into_diagnostic()?;
        signal_hook::low_level::pipe::register(signal, signalled)
            .into_diagnostic()
            .wrap_err("catching signals")?;
    }
    Ok(stop)
}

/// Prints the addresses that a server listens at.
pub fn print_addresses(addresses: impl Iterator<Item: Display>) {
    let addresses: Vec<String> = addresses.map(|address| address.to_string()).collect();
    let mut out = stdout();
    // A closed stdout is no error.
    let _ = writeln!(out, "listening on {}", addresses.join(", ")).and_then(|()| out.flush());
}
