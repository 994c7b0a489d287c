//! `refrain install`: MPI for programs that are built elsewhere.

mod share;

use clap::{Args, Command};
use miette::{IntoDiagnostic as _, WrapErr as _, miette};
use refrain_launch::clocks;
use std::env;
use std::fs::{self, Permissions};
use std::io::{ErrorKind, Write as _, stdout};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const WRAPPER: &str = include_str!("install/mpicc.sh");
/// Names of the compilers' wrapper, which goes by its name.
const WRAPPERS: [&str; 4] = ["mpicxx", "mpic++", "mpicc_abi", "mpicxx_abi"];
/// As above, for Fortran.
const FORTRAN_WRAPPERS: [&str; 3] = ["mpifort", "mpif77", "mpif90"];
const LAUNCHERS: [&str; 2] = ["mpiexec", "mpirun"];
/// The library as cargo builds it, and as programs name it.
const BUILT: &str = "libmpi_abi.so";
const LIBRARY: &str = "libmpi_abi.so.1";
/// As above, for Fortran.
const FORTRAN_BUILT: &str = "libmpifort_abi.so";
const FORTRAN_LIBRARY: &str = "libmpifort_abi.so.1";

/// Arguments of `refrain install`.
#[derive(Args)]
pub struct Arguments {
    /// Folder to install into; its folders bin, lib, include and share are made.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
}

/// Installs launcher, library, header, compilers' wrappers, and what describes them;
/// `command_line` describes `refrain`.
pub fn run(arguments: &Arguments, command_line: Command) -> miette::Result<ExitCode> {
    let own = env::current_exe().into_diagnostic()?;
    let library = beside(&own, BUILT, LIBRARY).ok_or_else(|| {
        miette!(
            "there is no {BUILT} in {}: build it with cargo build --release -p refrain-mpi",
            own.parent().unwrap_or(Path::new("/")).display()
        )
    })?;
    let clocks = clocks::library().map_err(|why| miette!("{why}"))?;
    fs::create_dir_all(&arguments.prefix)
        .into_diagnostic()
        .wrap_err_with(|| format!("--prefix {}", arguments.prefix.display()))?;
    let prefix = arguments.prefix.canonicalize().into_diagnostic()?;
    let [bin, lib, include] = ["bin", "lib", "include"].map(|name| prefix.join(name));
    let configuration = lib.join("pkgconfig");
    for folder in [&bin, &lib, &include, &configuration] {
        fs::create_dir_all(folder).into_diagnostic()?;
    }
    copy(&own, &bin.join("refrain"))?;
    copy(&library, &lib.join(LIBRARY))?;
    copy(&clocks, &lib.join("librefrain_clocks.so"))?;
    link(LIBRARY, &lib.join(BUILT))?;
    write(&include.join("mpi.h"), &refrain_mpi_abi::header())?;
    let wrapper = bin.join("mpicc");
    write(&wrapper, WRAPPER)?;
    fs::set_permissions(&wrapper, Permissions::from_mode(0o755)).into_diagnostic()?;
    link_wrapper(&bin, &WRAPPERS)?;
    let of_fortran = beside(&own, FORTRAN_BUILT, FORTRAN_LIBRARY);
    if let Some(library) = &of_fortran {
        fortran(library, &prefix)?;
    }
    for name in LAUNCHERS {
        link("refrain", &bin.join(name))?;
    }
    write(&configuration.join("mpi_abi.pc"), &package())?;
    for (name, text) in share::files(command_line).into_diagnostic()? {
        let file = prefix.join(name);
        fs::create_dir_all(file.parent().unwrap_or(&prefix)).into_diagnostic()?;
        write(&file, &text)?;
    }
    let without = match of_fortran {
        Some(_) => "",
        None => {
            "without Fortran, as there is no libmpifort_abi.so: build it with cargo build --release -p refrain-fortran\n"
        }
    };
    let installed = format!(
        "installed in {}: put {} into PATH, then: mpicc program.c -o program; mpiexec -n 4 ./program\n{without}",
        prefix.display(),
        bin.display()
    );
    stdout().write_all(installed.as_bytes()).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}

/// A library beside this program, as built or as installed.
fn beside(own: &Path, built: &str, installed: &str) -> Option<PathBuf> {
    let folder = own.parent().unwrap_or(Path::new("/"));
    let candidates = [folder.join(built), folder.join("../lib").join(installed)];
    candidates.into_iter().find(|file| file.is_file())
}

/// Installs what is for Fortran, and removes modules that were compiled from earlier sources.
fn fortran(library: &Path, prefix: &Path) -> miette::Result<()> {
    let [bin, lib, include] = ["bin", "lib", "include"].map(|name| prefix.join(name));
    copy(library, &lib.join(FORTRAN_LIBRARY))?;
    link(FORTRAN_LIBRARY, &lib.join(FORTRAN_BUILT))?;
    write(&include.join("mpif.h"), &refrain_mpi_abi::include_file())?;
    let sources = include.join("refrain");
    fs::create_dir_all(&sources).into_diagnostic()?;
    write(&sources.join("mpi.f90"), &refrain_mpi_abi::mpi_module())?;
    write(
        &sources.join("mpi_f08.f90"),
        &refrain_mpi_abi::mpi_f08_module(),
    )?;
    match fs::remove_dir_all(lib.join("fortran")) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).into_diagnostic(),
        _ => {}
    }
    link_wrapper(&bin, &FORTRAN_WRAPPERS)
}

/// Gives the compilers' wrapper other names.
fn link_wrapper(bin: &Path, names: &[&str]) -> miette::Result<()> {
    names
        .iter()
        .try_for_each(|name| link("mpicc", &bin.join(name)))
}

/// Copies a file beside its place and moves it there: a running program keeps the old one.
fn copy(from: &Path, to: &Path) -> miette::Result<()> {
    let beside = to.with_extension("new");
    let copied = fs::copy(from, &beside).and_then(|_| fs::rename(&beside, to));
    copied
        .into_diagnostic()
        .wrap_err_with(|| format!("copying {} to {}", from.display(), to.display()))
}

fn write(to: &Path, text: &str) -> miette::Result<()> {
    fs::write(to, text)
        .into_diagnostic()
        .wrap_err_with(|| format!("writing {}", to.display()))
}

fn link(target: &str, at: &Path) -> miette::Result<()> {
    let removed = match fs::remove_file(at) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    };
    removed
        .and_then(|()| symlink(target, at))
        .into_diagnostic()
        .wrap_err_with(|| format!("linking {}", at.display()))
}

/// The file for pkg-config, which finds the prefix from its place.
fn package() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "prefix=${{pcfiledir}}/../..\n\nName: mpi_abi\nDescription: MPI 5.0, standard ABI, by Refrain\nVersion: {version}\nCflags: -I${{prefix}}/include\nLibs: -L${{prefix}}/lib -Wl,-rpath,${{prefix}}/lib -lmpi_abi\n"
    )
}
