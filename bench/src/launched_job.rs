//! A job of this very executable's, for those that run many.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// In the environment of all processes of such jobs: the folder that they are of.
pub const MARK: &str = "REFRAIN_SOAK";

/// `refrain run` with these options and this workload, whose temporary files go to
/// `temporary`.
///
/// # Errors
/// When this executable cannot be found.
pub fn command(
    ranks: u32,
    options: &[String],
    workload: &[String],
    (mark, temporary): (&Path, &Path),
) -> io::Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["run", "--no-prefix", "-n", &ranks.to_string()])
        .args(options)
        .args(["--", "refrain-workload"])
        .args(workload)
        .env("TMPDIR", temporary)
        .env(MARK, mark)
        .stdin(Stdio::null());
    Ok(command)
}
