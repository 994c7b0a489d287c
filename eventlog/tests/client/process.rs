//! Event loggers as processes of their own, which can be killed.

use crate::scripted::PATIENCE;
use refrain_eventlog::client::{Client, ServerAddress};
use refrain_eventlog::server::{Server, ServerOptions};
use refrain_eventlog::{Level, LoggerId};
use refrain_logging::determinant::EventIndex;
use refrain_logging::pessimist::Commits;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const FOLDER: &str = "REFRAIN_TEST_LOGGER_FOLDER";
const LISTEN: &str = "REFRAIN_TEST_LOGGER_LISTEN";
const PEERS: &str = "REFRAIN_TEST_LOGGER_PEERS";
const NUMBER: &str = "REFRAIN_TEST_LOGGER_NUMBER";
const LEVEL: &str = "REFRAIN_TEST_LOGGER_LEVEL";

/// Not a test: what the processes run.
#[test]
#[ignore = "the body of a process that other tests start"]
fn event_logger() {
    let value = |name: &str| std::env::var(name).expect("set by whoever starts this");
    let level = match value(LEVEL).as_str() {
        "durable" => Level::Durable,
        _ => Level::Placed,
    };
    let number = LoggerId(value(NUMBER).parse().unwrap());
    let mut options = ServerOptions::new(PathBuf::from(value(FOLDER)), number, level);
    options.listen = vec![value(LISTEN).parse().unwrap()];
    let peers = value(PEERS);
    let peers = peers.split(' ').filter(|peer| !peer.is_empty());
    options.peers = peers.map(|peer| peer.parse().unwrap()).collect();
    let report = move |text: &str| eprintln!("event logger {}: {text}", number.0);
    let mut server = Server::bind(options, report).unwrap();
    // Ends with the process that started it.
    server.serve_until(std::io::stdin()).unwrap();
}

pub struct Process {
    child: Option<Child>,
    pub folder: PathBuf,
    pub address: ServerAddress,
    number: u32,
    peers: Vec<ServerAddress>,
    level: Level,
}

impl Process {
    pub fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub fn start(&mut self) {
        assert!(self.child.is_none());
        let peers: Vec<String> = self.peers.iter().map(ToString::to_string).collect();
        let level = match self.level {
            Level::Placed => "placed",
            Level::Durable => "durable",
        };
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "process::event_logger",
                "--ignored",
                "--nocapture",
            ])
            .env(FOLDER, &self.folder)
            .env(LISTEN, self.address.to_string())
            .env(PEERS, peers.join(" "))
            .env(NUMBER, self.number.to_string())
            .env(LEVEL, level)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    /// Kills the process with SIGKILL.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("running");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Loses everything that it had.
    pub fn lose_folder(&mut self) {
        std::fs::remove_dir_all(&self.folder).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

/// The replicas of one shard, not started.
pub fn replicas(folder: &Path, count: u32, level: Level, over_tcp: bool) -> Vec<Process> {
    // Held until all are known, so that no port is given out twice.
    let ports: Vec<TcpListener> = (0..count)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let address = |number: u32| match over_tcp {
        false => ServerAddress::Unix(folder.join(format!("{number}.sock"))),
        true => ServerAddress::Tcp(ports[number as usize].local_addr().unwrap().to_string()),
    };
    let addresses: Vec<ServerAddress> = (0..count).map(address).collect();
    let replica = |number: u32| Process {
        child: None,
        folder: folder.join(number.to_string()),
        address: addresses[number as usize].clone(),
        number,
        peers: addresses
            .iter()
            .filter(|peer| **peer != addresses[number as usize])
            .cloned()
            .collect(),
        level,
    };
    (0..count).map(replica).collect()
}

/// Polls until `done`, which must come true.
pub fn poll_until(client: &mut Client, done: impl Fn(&Client) -> bool) {
    let began = Instant::now();
    while !done(client) {
        client.poll();
        assert!(began.elapsed() < PATIENCE, "{:?}", client.explain());
        // The loggers need the processor, too.
        std::thread::sleep(Duration::from_micros(50));
    }
}

pub fn poll_until_stable(client: &mut Client) {
    let end: EventIndex = client.end();
    poll_until(client, |client| client.stable_end() == end);
}
