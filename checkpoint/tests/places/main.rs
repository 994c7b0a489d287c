//! The contract of `Checkpoints`, checked for every store: a folder on a disk in memory, a real
//! folder, a server behind a Unix socket and behind TCP, with and without a secret.

#[path = "../store/content.rs"]
mod content;
mod contract;
#[path = "../server/running.rs"]
mod running;

use content::job;
use contract::Subject;
use refrain_checkpoint::folder::Folder;
use refrain_checkpoint::{CheckpointStoreSpec, ServerAddress, Store};
use refrain_storage::Directory;
use refrain_storage::simulated::SimulatedDisk;
use running::Running;
use std::sync::Arc;

#[test]
fn a_folder_on_a_disk_in_memory() {
    contract::check(&mut || {
        let disk = SimulatedDisk::new(1);
        let store = Store::on(Arc::new(Folder::new(Directory::from(disk), job())), job());
        Subject::new(store, ())
    });
}

#[test]
fn a_real_folder() {
    contract::check(&mut || {
        let folder = tempfile::tempdir().unwrap();
        let place = CheckpointStoreSpec::Folder(folder.path().into());
        Subject::new(Store::open(&place, job()).unwrap(), folder)
    });
}

fn on_a_server(address: impl Fn(&Running) -> ServerAddress) -> impl FnMut() -> Subject {
    move || {
        let server = Running::start();
        let place = CheckpointStoreSpec::Server(address(&server));
        Subject::new(Store::open(&place, job()).unwrap(), server)
    }
}

#[test]
fn a_server_behind_a_unix_socket() {
    contract::check(&mut on_a_server(Running::unix));
}

#[test]
fn a_server_behind_tcp() {
    contract::check(&mut on_a_server(Running::tcp));
}

#[test]
fn a_server_behind_tcp_that_wants_a_secret() {
    contract::check(&mut on_a_server(Running::sealed));
}
