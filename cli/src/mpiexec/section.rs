//! Reads the words of `mpiexec`: sections with a program each, separated by `:`.

use clap::Command;
use miette::{IntoDiagnostic as _, WrapErr as _, miette};
use refrain_launch::{HostSlots, Program, parse_hosts};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

/// A program with its options.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// As `-n` says.
    pub ranks: Option<u32>,
    /// As in `--host`.
    hosts: Option<OsString>,
    folder: Option<PathBuf>,
    /// `PATH` for the program.
    search: Option<OsString>,
    environment: Vec<(OsString, OsString)>,
    /// The program and its arguments.
    command: Vec<OsString>,
}

/// What the words say.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Words {
    /// Options of the job, as `refrain run` has them.
    pub options: Vec<OsString>,
    /// Variables for all programs.
    environment: Vec<(OsString, OsString)>,
    /// The programs, in the order of ranks.
    pub sections: Vec<Section>,
}

impl Section {
    /// The host of each rank, if the program has hosts of its own.
    fn host_of_rank(&self) -> miette::Result<Vec<String>> {
        let Some(hosts) = &self.hosts else {
            return Err(miette!(
                "a program has no -host: name the hosts of each program, or before the first one those of all"
            ));
        };
        let listed = parse_hosts(text(hosts)?).into_diagnostic()?;
        let slots = |host: HostSlots| std::iter::repeat_n(host.name, host.slots as usize);
        let ranks = self.ranks() as usize;
        let placed: Vec<String> = listed.into_iter().flat_map(slots).take(ranks).collect();
        match placed.len() == ranks {
            true => Ok(placed),
            false => Err(miette!(
                "-host {} has slots for {} of {ranks} ranks: name more hosts, or slots (NAME:SLOTS)",
                hosts.display(),
                placed.len()
            )),
        }
    }

    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        self.ranks.unwrap_or(1)
    }

    /// The program for the launcher.
    pub fn program(self) -> Program {
        let ranks = self.ranks();
        let mut command = self.command.into_iter();
        let path = command.next().unwrap_or_default();
        Program {
            path: found(path, self.search.as_deref()),
            arguments: command.collect(),
            ranks,
            folder: self.folder,
            environment: self.environment,
        }
    }
}

/// The program in the folders of `-path`; as it is, if it is not there.
fn found(program: OsString, search: Option<&OsStr>) -> PathBuf {
    let program = PathBuf::from(program);
    let is_path = program.as_os_str().as_encoded_bytes().contains(&b'/');
    let folders = search.map(env::split_paths).into_iter().flatten();
    let mut files = folders.map(|folder| folder.join(&program));
    match is_path {
        true => program,
        false => files.find(|file| file.is_file()).unwrap_or(program),
    }
}

/// Reads all words behind the program's name. `known` has the options of `refrain run`.
///
/// # Errors
/// An unknown option, a value or program that is missing, or an unreadable `-configfile`.
pub fn read(words: &[OsString], known: &Command) -> miette::Result<Words> {
    let mut all = Words::default();
    match words {
        [option, file] if is_one_of(option, &["configfile"]) => {
            let text = fs::read_to_string(file).into_diagnostic();
            let text = text.wrap_err_with(|| format!("-configfile {}", file.display()))?;
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let words = words_of(line)?;
                if !words.is_empty() {
                    all.read_section(&words, known)?;
                }
            }
        }
        _ => {
            for words in words.split(|word| word == ":") {
                all.read_section(words, known)?;
            }
        }
    }
    for section in &mut all.sections {
        section
            .environment
            .splice(..0, all.environment.iter().cloned());
    }
    all.place()?;
    Ok(all)
}

/// The words of a line. Blanks between quotes belong to a word.
fn words_of(line: &str) -> miette::Result<Vec<OsString>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match quote {
            Some(open) if letter == open => quote = None,
            None if "'\"".contains(letter) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            None if letter.is_whitespace() => words.extend(word.take().map(Into::into)),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word.map(Into::into));
    match quote {
        None => Ok(words),
        Some(quote) => Err(miette!("-configfile: {quote} is not closed: {line}")),
    }
}

/// Whether the word is an option of one of these names, with one dash or two.
fn is_one_of(word: &OsStr, names: &[&str]) -> bool {
    let word = word.to_str().and_then(|word| word.strip_prefix('-'));
    word.is_some_and(|word| names.contains(&word.strip_prefix('-').unwrap_or(word)))
}

impl Words {
    /// Places the ranks on the hosts of the first program, or of each program.
    fn place(&mut self) -> miette::Result<()> {
        let hosts = match &mut self.sections[..] {
            [first, rest @ ..] if rest.iter().all(|section| section.hosts.is_none()) => {
                first.hosts.take()
            }
            sections => {
                let hosts = sections.iter().map(Section::host_of_rank);
                let hosts = hosts.collect::<miette::Result<Vec<_>>>()?;
                Some(hosts.concat().join(",").into())
            }
        };
        self.options
            .extend(hosts.into_iter().flat_map(|hosts| ["--host".into(), hosts]));
        Ok(())
    }

    fn read_section(&mut self, words: &[OsString], known: &Command) -> miette::Result<()> {
        let mut section = Section::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, mut given) = match word.to_str().and_then(|word| word.split_once('=')) {
                Some((name, given)) => (OsStr::new(name), Some(given.into())),
                None => (word.as_os_str(), None),
            };
            let mut value = || {
                let value = given.take().or_else(|| words.next().cloned());
                value.ok_or_else(|| miette!("{} needs a value", word.display()))
            };
            if !word.as_encoded_bytes().starts_with(b"-") {
                section.command = std::iter::once(word).chain(words).cloned().collect();
                break;
            } else if is_one_of(name, &["n", "np", "c"]) {
                section.ranks = Some(ranks(&value()?)?);
            } else if is_one_of(name, &["wdir", "wd"]) {
                section.folder = Some(value()?.into());
            } else if is_one_of(name, &["path"]) {
                section.search = Some(value()?);
            } else if is_one_of(name, &["x"]) {
                section.environment.extend(variable(&value()?)?);
            } else if is_one_of(name, &["env"]) {
                section.environment.push((value()?, value()?));
            } else if is_one_of(name, &["genv"]) {
                self.environment.push((value()?, value()?));
            } else if is_one_of(name, &["genvlist"]) {
                for name in text(&value()?)?.split(',') {
                    self.environment.extend(variable(OsStr::new(name))?);
                }
            } else if is_one_of(name, &["host", "hosts", "H"]) {
                section.hosts = Some(value()?);
            } else if is_one_of(name, &["hostfile", "machinefile", "f"]) {
                self.options.extend(["--hostfile".into(), value()?]);
            } else if is_one_of(name, &["initial-errhandler"]) {
                let handler = value()?;
                if !ERRHANDLERS.iter().any(|known| handler == *known) {
                    return Err(miette!(
                        "-initial-errhandler {}: use {}",
                        handler.display(),
                        ERRHANDLERS.join(", ")
                    ));
                }
                self.environment.push((ERRHANDLER_VARIABLE.into(), handler));
            } else if is_one_of(name, &["l"]) {
                self.options.push(PREFIX.into());
            } else if is_one_of(
                name,
                &["genvall", "envall", "oversubscribe", "allow-run-as-root"],
            ) {
                // Is so in any case.
            } else if let Some(has_value) = has_value(word, known) {
                self.options.push(word.clone());
                if has_value {
                    self.options.push(value()?);
                }
                given = None;
            } else {
                return Err(miette!(
                    "unknown option {}: see mpiexec --help and refrain run --help",
                    word.display()
                ));
            }
            if given.is_some() {
                return Err(miette!("{} takes no value", name.display()));
            }
        }
        if section.command.is_empty() {
            return Err(miette!("no program is given: name it after the options"));
        }
        self.sections.push(section);
        Ok(())
    }
}

/// Names of error handlers (MPI-5.0, section 9.3.4).
const ERRHANDLERS: [&str; 3] = [
    "mpi_errors_are_fatal",
    "mpi_errors_abort",
    "mpi_errors_return",
];
/// `libmpi_abi` reads the initial error handler from it.
const ERRHANDLER_VARIABLE: &str = "REFRAIN_MPI_ERRHANDLER";

/// The option `-l`: `refrain run` has the opposite, `--no-prefix`.
pub const PREFIX: &str = "-l";

/// Whether the option of `refrain run` takes the next word as its value; `None`: there is no such
/// option.
fn has_value(word: &OsStr, known: &Command) -> Option<bool> {
    let word = word.to_str()?;
    let (name, value) = match word.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (word, None),
    };
    let option = known.get_arguments().find(|option| {
        let long = option
            .get_long()
            .is_some_and(|long| name.strip_prefix("--") == Some(long));
        let short = option.get_short().map(|short| format!("-{short}"));
        long || short.as_deref() == Some(name)
    })?;
    Some(value.is_none() && option.get_action().takes_values())
}

fn text(word: &OsStr) -> miette::Result<&str> {
    word.to_str()
        .ok_or_else(|| miette!("{} is not UTF-8", word.display()))
}

fn ranks(word: &OsStr) -> miette::Result<u32> {
    let ranks = text(word)?.parse().ok().filter(|ranks| *ranks > 0);
    ranks.ok_or_else(|| miette!("-n {}: use a number of ranks from 1 on", word.display()))
}

/// The variable of `NAME=VALUE`, or of `NAME` with its value here, if it has one.
fn variable(word: &OsStr) -> miette::Result<Option<(OsString, OsString)>> {
    let word = text(word)?;
    Ok(match word.split_once('=') {
        Some((name, value)) => Some((name.into(), value.into())),
        None => env::var_os(word).map(|value| (word.into(), value)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn read_text(line: &str) -> miette::Result<Words> {
        let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
        read(&words, &super::super::options_of_run())
    }

    #[test]
    fn sections_have_ranks_folders_and_variables_of_their_own() {
        let words = read_text(
            "-genv A 1 --log-memory 1G -v -host a,b:2 -np 3 -x B=2 ./p -n 5 : -n 2 -wdir /tmp -env A 3 q :",
        );
        assert!(words.unwrap_err().to_string().contains("no program"));
        let words = read_text(
            "-genv A 1 --log-memory 1G -v -host a,b:2 -np 3 -x B=2 ./p -n 5 : -n 2 -wdir /tmp -env A 3 q",
        );
        let words = words.unwrap();
        assert_eq!(
            words.options,
            ["--log-memory", "1G", "-v", "--host", "a,b:2"]
        );
        let programs: Vec<Program> = words.sections.into_iter().map(Section::program).collect();
        let variables = |list: &[(&str, &str)]| {
            list.iter()
                .map(|(name, value)| ((*name).into(), (*value).into()))
                .collect::<Vec<_>>()
        };
        assert_eq!(programs[0].ranks, 3);
        assert_eq!(programs[0].arguments, ["-n", "5"], "the program's own");
        assert_eq!(
            programs[0].environment,
            variables(&[("A", "1"), ("B", "2")])
        );
        assert_eq!(programs[1].folder.as_deref(), Some(Path::new("/tmp")));
        // The last value counts.
        assert_eq!(
            programs[1].environment,
            variables(&[("A", "1"), ("A", "3")])
        );
    }

    #[test]
    fn each_program_has_hosts_of_its_own_or_all_have_those_of_the_first() {
        let hosts = |line| read_text(line).map(|words| words.options);
        assert_eq!(hosts("-host a:4 p : q").unwrap(), ["--host", "a:4"]);
        let own = "-n 3 -host a:2,[fe80::1]:2 p : -n=1 -host=[fe80::2]:4 q : -H c -n 1 r";
        assert_eq!(hosts(own).unwrap(), ["--host", "a,a,fe80::1,fe80::2,c"]);
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, part) in [
            ("-n 0 p", "-n 0"),
            ("-n x p", "-n x"),
            ("-np", "-np needs a value"),
            ("-n 2", "no program"),
            ("--no-such p", "--no-such"),
            ("-mca a b p", "-mca"),
            ("-configfile /no/such", "/no/such"),
            ("-l=3 p", "-l takes no value"),
            ("-initial-errhandler mpi_errors p", "mpi_errors_return"),
            ("-n=0 p", "-n 0"),
            ("-n2 p", "unknown option -n2"),
            ("p : -host b q", "name the hosts of each program"),
            (
                "-host a p : -host b q : r",
                "name the hosts of each program",
            ),
            ("-n 3 -host a:2 p : -host b q", "2 of 3 ranks"),
        ] {
            let error = format!("{:?}", read_text(line).expect_err(line));
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn a_file_has_a_program_on_each_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let read_lines = |lines: &str| {
            fs::write(&file, lines).unwrap();
            read_text(&format!("-configfile {}", file.path().display()))
        };
        let words = read_lines("# two\n-n 2 --host=a p\n\nq 1 'a \"b' \"\"c\" '\" ''\n").unwrap();
        assert_eq!(words.options, ["--host", "a"]);
        let ranks: Vec<u32> = words.sections.iter().map(Section::ranks).collect();
        assert_eq!(ranks, [2, 1]);
        assert_eq!(words.sections[1].command, ["q", "1", "a \"b", "c '", ""]);
        let error = read_lines("p 'a b\n").unwrap_err().to_string();
        assert!(error.contains("' is not closed"), "{error}");
    }
}
