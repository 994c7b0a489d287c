//! `refrain install`: what is installed needs no other file.

#[path = "../../capi/tests/built/mod.rs"]
mod built;

use built::{compiler, end, launcher, target};
use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 0; i < 20; i++)
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    printf(\"%d\\n\", sum);
    MPI_Finalize();
    return 0;
}
";

/// Installs copies of what was built, from a folder of their own, and moves what is installed.
fn install(folder: &Path) {
    let built = folder.join("built");
    fs::create_dir(&built).unwrap();
    let files = [
        (launcher(), "refrain"),
        (
            target().join("examples/libmpi_under_test.so"),
            "libmpi_abi.so",
        ),
        (
            target().join("deps/librefrain_clocks.so"),
            "librefrain_clocks.so",
        ),
    ];
    for (from, name) in files {
        fs::copy(&from, built.join(name)).unwrap_or_else(|why| panic!("{}: {why}", from.display()));
    }
    // Twice: an installation may be renewed.
    for _ in 0..2 {
        let mut command = Command::new(built.join("refrain"));
        end(command
            .arg("install")
            .arg("--prefix")
            .arg(folder.join("made")))
        .expect_success();
    }
    fs::rename(folder.join("made"), folder.join("it")).unwrap();
    fs::remove_dir_all(&built).unwrap();
}

// REC-4
#[test]
fn what_is_installed_compiles_and_runs_programs() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path());
    let bin = folder.path().join("it/bin");
    for (wrapper, compiler_name, file) in [("mpicc", "cc", "p.c"), ("mpicxx", "c++", "p.cc")] {
        if compiler(compiler_name).is_none() {
            continue;
        }
        let (source, program) = (folder.path().join(file), folder.path().join("program"));
        fs::write(&source, PROGRAM).unwrap();
        let mut compile = Command::new(bin.join(wrapper));
        end(compile
            .args(["-Wall", "-Werror", "-o"])
            .arg(&program)
            .arg(&source))
        .expect_success();
        let mut job = Command::new(bin.join("mpiexec"));
        let job = end(job.args(["-np", "3", "--kill", "1@clock=10"]).arg(&program));
        let job = job.expect_success();
        assert_eq!(
            (&job.out[..], job.deaths()),
            ("3\n3\n3\n", 1),
            "{}",
            job.err
        );
    }
    let mut show = Command::new(bin.join("mpicc"));
    let shown = end(show.args(["-show", "-c", "p.c"])).expect_success().out;
    assert!(
        shown.contains("-I") && !shown.contains("-lmpi_abi"),
        "{shown}"
    );
}

#[test]
fn manual_pages_completions_and_a_modulefile_are_installed() {
    let folder = tempfile::tempdir().unwrap();
    install(folder.path());
    let text = |name: &str| {
        let file = folder.path().join("it").join(name);
        fs::read_to_string(&file).unwrap_or_else(|why| panic!("{}: {why}", file.display()))
    };
    for (name, word) in [
        ("lib/pkgconfig/mpi_abi.pc", "prefix=${pcfiledir}/../.."),
        ("share/man/man1/refrain-run.1", "log\\-memory"),
        ("share/man/man1/mpiexec.1", "hostfile"),
        ("share/man/man1/mpirun.1", "hostfile"),
        ("share/bash-completion/completions/refrain", "--log-memory"),
        ("share/bash-completion/completions/mpiexec", "--hostfile"),
        ("share/zsh/site-functions/_mpirun", "#compdef mpirun"),
        (
            "share/fish/vendor_completions.d/mpiexec.fish",
            "-l hostfile",
        ),
    ] {
        assert!(
            text(name).contains(word),
            "{word} in {name}: {}",
            text(name)
        );
    }
    let version = env!("CARGO_PKG_VERSION");
    let module = text(&format!("share/modulefiles/refrain/{version}"));
    assert!(
        module.starts_with("#%Module") && module.contains(version),
        "{module}"
    );
}

#[test]
fn a_folder_without_the_library_says_how_to_build_it() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("refrain");
    fs::copy(launcher(), &copy).unwrap();
    let mut command = Command::new(&copy);
    let ended = end(command
        .arg("install")
        .arg("--prefix")
        .arg(folder.path().join("it")));
    assert_ne!(ended.status, Some(0));
    assert!(
        ended.err.contains("cargo build --release -p refrain-mpi"),
        "{}",
        ended.err
    );
    assert!(!folder.path().join("it").exists());
}
