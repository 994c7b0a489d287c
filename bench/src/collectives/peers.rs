//! Open MPI and MPICH (Debian: `libopenmpi-dev`, `libmpich-dev`) with the loop in C.

use crate::error::BenchError;
use crate::interrupt::Interrupt;
use crate::netpipe::peers::peer::program;
use crate::netpipe::peers::process::Starter;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;

const SOURCE: &str = include_str!("../../peers/collectives.c");
/// Time limit of a run, and of the compiler.
const LIMIT: Duration = Duration::from_secs(300);

struct Library {
    name: &'static str,
    compiler: &'static str,
    mpirun: &'static str,
    /// The loop pins its process by itself.
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

/// An MPI library with the compiled loop.
pub struct Peer {
    library: &'static Library,
    mpirun: PathBuf,
    ranks: u32,
    starter: Starter,
    folder: TempDir,
}

/// The libraries that are installed, and a line for each other one.
///
/// # Errors
/// The source cannot be written, or the measurement is interrupted.
pub fn find(ranks: u32, interrupt: &Interrupt) -> Result<(Vec<Peer>, Vec<String>), BenchError> {
    let (mut found, mut missing) = Default::default();
    for library in &LIBRARIES {
        match Peer::compiled(library, ranks, interrupt) {
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

impl Peer {
    fn compiled(
        library: &'static Library,
        ranks: u32,
        interrupt: &Interrupt,
    ) -> Result<Self, BenchError> {
        let Library {
            compiler, package, ..
        } = library;
        let installed = |name: &str| {
            program(&[name]).ok_or_else(|| {
                BenchError::failed(format!("{name} was not found (Debian package {package})"))
            })
        };
        let (compiler, mpirun) = (installed(compiler)?, installed(library.mpirun)?);
        let folder = tempfile::Builder::new().prefix("refrain-bench-").tempdir();
        let folder = folder.map_err(BenchError::system("no temporary folder"))?;
        let peer = Self {
            library,
            mpirun,
            ranks,
            starter: Starter::new(interrupt.clone()),
            folder,
        };
        let source = peer.folder.path().join("collectives.c");
        fs::write(&source, SOURCE).map_err(BenchError::write(&source))?;
        let program = peer.program();
        let arguments = ["-O3", "-o", &program, &source.to_string_lossy()];
        peer.starter
            .start(&compiler, &arguments, None)?
            .wait(LIMIT)?;
        Ok(peer)
    }

    fn program(&self) -> String {
        let path = self.folder.path().join("collectives");
        path.to_string_lossy().into_owned()
    }

    pub fn name(&self) -> &'static str {
        self.library.name
    }

    /// Runs the loop with these arguments. Returns its output.
    ///
    /// # Errors
    /// It fails or takes too long, or the measurement is interrupted.
    pub fn run(&self, words: &[String]) -> Result<String, BenchError> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let (ranks, program) = (self.ranks.to_string(), self.program());
        let mut arguments = self.library.options.to_vec();
        if self.ranks as usize > cores {
            arguments.extend(self.library.crowded);
        }
        arguments.extend(["-np", &ranks, &program]);
        arguments.extend(words.iter().map(String::as_str));
        self.starter
            .start(&self.mpirun, &arguments, None)?
            .wait(LIMIT)
    }
}
