//! The options of `mpiexec`, for its help, its manual page and its completions.

use clap::{Arg, ArgAction, Command, ValueHint};
use std::fmt::Write as _;

/// An option: its names, the names of its values, and what it does.
struct Described(
    &'static [&'static str],
    &'static [&'static str],
    &'static str,
);

const OF_A_PROGRAM: [Described; 6] = [
    Described(
        &["n", "np"],
        &["N"],
        "Number of ranks [default: 1; of one program in a Slurm allocation: its tasks]",
    ),
    Described(&["wdir"], &["DIR"], "Working folder"),
    Described(&["path"], &["DIR[:DIR]…"], "Folders to find the program in"),
    Described(
        &["x"],
        &["NAME[=VALUE]"],
        "Set a variable, or pass it on to other hosts",
    ),
    Described(&["env"], &["NAME", "VALUE"], "Set a variable"),
    Described(
        &["host", "hosts", "H"],
        &["NAME[:SLOTS],…"],
        "Hosts of its ranks, or, only at the first program, of all",
    ),
];

const OF_THE_JOB: [Described; 6] = [
    Described(
        &["genv"],
        &["NAME", "VALUE"],
        "Set a variable for all programs",
    ),
    Described(
        &["genvlist"],
        &["NAME[,NAME]…"],
        "Pass variables on to other hosts",
    ),
    Described(
        &["hostfile", "machinefile", "f"],
        &["FILE"],
        "Hosts from a file with lines `NAME slots=N`",
    ),
    Described(
        &["initial-errhandler"],
        &["NAME"],
        "mpi_errors_are_fatal [default], mpi_errors_abort or mpi_errors_return",
    ),
    Described(&["l"], &[], "Put the rank before each line of output"),
    Described(
        &["configfile"],
        &["FILE"],
        "Programs with their options from a file, one on each line; quotes keep blanks",
    ),
];

const PRINTS: [Described; 2] = [
    Described(&["h", "help"], &[], "Print help"),
    Described(&["V", "version"], &[], "Print version"),
];

const ABOUT: &str = "Run an MPI program; a rank that is killed continues";
const USAGE: &str = "mpiexec [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]…";
const HEADING_OF_A_PROGRAM: &str = "Options of a program";
const HEADING_OF_THE_JOB: &str = "Options of the job, before the first program";
const REMARKS: &str = "\
Names of several letters have one dash or two. The options of `refrain run` work too, such as
--protocol none or --kill 1@2: see `refrain run --help`. Messages are logged, in memory and in the
folder for temporary files; a job whose log is full continues unprotected. Rank 0 reads the standard
input.
";

/// The text of `mpiexec --help`.
pub fn help() -> String {
    let mut text = format!("{ABOUT}\n\nUsage: {USAGE}\n\n{HEADING_OF_A_PROGRAM}:\n");
    write_lines(&mut text, &OF_A_PROGRAM);
    let _ = writeln!(text, "\n{HEADING_OF_THE_JOB}:");
    write_lines(&mut text, &OF_THE_JOB);
    write_lines(&mut text, &PRINTS);
    text + "\n" + REMARKS
}

fn write_lines(text: &mut String, options: &[Described]) {
    for Described(names, values, what) in options {
        // Those of all programs are usually written with two.
        let dashes = |name: &str| match name {
            "help" | "version" => "--",
            _ => "-",
        };
        let names: Vec<String> = names
            .iter()
            .map(|name| format!("{}{name}", dashes(name)))
            .collect();
        let values: Vec<String> = values.iter().map(|name| format!("<{name}>")).collect();
        let option = format!("{} {}", names.join(", "), values.join(" "));
        match option.chars().count() {
            ..=28 => writeln!(text, "  {option:<29}{what}"),
            _ => writeln!(text, "  {option}\n{:31}{what}", ""),
        }
        .unwrap_or_default();
    }
}

/// All options, also those of `refrain run`, for generators of manual pages and completions.
pub fn command(name: &'static str, of_run: &Command) -> Command {
    let under = |options: &'static [Described], heading: &'static str| {
        let args = options.iter().map(Described::arg);
        args.map(move |arg| arg.help_heading(heading))
    };
    // These are described here.
    let is_other = |arg: &&Arg| !matches!(arg.get_id().as_str(), "ranks" | "host" | "hostfile");
    let of_run = of_run.get_arguments().filter(is_other).cloned();
    let of_run = of_run.map(|arg| match arg.get_help_heading() {
        None if !arg.is_positional() => arg.help_heading("More options of the job"),
        _ => arg,
    });
    Command::new(name)
        .version(env!("CARGO_PKG_VERSION"))
        .about(ABOUT)
        .override_usage(USAGE)
        .after_help(REMARKS)
        .args(under(&OF_A_PROGRAM, HEADING_OF_A_PROGRAM))
        .args(under(&OF_THE_JOB, HEADING_OF_THE_JOB))
        .args(of_run)
}

impl Described {
    fn arg(&self) -> Arg {
        let Self(names, values, what) = *self;
        let mut arg = Arg::new(names[0]).help(what).action(match values {
            [] => ArgAction::SetTrue,
            _ => ArgAction::Set,
        });
        if !values.is_empty() {
            arg = arg.num_args(values.len()).value_names(values);
        }
        match values {
            ["DIR", ..] => arg = arg.value_hint(ValueHint::DirPath),
            ["FILE"] => arg = arg.value_hint(ValueHint::FilePath),
            _ => {}
        }
        let mut letters = names.iter().filter(|name| name.len() == 1);
        let mut words = names.iter().filter(|name| name.len() > 1);
        if let Some(letter) = letters.next().and_then(|name| name.chars().next()) {
            arg = arg.short(letter);
        }
        if let Some(word) = words.next() {
            arg = arg.long(*word);
        }
        arg.visible_aliases(words.copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpiexec::{options_of_run, section};
    use std::ffi::OsString;

    /// The table and the reader of options agree.
    #[test]
    fn each_option_of_the_help_is_read() {
        for Described(names, values, _) in OF_A_PROGRAM.iter().chain(&OF_THE_JOB) {
            for name in names.iter().filter(|name| **name != "configfile") {
                let value = match *name {
                    "initial-errhandler" => "mpi_errors_return",
                    _ => "1",
                };
                let mut words: Vec<OsString> = vec![format!("-{name}").into()];
                words.extend(values.iter().map(|_| value.into()));
                words.push("program".into());
                let read = section::read(&words, &options_of_run());
                assert!(read.is_ok(), "{words:?}: {read:?}");
            }
        }
        assert!(help().contains("  -n, -np <N>                  Number of ranks"));
    }

    #[test]
    fn the_generators_take_all_options() {
        let command = command("mpirun", &options_of_run());
        command.clone().debug_assert();
        let longs: Vec<&str> = command.get_arguments().filter_map(Arg::get_long).collect();
        for name in ["np", "genv", "hostfile", "protocol", "kill"] {
            assert!(longs.contains(&name), "{name} in {longs:?}");
        }
    }
}
