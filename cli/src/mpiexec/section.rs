//! Reads the words of `mpiexec`: sections with a program each, separated by `:`.

use clap::Command;
use miette::{IntoDiagnostic as _, WrapErr as _, miette};
use refrain_launch::Program;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::PathBuf;

/// A program with its options.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Section {
    ranks: Option<u32>,
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
                let words: Vec<OsString> = line.split_whitespace().map(Into::into).collect();
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
    Ok(all)
}

/// Whether the word is an option of one of these names, with one dash or two.
fn is_one_of(word: &OsStr, names: &[&str]) -> bool {
    let word = word.to_str().and_then(|word| word.strip_prefix('-'));
    word.is_some_and(|word| names.contains(&word.strip_prefix('-').unwrap_or(word)))
}

impl Words {
    fn read_section(&mut self, words: &[OsString], known: &Command) -> miette::Result<()> {
        let mut section = Section::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut value = || {
                let value = words.next().cloned();
                value.ok_or_else(|| miette!("{} needs a value", word.display()))
            };
            if !word.as_encoded_bytes().starts_with(b"-") {
                section.command = std::iter::once(word).chain(words).cloned().collect();
                break;
            } else if is_one_of(word, &["n", "np", "c"]) {
                section.ranks = Some(ranks(&value()?)?);
            } else if is_one_of(word, &["wdir", "wd"]) {
                section.folder = Some(value()?.into());
            } else if is_one_of(word, &["path"]) {
                section.search = Some(value()?);
            } else if is_one_of(word, &["x"]) {
                section.environment.extend(variable(&value()?)?);
            } else if is_one_of(word, &["env"]) {
                section.environment.push((value()?, value()?));
            } else if is_one_of(word, &["genv"]) {
                self.environment.push((value()?, value()?));
            } else if is_one_of(word, &["genvlist"]) {
                for name in text(&value()?)?.split(',') {
                    self.environment.extend(variable(OsStr::new(name))?);
                }
            } else if is_one_of(word, &["host", "hosts", "H"]) {
                self.options.extend(["--host".into(), value()?]);
            } else if is_one_of(word, &["hostfile", "machinefile", "f"]) {
                self.options.extend(["--hostfile".into(), value()?]);
            } else if is_one_of(word, &["l"]) {
                self.options.push(PREFIX.into());
            } else if is_one_of(
                word,
                &["genvall", "envall", "oversubscribe", "allow-run-as-root"],
            ) {
                // Is so in any case.
            } else if let Some(has_value) = has_value(word, known) {
                self.options.push(word.clone());
                if has_value {
                    self.options.push(value()?);
                }
            } else {
                return Err(miette!(
                    "unknown option {}: see mpiexec --help and refrain run --help",
                    word.display()
                ));
            }
        }
        if section.command.is_empty() {
            return Err(miette!("no program is given: name it after the options"));
        }
        self.sections.push(section);
        Ok(())
    }
}

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
    fn wrong_words_are_named() {
        for (line, part) in [
            ("-n 0 p", "-n 0"),
            ("-n x p", "-n x"),
            ("-np", "-np needs a value"),
            ("-n 2", "no program"),
            ("--no-such p", "--no-such"),
            ("-mca a b p", "-mca"),
            ("-configfile /no/such", "/no/such"),
        ] {
            let error = format!("{:?}", read_text(line).expect_err(line));
            assert!(error.contains(part), "{line}: {error}");
        }
    }

    #[test]
    fn a_file_has_a_program_on_each_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(&file, "# two\n-n 2 p\n\n--host=a q 1\n").unwrap();
        let words = read_text(&format!("-configfile {}", file.path().display())).unwrap();
        assert_eq!(words.options, ["--host=a"]);
        let ranks: Vec<u32> = words.sections.iter().map(Section::ranks).collect();
        assert_eq!(ranks, [2, 1]);
    }
}
