//! Tests that need real files.

mod child;
mod conforms;
mod directories;
mod failing;
mod limits;
mod threads;

use crate::store::disk::{DiskOptions, DiskStore};
use crate::store::tests::{Driver, JOB, Place};
use refrain_storage::Io;
use std::path::Path;

pub(super) const PREFIX: &str = "refrain-1-2-";
pub(super) const ENGINES: [Io; 2] = [Io::Uring, Io::Plain];

pub(super) fn options(directory: &Path, engine: Io) -> DiskOptions {
    DiskOptions {
        engine,
        ..DiskOptions::new(directory, PREFIX, JOB)
    }
}

pub(super) fn driver(options: DiskOptions) -> Driver {
    Driver::new(Box::new(DiskStore::new(options).unwrap()), Place::OnAPage)
}

/// Names of the files in a directory.
pub(super) fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}
