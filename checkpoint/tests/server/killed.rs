//! A server is killed and restarted.

use crate::content::{RANK, check, fill, job, write};
use refrain_checkpoint::server::{SESSIONS_MAX, Server, ServerOptions};
use refrain_checkpoint::{CheckpointError, CheckpointStoreSpec, ServerAddress, Store};
use refrain_ring::Incarnation;
use refrain_storage::Io;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

const FOLDER: &str = "REFRAIN_TEST_CHECKPOINT_SERVER";

/// Not a test by itself: the server that the other test kills.
#[test]
fn serves_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let folder = Path::new(&folder);
    let options = ServerOptions {
        folder: folder.join("checkpoints"),
        listen: vec![ServerAddress::Unix(folder.join("socket"))],
        io: Io::Auto,
        sessions_max: SESSIONS_MAX,
    };
    let mut server = Server::bind(&options, |text| eprintln!("{text}")).unwrap();
    println!("it listens");
    std::io::stdout().flush().unwrap();
    let (_stop, never) = UnixStream::pair().unwrap();
    server.serve_until(&never).unwrap();
}

struct Process(Child);

impl Process {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "killed::serves_until_it_is_killed",
                "--nocapture",
            ])
            .env(FOLDER, folder)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let listens = |line: Result<String, _>| line.is_ok_and(|it| it.contains("it listens"));
        assert!(lines.any(listens), "it listens");
        Self(child)
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// GC-1
#[test]
fn what_it_has_called_stable_is_there_when_it_is_back() {
    const BYTES: usize = 3 << 20;
    let folder = tempfile::tempdir().unwrap();
    let mut server = Process::start(folder.path());
    let place = CheckpointStoreSpec::Server(ServerAddress::Unix(folder.path().join("socket")));
    let store = Store::open(&place, job()).unwrap();
    let mut stable = 0;
    for kill in 0..6_u64 {
        for _ in 0..=kill % 3 {
            write(&store, 0, stable + 1, BYTES).unwrap();
            stable += 1;
        }
        // Kills it during the next checkpoint.
        let mut writing = store.begin(RANK, Incarnation(0), stable + 1).unwrap();
        fill(&mut writing, stable + 1, BYTES).unwrap();
        server.kill();
        let error = writing.commit().unwrap_err();
        assert!(matches!(error, CheckpointError::Server { .. }), "{error}");
        let error = store.newest(RANK).unwrap_err();
        assert!(error.to_string().contains("start it again"), "{error}");
        server = Process::start(folder.path());
        let mut reading = store.newest(RANK).unwrap().unwrap();
        assert_eq!(reading.number(), stable);
        check(&mut reading, BYTES);
    }
    // A life that has fenced earlier lives has done so for good.
    store.recover(RANK, Incarnation(1), None).unwrap().unwrap();
    server.kill();
    let _server = Process::start(folder.path());
    let error = write(&store, 0, stable + 1, 10).unwrap_err();
    assert!(matches!(error, CheckpointError::Fenced { .. }), "{error}");
    write(&store, 1, stable + 1, 10).unwrap();
    let parts = std::fs::read_dir(folder.path().join("checkpoints")).unwrap();
    let is_part = |name: &std::path::Path| name.extension().is_some_and(|it| it == "part");
    let parts = parts.filter(|entry| is_part(&entry.as_ref().unwrap().path()));
    assert_eq!(parts.count(), 0, "what was torn takes no room");
}
