//! MPI libraries with a program in C: Open MPI and MPICH (Debian: `libopenmpi-dev`,
//! `libmpich-dev`), and Refrain's own.

use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::netpipe::peers::peer::program;
use crate::netpipe::peers::process::Starter;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Time limit of a run, and of the compiler.
const LIMIT: Duration = Duration::from_secs(300);

/// Another library than Refrain.
struct Library {
    name: &'static str,
    compiler: &'static str,
    mpirun: &'static str,
    /// The program pins its process by itself.
    options: &'static [&'static str],
    /// Options for more ranks than cores.
    crowded: &'static [&'static str],
    package: &'static str,
}

const LIBRARIES: [Library; 2] = [
    Library {
        name: "Open MPI",
        compiler: "mpicc.openmpi",
        mpirun: "mpirun.openmpi",
        options: &["--allow-run-as-root", "--bind-to", "none"],
        crowded: &["--oversubscribe"],
        package: "libopenmpi-dev",
    },
    Library {
        name: "MPICH",
        compiler: "mpicc.mpich",
        mpirun: "mpirun.mpich",
        options: &["-bind-to", "none"],
        crowded: &[],
        package: "libmpich-dev",
    },
];

/// A program in C, and how many ranks it has.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    pub name: &'static str,
    pub text: &'static str,
    pub ranks: u32,
}

/// A program, compiled with an MPI library.
pub struct Compiled {
    name: String,
    mpirun: PathBuf,
    options: Vec<String>,
    starter: Starter,
    folder: TempDir,
}

/// The other libraries that are installed, and a line for each that is not.
///
/// # Errors
/// The source cannot be written, or the measurement is interrupted.
pub fn find(
    source: Source,
    interrupt: &Interrupt,
) -> Result<(Vec<Compiled>, Vec<String>), BenchError> {
    let (mut found, mut missing) = Default::default();
    for library in &LIBRARIES {
        match library.compile(source, interrupt) {
            Ok(peer) => Vec::push(&mut found, peer),
            Err(BenchError::Interrupted) => return Err(BenchError::Interrupted),
            Err(error) => Vec::push(
                &mut missing,
                format!("{} is left out: {error}", library.name),
            ),
        }
    }
    Ok((found, missing))
}

impl Library {
    fn compile(&self, source: Source, interrupt: &Interrupt) -> Result<Compiled, BenchError> {
        let installed = |name: &str| {
            program(&[name]).ok_or_else(|| {
                let package = self.package;
                BenchError::failed(format!("{name} was not found (Debian package {package})"))
            })
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let crowded = match source.ranks as usize > cores {
            true => self.crowded,
            false => &[],
        };
        let options = self.options.iter().chain(crowded);
        Compiled::new(
            self.name.into(),
            &installed(self.compiler)?,
            installed(self.mpirun)?,
            options.map(|word| (*word).to_owned()).collect(),
            source,
            interrupt,
        )
    }
}

impl Compiled {
    /// Compiles with `compiler`; `mpirun` and `options` start it.
    ///
    /// # Errors
    /// The source cannot be written or compiled.
    pub fn new(
        name: String,
        compiler: &Path,
        mpirun: PathBuf,
        mut options: Vec<String>,
        source: Source,
        interrupt: &Interrupt,
    ) -> Result<Self, BenchError> {
        options.extend(["-np".into(), source.ranks.to_string()]);
        let folder = tempfile::Builder::new().prefix("refrain-bench-").tempdir();
        let folder = folder.map_err(BenchError::system("no temporary folder"))?;
        let compiled = Self {
            name,
            mpirun,
            options,
            starter: Starter::new(interrupt.clone()),
            folder,
        };
        let file = compiled.folder.path().join(source.name);
        fs::write(&file, source.text).map_err(BenchError::write(&file))?;
        let program = compiled.program();
        let arguments = ["-O3", "-o", &program, &file.to_string_lossy()];
        let started = compiled.starter.start(compiler, &arguments, None)?;
        started.wait(LIMIT)?;
        Ok(compiled)
    }

    fn program(&self) -> String {
        let path = self.folder.path().join("program");
        path.to_string_lossy().into_owned()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs the program with these options of `mpirun` and arguments. Returns its output.
    ///
    /// # Errors
    /// It fails or takes too long, or the measurement is interrupted.
    pub fn run(&self, options: &[String], words: &[String]) -> Result<String, BenchError> {
        let program = self.program();
        let options = options.iter().chain(&self.options);
        let words = options.chain([&program]).chain(words);
        let arguments: Vec<&str> = words.map(String::as_str).collect();
        self.starter
            .start(&self.mpirun, &arguments, None)?
            .wait(LIMIT)
    }
}
