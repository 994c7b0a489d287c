//! The suite of all stores, on two file systems, by both engines.

use super::{ENGINES, names, options};
use crate::store::Store;
use crate::store::conformance::{Harness, Place, run_all};
use crate::store::disk::{DiskEngine, DiskStore};
use crate::store::faulty::LeftFile;
use tempfile::TempDir;

struct OnDisk {
    engine: DiskEngine,
    place: Place,
    directory: TempDir,
}

impl Harness for OnDisk {
    fn name(&self) -> String {
        let directory = self.directory.path().display();
        format!("{:?} in {directory}, {:?}", self.engine, self.place)
    }

    fn store(&mut self) -> Box<dyn Store> {
        let store = DiskStore::new(options(self.directory.path(), self.engine)).unwrap();
        Box::new(store)
    }

    fn files(&mut self) -> Vec<LeftFile> {
        let directory = self.directory.path();
        let names = names(directory).into_iter();
        let read = |name: String| LeftFile {
            bytes: std::fs::read(directory.join(&name)).unwrap(),
            name,
        };
        names.map(read).collect()
    }

    fn place(&self) -> Place {
        self.place
    }
}

fn conforms_in(parent: &str) {
    for engine in ENGINES {
        for place in [Place::OnAPage, Place::Anywhere] {
            run_all(|| OnDisk {
                engine,
                place,
                directory: tempfile::tempdir_in(parent).unwrap(),
            });
        }
    }
}

#[test]
fn on_the_disk() {
    conforms_in("/tmp");
}

#[test]
fn on_shared_memory() {
    conforms_in("/dev/shm");
}
