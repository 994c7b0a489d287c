//! Builds programs in C against the library and its header, and runs them.

#![allow(dead_code, reason = "each test file uses a part")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Options of every C compiler: the header must compile in strict programs without warnings.
const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Werror", "-pedantic"];

pub fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The folder of this build's programs.
pub fn target() -> PathBuf {
    let test = std::env::current_exe().expect("this test has a path");
    let target = test.parent().and_then(Path::parent).expect("…/deps/test");
    target.to_owned()
}

/// The library under test.
pub fn library() -> PathBuf {
    let library = target().join("examples/librefrain_under_test.so");
    assert!(library.is_file(), "cargo test builds {}", library.display());
    library
}

/// The launcher of this build.
pub fn launcher() -> PathBuf {
    let launcher = target().join("refrain");
    assert!(
        launcher.is_file(),
        "{} is missing: cargo build -p refrain-cli",
        launcher.display()
    );
    launcher
}

/// A compiler, if it is installed: `cc` or `c++`.
pub fn compiler(name: &'static str) -> Option<Command> {
    let is_there = Command::new(name)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match is_there {
        Ok(status) if status.success() => Some(Command::new(name)),
        _ => {
            println!("skipped programs built by {name}: it is not installed");
            None
        }
    }
}

/// A program that was built. Its file is removed when it is dropped.
pub struct Program {
    folder: TempDir,
}

impl Program {
    /// Builds a source below `capi/`. `None`: there is no C compiler.
    pub fn of(source: &str) -> Option<Self> {
        let mut cc = compiler("cc")?;
        cc.args(["-std=c11", "-O1", "-g", "-pthread"]);
        Some(Self::built(cc, source))
    }

    /// Builds with a compiler that has options of its own.
    #[track_caller]
    pub fn built(compiler: Command, source: &str) -> Self {
        Self::linked(compiler, source, &folder().join("include"), &library())
    }

    /// Builds against a library whose headers are in a folder.
    #[track_caller]
    pub fn linked(mut compiler: Command, source: &str, headers: &Path, library: &Path) -> Self {
        let program = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        compiler
            .args(STRICT)
            .arg("-I")
            .arg(headers)
            .arg(folder().join(source))
            .arg("-xnone")
            .arg("-o")
            .arg(program.path())
            .arg(library);
        let built = compiler.output().expect("the compiler was there");
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{compiler:?}: {said}");
        program
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("program")
    }

    /// Runs the program without a launcher.
    pub fn run(&self) -> Ended {
        end(&mut Command::new(self.path()))
    }

    /// Runs the program as a job; `options` and `arguments` are split at blanks.
    pub fn job(&self, ranks: u32, options: &str, arguments: &str) -> Ended {
        end(&mut self.command(ranks, options, arguments))
    }

    /// The command of [`job`](Self::job).
    pub fn command(&self, ranks: u32, options: &str, arguments: &str) -> Command {
        let mut command = Command::new(launcher());
        command
            .args(["run", "--no-prefix", "-n", &ranks.to_string()])
            .args(options.split_whitespace())
            .arg("--")
            .arg(self.path())
            .args(arguments.split_whitespace());
        command
    }
}

/// The output and exit status of a program.
#[derive(Debug)]
pub struct Ended {
    pub status: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Ended {
    #[track_caller]
    pub fn expect_success(self) -> Self {
        assert_eq!(self.status, Some(0), "{}{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    /// Number of ranks that died.
    pub fn deaths(&self) -> usize {
        self.err
            .matches("was killed by SIGKILL (incarnation")
            .count()
    }

    /// Number of replayed messages that were compared with those of the earlier life.
    pub fn compared(&self) -> u64 {
        let ends = self.err.match_indices(" compared").map(|(end, _)| end);
        let counts = ends.filter_map(|end| self.err[..end].rsplit(' ').next());
        counts.filter_map(|count| count.parse::<u64>().ok()).sum()
    }
}

/// Waits for the end. The test runner ends a job that hangs.
pub fn end(command: &mut Command) -> Ended {
    end_with_input(command.stdin(Stdio::null()))
}

/// As [`end`], with the standard input of the command.
pub fn end_with_input(command: &mut Command) -> Ended {
    let output = command.output().expect("it starts");
    Ended {
        status: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}
