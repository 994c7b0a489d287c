//! Builds programs in C against this build's library and header.

use super::built::{Program, compiler, target};

/// A program that was built. `None`: there is no C compiler.
pub fn program(source: &str) -> Option<Program> {
    let mut cc = compiler("cc")?;
    cc.args(["-std=c11", "-O1", "-g"]);
    let headers = tempfile::tempdir().expect("a folder");
    std::fs::write(headers.path().join("mpi.h"), refrain_mpi_abi::header()).expect("a header");
    let library = target().join("examples/libmpi_under_test.so");
    Some(Program::linked(cc, source, headers.path(), &library))
}
