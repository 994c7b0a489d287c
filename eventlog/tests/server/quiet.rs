//! A server that has no work, or cannot do its work, sleeps.

use crate::batches::Life;
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::ring::{RingIdentity, RingMemory, RingWriter};
use refrain_eventlog::server::ring_name::RingName;
use refrain_eventlog::server::{Server, ServerOptions};
use refrain_eventlog::{Level, LoggerId};
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Incarnation, Rank};
use refrain_storage::Io;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;

const CHILD: &str = "REFRAIN_TEST_SERVER_CHILD";
const LIFE: Life = Life::new(5, 2, 0);

/// Readable after a second.
fn in_a_second() -> UnixStream {
    let (stop, stopped) = UnixStream::pair().expect("a pair");
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(1));
        drop(stop);
    });
    stopped
}

/// Processor time of this thread.
fn cpu_time() -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").expect("told");
    let nanos = told.split(' ').next().expect("the first");
    Duration::from_nanos(nanos.parse().expect("a number"))
}

/// A ring that a dead server has left, with one batch.
fn leave_ring(folder: &Path, logger: LoggerId) {
    let identity = RingIdentity {
        job: LIFE.job,
        rank: Rank(LIFE.rank),
        incarnation: Incarnation(LIFE.incarnation),
        logger,
        start: EventIndex(0),
    };
    std::fs::create_dir_all(folder).expect("a folder");
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(folder.join(RingName::of(&identity).to_string()))
        .expect("a file");
    let memory = RingMemory::create(&file, &identity).expect("a ring");
    let mut writer = RingWriter::new(memory);
    writer.write(&LIFE.batch(0, 1)).expect("room");
}

/// A completed write at the start, whose event is never handled, must not wake the server
/// again and again.
#[test]
fn a_server_that_took_something_from_a_ring_at_its_start_sleeps() {
    let folder = TempDir::new().expect("a folder");
    let data = folder.path().join("data");
    leave_ring(&data, LoggerId(4));
    let mut options = ServerOptions::new(data, LoggerId(4), Level::Durable);
    options.listen = vec![ServerAddress::Unix(folder.path().join("socket"))];
    options.io = Io::Plain;
    let mut server = Server::bind(options, |_: &str| {}).expect("a server");
    let before = cpu_time();
    server.serve_until(in_a_second()).expect("served");
    let spent = cpu_time() - before;
    assert!(spent < Duration::from_millis(100), "{spent:?} of a second");
}

/// Without a descriptor for a new connection, the server reports that at intervals, and does
/// nothing between.
#[test]
fn a_server_without_descriptors_tries_now_and_then() {
    if std::env::var_os(CHILD).is_none() {
        let status = Command::new(std::env::current_exe().expect("a path"))
            .args(["--exact", "--nocapture"])
            .arg("quiet::a_server_without_descriptors_tries_now_and_then")
            .env(CHILD, "1")
            .status();
        assert!(status.expect("a child").success());
        return;
    }
    let folder = TempDir::new().expect("a folder");
    let socket = folder.path().join("socket");
    let mut options = ServerOptions::new(folder.path().join("data"), LoggerId(4), Level::Placed);
    options.listen = vec![ServerAddress::Unix(socket.clone())];
    let reports = Arc::new(Mutex::new(Vec::new()));
    let told = reports.clone();
    let report = move |text: &str| told.lock().expect("reports").push(text.to_owned());
    let mut server = Server::bind(options, report).expect("a server");
    let _knocks = UnixStream::connect(&socket).expect("in the queue");
    let stop = in_a_second();
    let former = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(3),
        ..former
    };
    setrlimit(Resource::Nofile, none).expect("less");
    let served = server.serve_until(stop);
    setrlimit(Resource::Nofile, former).expect("as before");
    served.expect("served");
    let reports = reports.lock().expect("reports");
    let first = reports.first().expect("it says so");
    assert!(first.contains("no connection can be accepted"), "{first}");
    // It tries every tenth of a second, and says so every second.
    assert!(reports.len() <= 3, "{} reports", reports.len());
}
