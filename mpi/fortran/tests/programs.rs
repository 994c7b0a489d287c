//! Programs in Fortran, built by the installed wrapper: mpif.h, the modules mpi and mpi_f08.

#[path = "../../../capi/tests/built/mod.rs"]
mod built;

use built::{Ended, compiler, end, folder, launcher, target};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The ways in, by the macro that the programs know.
const WAYS: [&str; 3] = ["INCLUDE", "MODULE", "F08"];

/// An installation with a home of its own.
struct Installed(TempDir);

impl Installed {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let built = folder.path().join("built");
        fs::create_dir(&built).unwrap();
        for (from, name) in [
            (launcher(), "refrain"),
            (
                target().join("examples/libmpi_under_test.so"),
                "libmpi_abi.so",
            ),
            (
                target().join("examples/libmpifort_under_test.so"),
                "libmpifort_abi.so",
            ),
            (
                target().join("deps/librefrain_clocks.so"),
                "librefrain_clocks.so",
            ),
        ] {
            fs::copy(&from, built.join(name))
                .unwrap_or_else(|why| panic!("{}: {why}", from.display()));
        }
        let mut command = Command::new(built.join("refrain"));
        let prefix = folder.path().join("it");
        end(command.arg("install").arg("--prefix").arg(prefix)).expect_success();
        Self(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.path("it/bin").join(name));
        command
            .env("HOME", self.path("home"))
            .env_remove("XDG_CACHE_HOME");
        command
    }

    /// Builds a program for a way in.
    fn build(&self, source: &str, way: &str) -> PathBuf {
        let program = self.path(&format!("{source}-{way}"));
        let mut compile = self.command("mpifort");
        // The compiler leaves files of modules where it runs.
        compile
            .current_dir(self.0.path())
            .args(["-cpp", "-O1", "-g", "-ffree-line-length-none"])
            .arg(format!("-D{way}"));
        if way == "INCLUDE" {
            // Without interfaces, calls with different types look like mistakes.
            compile.args(["-fallow-argument-mismatch", "-w"]);
        }
        let source = folder().join(format!("tests/programs/{source}.F90"));
        end(compile.arg(source).arg("-o").arg(&program)).expect_success();
        program
    }

    /// The output of a program that runs as a job of one rank.
    fn output(&self, sources: &[&str]) -> String {
        let program = self.path("program");
        let mut compile = self.command("mpifort");
        compile.current_dir(self.0.path());
        for source in sources {
            compile.arg(folder().join("tests/programs").join(source));
        }
        end(compile.arg("-o").arg(&program)).expect_success();
        end(&mut Command::new(&program)).expect_success().out
    }

    fn job(&self, program: &Path, ranks: u32, options: &str) -> Ended {
        let mut job = self.command("mpiexec");
        job.args(["-n", &ranks.to_string()]);
        end(job.args(options.split_whitespace()).arg(program)).expect_success()
    }
}

/// An installation; `None`: there is no Fortran compiler.
fn installed() -> Option<Installed> {
    compiler("gfortran").map(|_| Installed::new())
}

/// Runs a program in all ways with kills. Each rank says that nothing was wrong.
#[track_caller]
fn right_with_kills(source: &str, ranks: u32, kills: &[&str]) {
    let Some(installed) = installed() else {
        return;
    };
    let expected: Vec<_> = (0..ranks)
        .map(|rank| format!("rank {rank}: 0 failures"))
        .collect();
    for way in WAYS {
        let program = installed.build(source, way);
        let none = ["--protocol none".to_owned()];
        let kills = kills.iter().map(|kill| format!("--kill {kill}"));
        for options in none.into_iter().chain(kills) {
            let ended = installed.job(&program, ranks, &options);
            let mut lines: Vec<_> = ended.out.lines().map(str::trim).collect();
            lines.sort_unstable();
            assert_eq!(lines, expected, "{way}, {options}: {}", ended.err);
            let wanted = usize::from(options.contains("--kill"));
            assert_eq!(ended.deaths(), wanted, "{way}, {options}: {}", ended.err);
        }
    }
}

// REC-4 REC-8
#[test]
fn buffers_of_all_kinds_are_sent_and_replayed() {
    right_with_kills("buffers", 3, &["1@clock=100", "0@clock=333"]);
}

// REC-4 REC-8
#[test]
fn arguments_of_all_kinds_are_converted() {
    right_with_kills("calls", 2, &["1@clock=30"]);
}

#[test]
fn tools_in_c_and_fortran_see_the_calls() {
    let Some(installed) = installed() else {
        return;
    };
    let out = installed.output(&["profiled.F90", "tool.c"]);
    assert_eq!(out, "a receive\n3 sends\n");
}

#[test]
fn both_modules_meet_in_a_program() {
    let Some(installed) = installed() else {
        return;
    };
    assert_eq!(installed.output(&["both.f90"]), "handle\nstatus\n");
}

#[test]
fn modules_are_compiled_once_by_whoever_comes_first() {
    let Some(installed) = installed() else {
        return;
    };
    let source = installed.path("p.f90");
    fs::write(&source, "use mpi_f08\ncall MPI_Init()\nend\n").unwrap();
    let compile = |name: &str| {
        let mut command = installed.command("mpif90");
        command
            .arg("-c")
            .arg(&source)
            .arg("-o")
            .arg(installed.path(name));
        command
    };
    let mut together: Vec<_> = (0..4)
        .map(|number| compile(&format!("{number}.o")).spawn().unwrap())
        .collect();
    for one in &mut together {
        assert!(one.wait().unwrap().success());
    }
    let modules: Vec<_> = fs::read_dir(installed.path("it/lib/fortran"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(modules.len(), 1, "{modules:?}");
    let shown = end(installed.command("mpifort").args(["-show", "-c", "p.f90"]));
    let shown = shown.expect_success().out;
    assert!(
        shown.starts_with("gfortran ") && shown.contains("-I"),
        "{shown}"
    );
    assert!(!shown.contains("-lmpifort_abi"), "{shown}");
}

#[test]
fn a_missing_compiler_is_named() {
    let installed = Installed::new();
    let mut command = installed.command("mpifort");
    let ended = end(command.env("MPIFORT_FC", "no-such-compiler").arg("p.f90"));
    assert_eq!(ended.status, Some(1));
    assert_eq!(
        ended.err,
        "mpifort: there is no Fortran compiler 'no-such-compiler': install gfortran, or set MPIFORT_FC to the compiler's name\n"
    );
}
