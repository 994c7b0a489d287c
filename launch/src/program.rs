//! The programs of a job, and finding them.

use crate::error::LaunchError;
use refrain_job::JobError;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use serde::{Deserialize, Serialize};
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// A program that some ranks of a job run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// A path, or a name to search in `PATH` and beside this executable.
    pub path: PathBuf,
    /// Its arguments, the same for each rank.
    pub arguments: Vec<OsString>,
    /// Number of ranks that run it: those behind the ranks of earlier programs of the job.
    pub ranks: u32,
    /// Working folder; `None`: that of the launcher.
    pub folder: Option<PathBuf>,
    /// Variables to add to the environment of its ranks.
    pub environment: Vec<(OsString, OsString)>,
}

impl Program {
    /// Finds the program: see `resolve`. A relative path with a slash begins at the working folder.
    ///
    /// # Errors
    /// [`LaunchError::Program`], with what was tried.
    pub fn find(&mut self) -> Result<(), LaunchError> {
        if let Some(folder) = &self.folder {
            if !folder.is_dir() {
                return Err(missing(format!(
                    "the working folder {} does not exist",
                    folder.display()
                )));
            }
            if self.path.as_os_str().as_encoded_bytes().contains(&b'/') {
                self.path = folder.join(&self.path);
            }
        }
        self.path = resolve(&self.path)?;
        Ok(())
    }

    /// The program of a rank, and its number among the programs.
    pub fn of_rank(programs: &[Self], rank: u32) -> Option<(usize, &Self)> {
        let mut first = 0;
        programs.iter().enumerate().find(|(_, program)| {
            first += program.ranks;
            rank < first
        })
    }
}

/// Whether a path can be executed.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Program,
    NotExecutable,
    Nothing,
}

fn look(path: &Path) -> Found {
    if !path.is_file() {
        return Found::Nothing;
    }
    match accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS) {
        Ok(()) => Found::Program,
        Err(_) => Found::NotExecutable,
    }
}

/// Finds `program`: a path if it has a slash, else a name in the folders of `PATH`, else beside
/// this executable (so that programs built with `refrain` are found by name).
///
/// # Errors
/// [`LaunchError::Program`], with what was tried.
pub fn resolve(program: &Path) -> Result<PathBuf, LaunchError> {
    let beside = env::current_exe()
        .ok()
        .and_then(|exe| Some(exe.parent()?.to_owned()));
    resolve_in(program, env::var_os("PATH").as_deref(), beside.as_deref())
}

/// The program `refrain`: this program, if it is `refrain`; else `refrain` in `PATH` or beside
/// this program.
///
/// # Errors
/// `refrain` is not found; the error says what was to be started with it.
pub fn refrain(what_for: &str) -> Result<PathBuf, JobError> {
    let own = env::current_exe().map_err(|error| {
        JobError::control(format!("finding this program, to start {what_for}"), error)
    })?;
    if own.file_name().is_some_and(|name| name == "refrain") {
        return Ok(own);
    }
    resolve(Path::new("refrain")).map_err(|error| {
        JobError::Config(format!("refrain is needed to start {what_for}: {error}"))
    })
}

fn resolve_in(
    program: &Path,
    path: Option<&OsStr>,
    beside: Option<&Path>,
) -> Result<PathBuf, LaunchError> {
    let name = program.display();
    if program.as_os_str().is_empty() {
        return Err(missing("no program was named".into()));
    }
    if program.as_os_str().as_encoded_bytes().contains(&b'/') {
        return match look(program) {
            Found::Program => Ok(program.to_owned()),
            Found::NotExecutable => Err(not_executable(program)),
            Found::Nothing if program.is_dir() => {
                Err(missing(format!("{name} is a folder, not a program")))
            }
            Found::Nothing => Err(missing(format!("there is no program {name}"))),
        };
    }
    let folders: Vec<PathBuf> = path
        .map(|path| env::split_paths(path).collect())
        .unwrap_or_default();
    let mut refused = None;
    for folder in folders.iter().map(PathBuf::as_path).chain(beside) {
        let candidate = folder.join(program);
        match look(&candidate) {
            Found::Program => return Ok(candidate),
            Found::NotExecutable => refused = refused.or(Some(candidate)),
            Found::Nothing => {}
        }
    }
    if let Some(refused) = refused {
        return Err(not_executable(&refused));
    }
    let mut tried = format!("there is no program {name} in the folders of PATH");
    if let Some(beside) = beside {
        tried += &format!(" nor in {}", beside.display());
    }
    if Path::new("./").join(program).is_file() {
        tried += &format!("; for the one in this folder write ./{name}");
    }
    Err(missing(tried))
}

fn missing(reason: String) -> LaunchError {
    LaunchError::Program {
        reason,
        found: false,
    }
}

fn not_executable(path: &Path) -> LaunchError {
    let reason = format!(
        "{} is not executable: run chmod +x, or start its interpreter",
        path.display()
    );
    LaunchError::Program {
        reason,
        found: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn folder_with(name: &str, mode: u32) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        fs::write(&path, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        folder
    }

    fn reason(result: Result<PathBuf, LaunchError>) -> (String, bool) {
        match result.unwrap_err() {
            LaunchError::Program { reason, found } => (reason, found),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn path_comes_before_the_launchers_own_folder() {
        let (first, second) = (folder_with("p", 0o755), folder_with("p", 0o755));
        let (path, beside) = (first.path().as_os_str(), second.path());
        let found = resolve_in(Path::new("p"), Some(path), Some(beside)).unwrap();
        assert_eq!(found, first.path().join("p"));
        let found = resolve_in(Path::new("p"), Some(OsStr::new("/nowhere")), Some(beside)).unwrap();
        assert_eq!(found, beside.join("p"));
    }

    #[test]
    fn what_may_not_be_executed_is_passed_over_and_named_when_there_is_no_other() {
        let (bad, good) = (folder_with("p", 0o644), folder_with("p", 0o755));
        let path = env::join_paths([bad.path(), good.path()]).unwrap();
        assert_eq!(
            resolve_in(Path::new("p"), Some(&path), None).unwrap(),
            good.path().join("p")
        );
        let (reason, found) = reason(resolve_in(
            Path::new("p"),
            Some(bad.path().as_os_str()),
            None,
        ));
        assert!(found && reason.contains("chmod +x"), "{reason}");
    }

    #[test]
    fn an_error_names_what_was_tried() {
        let beside = tempfile::tempdir().unwrap();
        let (text, found) = reason(resolve_in(
            Path::new("nope"),
            Some(OsStr::new("/bin")),
            Some(beside.path()),
        ));
        assert!(
            !found && text.contains("nope") && text.contains("PATH"),
            "{text}"
        );
        assert!(
            text.contains(&beside.path().display().to_string()),
            "{text}"
        );
        let (text, _) = reason(resolve_in(beside.path(), None, None));
        assert!(text.contains("is a folder"), "{text}");
        let (text, _) = reason(resolve_in(Path::new("/no/such"), None, None));
        assert!(text.contains("/no/such"), "{text}");
        reason(resolve_in(Path::new(""), None, None));
    }
}
