//! Checks whether a file is a whole checkpoint, and reads its strips.

use crate::disk::Input;
use crate::error::CheckpointError;
use crate::format::{Flaw, STRIP_BYTES};
use crate::message::Whole;
use crate::store::contract::Source;
use crate::unpacking::{Next, Sections, Unpacking};
use std::io;

/// Reads all of a file. The inner error has the offset and the flaw if the file is not a whole
/// checkpoint.
pub(super) fn check(input: &mut Input) -> io::Result<Result<Whole, (u64, Flaw)>> {
    let mut strip = vec![0; STRIP_BYTES];
    let mut bytes = input.read(&mut strip)?;
    let mut unpacking = match Unpacking::new(&strip[..bytes]) {
        Ok(unpacking) => unpacking,
        Err(flaw) => return Ok(Err((0, flaw))),
    };
    let mut sections = Sections::default();
    loop {
        match unpacking.next(&strip[..bytes]) {
            Err(flaw) => return Ok(Err((unpacking.place(), flaw))),
            Ok(Next::Piece(piece)) => sections.add(&piece),
            Ok(Next::StripIsOver) => bytes = input.read(&mut strip)?,
            Ok(Next::End) => break,
        }
    }
    let total = unpacking.place();
    // The last strip may have been full.
    if input.read(&mut strip[..1])? > 0 {
        return Ok(Err((total, Flaw::Behind)));
    }
    Ok(Ok(Whole {
        header: *unpacking.header(),
        bytes: total,
        sections: sections.into_vec(),
        passed_over: Vec::new(),
    }))
}

/// The strips of a file.
#[derive(Debug)]
pub(super) struct FileSource {
    pub input: Input,
    pub name: String,
}

impl Source for FileSource {
    fn next_strip(&mut self, into: &mut [u8]) -> Result<usize, CheckpointError> {
        self.input
            .read(into)
            .map_err(|error| CheckpointError::of_system(format!("reading {}", self.name), error))
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}
