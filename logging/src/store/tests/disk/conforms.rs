//! The suite of all stores, on two file systems, by both engines.

use super::{ENGINES, child, names, options};
use crate::store::Store;
use crate::store::disk::DiskStore;
use crate::store::faulty::LeftFile;
use crate::store::tests::{Harness, Place, run_all};
use refrain_storage::Io;
use std::path::Path;
use tempfile::TempDir;

struct OnDisk {
    engine: Io,
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

fn conforms_in(parent: &Path) {
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
    conforms_in(Path::new("/tmp"));
}

#[test]
fn on_shared_memory() {
    conforms_in(Path::new("/dev/shm"));
}

/// ramfs has neither direct I/O nor room taken in advance.
#[test]
fn on_a_file_system_that_can_little() {
    if !child::is_child() {
        return child::run_with_own_mounts("conforms::on_a_file_system_that_can_little");
    }
    let parent = tempfile::tempdir().unwrap();
    let _mount = child::Mount::new("ramfs", "mode=700", parent.path());
    for engine in ENGINES {
        let store = DiskStore::new(options(parent.path(), engine)).unwrap();
        let how = store.describe();
        assert!(how.ends_with(", buffered"), "{how}");
    }
    conforms_in(parent.path());
}
