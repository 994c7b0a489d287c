//! `mpiexec` and `mpirun`: `refrain run` with the options of MPI's standard (MPI-5.0, section 11.5)
//! and those of other MPI libraries that people use. All options of `refrain run` work too.

pub mod options;
mod section;

use crate::run;
use clap::{Args as _, Command, FromArgMatches as _};
use miette::IntoDiagnostic as _;
use section::{PREFIX, Section};
use std::ffi::{OsStr, OsString};
use std::io::{Write as _, stdout};
use std::path::Path;
use std::process::ExitCode;

/// The names under which `refrain` is `mpiexec`.
pub const NAMES: [&str; 2] = ["mpiexec", "mpirun"];

/// Whether this process was started as `mpiexec` or `mpirun`.
pub fn is_name_of(program: &OsStr) -> bool {
    let name = Path::new(program).file_name();
    name.is_some_and(|name| NAMES.iter().any(|known| name == *known))
}

/// The options of `refrain run`, to find out which of them have a value.
pub fn options_of_run() -> Command {
    run::Arguments::augment_args(Command::new("mpiexec").no_binary_name(true))
}

/// The settings of the job. The programs are given otherwise: the last word stands for all.
///
/// # Errors
/// The wrong option, and its help.
pub fn arguments_of_run(ranks: u32, options: &[OsString]) -> Result<run::Arguments, clap::Error> {
    let is_prefixed = options.iter().any(|word| word == PREFIX);
    let options = options.iter().filter(|word| *word != PREFIX).cloned();
    let all = [OsString::from("-n"), ranks.to_string().into()].into_iter();
    let all = all.chain(options);
    let all = all.chain(["--".into(), "programs".into()]);
    let matches = options_of_run().try_get_matches_from(all)?;
    let mut arguments = run::Arguments::from_arg_matches(&matches)?;
    arguments.output.no_prefix |= !is_prefixed;
    Ok(arguments)
}

fn print(text: &str) -> miette::Result<ExitCode> {
    stdout().write_all(text.as_bytes()).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the job that the words behind the program's name describe; returns its exit status.
pub fn run(words: &[OsString]) -> miette::Result<ExitCode> {
    if let [word] = words {
        match word.to_str() {
            Some("-h" | "-help" | "--help") => return print(&options::help()),
            Some("-V" | "-version" | "--version") => {
                return print(concat!(
                    "mpiexec (refrain) ",
                    env!("CARGO_PKG_VERSION"),
                    "\n"
                ));
            }
            _ => {}
        }
    }
    let mut words = section::read(words, &options_of_run())?;
    let ranks = words.sections.iter().map(Section::ranks);
    let ranks = ranks.fold(0, u32::saturating_add);
    let arguments = arguments_of_run(ranks, &words.options);
    let arguments = arguments.unwrap_or_else(|error| error.exit());
    if let [only] = &mut words.sections[..]
        && only.ranks.is_none()
    {
        only.ranks = run::tasks(&arguments)?;
    }
    let programs = words.sections.into_iter().map(Section::program);
    run::run_programs(&arguments, programs.collect())
}
