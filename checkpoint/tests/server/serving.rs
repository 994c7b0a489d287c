//! A server with sockets.

use crate::content::{RANK, check, fill, job, write};
use crate::running::Running;
use refrain_checkpoint::server::{SESSIONS_MAX, Server, ServerError, ServerOptions};
use refrain_checkpoint::{CheckpointError, CheckpointStoreSpec, SectionKind, ServerAddress, Store};
use refrain_ring::{Incarnation, Rank};
use refrain_storage::Io;

fn store(address: ServerAddress) -> Store {
    Store::open(&CheckpointStoreSpec::Server(address), job()).unwrap()
}

#[test]
fn many_ranks_write_and_read_at_once() {
    let server = Running::start();
    std::thread::scope(|scope| {
        for rank in 0..10 {
            let address = if rank % 2 == 0 {
                server.unix()
            } else {
                server.tcp()
            };
            scope.spawn(move || {
                let store = store(address);
                for number in 1..=4 {
                    let mut writing = store.begin(Rank(rank), Incarnation(0), number).unwrap();
                    fill(&mut writing, number, 2 << 20).unwrap();
                    writing.commit().unwrap();
                    let mut reading = store.newest(Rank(rank)).unwrap().unwrap();
                    assert_eq!(reading.number(), number);
                    check(&mut reading, 2 << 20);
                }
            });
        }
    });
    // GC-1
    assert_eq!(server.names().len(), 20, "two of each");
    assert!(server.reports().is_empty(), "{:?}", server.reports());
}

/// The client has sent a part and then stalls.
#[test]
fn a_client_that_stalls_costs_nobody_else_anything() {
    let server = Running::start();
    let store = store(server.tcp());
    let mut stalled = store.begin(Rank(1), Incarnation(0), 1).unwrap();
    stalled.section(SectionKind::Memory, 1).unwrap();
    stalled.write(&vec![1; 5 << 20]).unwrap();
    write(&store, 0, 1, 3 << 20).unwrap();
    // A slow client that ends normally.
    stalled.write(&vec![1; 5 << 20]).unwrap();
    stalled.commit().unwrap();
    // A client that reads a part and stalls.
    let mut reading = store.newest(Rank(1)).unwrap().unwrap();
    let mut section = reading.next_section().unwrap().unwrap();
    let mut byte = [0];
    section.read_exact(&mut byte).unwrap();
    for number in 2..5 {
        write(&store, 0, number, 3 << 20).unwrap();
    }
    // The checkpoint that it reads stays, although newer ones are written.
    for number in 2..5 {
        let mut writing = store.begin(Rank(1), Incarnation(0), number).unwrap();
        fill(&mut writing, number, 10).unwrap();
        writing.commit().unwrap();
    }
    let rest = section.read_to_end().unwrap();
    assert!(rest.len() == (10 << 20) - 1 && rest.iter().all(|byte| *byte == 1));
}

#[test]
fn a_client_that_vanishes_in_the_middle_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let server = Running::in_folder(folder.path());
    let store = store(server.unix());
    write(&store, 0, 1, 10).unwrap();
    let mut writing = store.begin(RANK, Incarnation(0), 2).unwrap();
    fill(&mut writing, 2, 4 << 20).unwrap();
    drop(writing);
    // Its session ends when the server has ended.
    let checkpoints = server.folder().to_owned();
    drop(server);
    let names = std::fs::read_dir(checkpoints).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "the lock and the first one: {names:?}");
}

#[test]
fn a_full_server_is_told_of_in_the_middle() {
    let server = Running::start();
    let store = store(server.unix());
    write(&store, 0, 1, 10).unwrap();
    // Writes to the server fail from now on.
    let mut writing = store.begin(RANK, Incarnation(0), 2).unwrap();
    std::fs::remove_file(server.folder().join("refrain-17-4-r3-000000000002-i0.part")).unwrap();
    fill(&mut writing, 2, 10).unwrap();
    let error = writing.commit().unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, CheckpointError::Io { .. }), "{text}");
    assert!(text.contains("checkpoint server unix:"), "{text}");
    assert!(text.contains("the earlier checkpoints stay"), "{text}");
    assert_eq!(server.reports().len(), 1);
    check(&mut store.newest(RANK).unwrap().unwrap(), 10);
}

#[test]
fn damage_on_the_server_is_told_to_the_client() {
    let server = Running::start();
    let store = store(server.tcp());
    for number in 1..=2 {
        write(&store, 0, number, 10).unwrap();
    }
    let path = server.folder().join("refrain-17-4-r3-000000000002.ckpt");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4100] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let mut reading = store.newest(RANK).unwrap().unwrap();
    assert_eq!((reading.number(), reading.next_number()), (1, 3));
    let told = reading.passed_over()[0].to_string();
    assert!(told.contains("000000000002.ckpt"), "{told}");
    check(&mut reading, 10);
    std::fs::remove_file(server.folder().join("refrain-17-4-r3-000000000001.ckpt")).unwrap();
    let error = store.newest(RANK).unwrap_err();
    assert!(
        matches!(error, CheckpointError::NoneWhole { .. }),
        "{error}"
    );
}

#[test]
fn a_folder_has_one_server_and_a_socket_too() {
    let server = Running::start();
    let options = |folder: &std::path::Path, address| ServerOptions {
        folder: folder.into(),
        listen: vec![address],
        io: Io::Auto,
        sessions_max: SESSIONS_MAX,
    };
    let free = ServerAddress::Tcp("127.0.0.1:0".into());
    let again = Server::bind(&options(server.folder(), free), |_| {});
    assert!(matches!(again.err(), Some(ServerError::Locked(_))));
    let other = tempfile::tempdir().unwrap();
    for taken in [server.unix(), server.tcp()] {
        let error = Server::bind(&options(other.path(), taken.clone()), |_| {});
        let text = error.err().expect("somebody listens there").to_string();
        assert!(text.contains(&taken.to_string()), "{text}");
    }
}

#[test]
fn a_server_ends_though_clients_are_there() {
    let server = Running::start();
    let store = store(server.unix());
    write(&store, 0, 1, 10).unwrap();
    let mut writing = store.begin(RANK, Incarnation(0), 2).unwrap();
    writing.section(SectionKind::Log, 1).unwrap();
    let address = server.unix();
    drop(server);
    let error = fill(&mut writing, 2, 6 << 20).and_then(|()| writing.commit().map(drop));
    let text = error.unwrap_err().to_string();
    assert!(text.contains(&address.to_string()), "{text}");
    assert!(text.contains("start it again"), "{text}");
    let gone =
        Store::open(&CheckpointStoreSpec::Server(address), job()).and_then(|store| store.reach());
    let gone = gone.unwrap_err();
    assert!(gone.to_string().contains("cannot be reached"), "{gone}");
}
