//! A rank of the sweep: executes commands of the driver.

use super::command::{Answer, Command, Incoming, rank_failed, write_frame};
use super::measure::{RankState, measure};
use super::peers::trampoline;
use crate::error::BenchError;
use crate::machine::readable;
use refrain::World;
use rustix::fs::{OFlags, fcntl_setfl};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::process::ExitCode;
use std::time::Duration;

/// Environment variables with the numbers of a rank's pipes.
pub const COMMANDS_VARIABLE: &str = "REFRAIN_NETPIPE_COMMANDS";
pub const ANSWERS_VARIABLE: &str = "REFRAIN_NETPIPE_ANSWERS";
/// Leaves the core to the driver, which may run on the same core.
const ATTENDING_NAP: Duration = Duration::from_micros(50);

/// The hidden subcommand `netpipe-rank`: the process is one of the two ranks of a job that
/// `refrain netpipe` has started, or becomes a program that `--peers` compares with.
///
/// # Errors
/// The driver has not started this process, or the job fails.
pub fn rank_main() -> miette::Result<ExitCode> {
    trampoline::become_peer_if_asked()?;
    let mut commands = open_pipe(COMMANDS_VARIABLE, File::options().read(true))?;
    let mut answers = open_pipe(ANSWERS_VARIABLE, File::options().write(true))?;
    match serve(&mut commands, &mut answers) {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(reason) => {
            // The driver reports the error, or this process if the driver is gone.
            match write_frame(&mut answers, &Answer::Failed(reason.clone())) {
                Ok(()) => Ok(ExitCode::FAILURE),
                Err(_) => Err(rank_failed(reason).into()),
            }
        }
    }
}

fn serve(commands: &mut File, answers: &mut File) -> Result<(), String> {
    let mut world = World::init().map_err(|error| error.to_string())?;
    if world.size() != 2 {
        return Err(format!("the job has {} ranks, not 2", world.size()));
    }
    let ready = Answer::Ready {
        fabric: world.fabric().into(),
        protocol: world.protocol().into(),
    };
    write_frame(answers, &ready).map_err(gone)?;
    let mut incoming = Incoming::default();
    let mut state = RankState::new(0, None);
    while let Some(command) = next_command(&mut incoming, commands)? {
        match command {
            Command::Prepare {
                largest_bytes,
                log_room,
            } => {
                let largest = usize::try_from(largest_bytes)
                    .map_err(|_| format!("{largest_bytes} bytes do not fit in memory"))?;
                state = RankState::new(largest, log_room);
            }
            Command::Measure(round) => {
                let samples = measure(&mut world, &mut state, &round)
                    .map_err(|error| format!("{} bytes: {error}", round.bytes))?;
                write_frame(answers, &Answer::Measured(samples)).map_err(gone)?;
                attend(&mut world, commands)?;
            }
            Command::Rest => {}
        }
    }
    world.finalize().map_err(|error| error.to_string())
}

/// Makes progress until the next command of the driver, which comes when both ranks have received
/// everything. Until then the other rank may depend on progress of this rank: a frame may have
/// been refused at first, or the other rank may read from this rank's log.
fn attend(world: &mut World, commands: &File) -> Result<(), String> {
    while !readable(commands, ATTENDING_NAP).map_err(|error| error.to_string())? {
        world.progress().map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Sleeps until the next command of the driver.
fn next_command(incoming: &mut Incoming, commands: &mut File) -> Result<Option<Command>, String> {
    loop {
        if let Some(command) = incoming.take().map_err(gone)? {
            return Ok(Some(command));
        }
        if !incoming.read_from(commands).map_err(gone)? {
            return Ok(None);
        }
    }
}

fn gone(error: std::io::Error) -> String {
    format!("the driver of the sweep cannot be reached: {error}")
}

/// Opens the inherited pipe whose number is in the environment. Opening it again through `/proc`
/// needs no assumption about the owner of the number.
fn open_pipe(variable: &str, options: &mut OpenOptions) -> Result<File, BenchError> {
    let wrong = |reason: String| rank_failed(format!("{reason}; only `refrain netpipe` starts it"));
    let number: u32 = std::env::var(variable)
        .map_err(|_| wrong(format!("{variable} is not set")))?
        .parse()
        .map_err(|_| wrong(format!("{variable} is not a number")))?;
    // Without blocking: if the driver is gone, the pipe has no other end to wait for.
    let pipe = options
        .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
        .open(format!("/proc/self/fd/{number}"))
        .and_then(|pipe| {
            fcntl_setfl(&pipe, OFlags::empty())?;
            Ok(pipe)
        });
    pipe.map_err(|error| wrong(format!("cannot open the pipe of {variable}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_started_by_hand_says_so() {
        let Err(error) = open_pipe("REFRAIN_NETPIPE_NOT_SET", File::options().read(true)) else {
            panic!("there is no such pipe");
        };
        assert!(error.to_string().contains("refrain netpipe"), "{error}");
    }
}
