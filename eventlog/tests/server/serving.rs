//! Servers for tests.

use crate::rank::Reader;
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::server::{Server, ServerOptions};
use refrain_eventlog::{Level, LoggerId};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// A server in a thread.
pub struct Threaded {
    pub folder: Arc<TempDir>,
    pub socket: PathBuf,
    pub addresses: Vec<ServerAddress>,
    reports: Arc<Mutex<Vec<String>>>,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Threaded {
    pub fn new(level: Level) -> Self {
        Self::with(level, |_| {})
    }

    pub fn with(level: Level, change: impl FnOnce(&mut ServerOptions)) -> Self {
        let folder = Arc::new(TempDir::new().expect("a folder"));
        Self::in_folder(folder, level, change)
    }

    pub fn in_folder(
        folder: Arc<TempDir>,
        level: Level,
        change: impl FnOnce(&mut ServerOptions),
    ) -> Self {
        let socket = folder.path().join("socket");
        let data = folder.path().join("data");
        let mut options = ServerOptions::new(data, LoggerId(4), level);
        options.listen = vec![ServerAddress::Unix(socket.clone())];
        options.segment_bytes = 1 << 20;
        change(&mut options);
        let reports = Arc::new(Mutex::new(Vec::new()));
        let told = reports.clone();
        let report = move |text: &str| told.lock().expect("reports").push(text.to_owned());
        let mut server = Server::bind(options, report).expect("a server");
        let addresses = server.addresses().cloned().collect();
        let (stop, stopped) = UnixStream::pair().expect("a pair");
        let thread = std::thread::spawn(move || server.serve_until(stopped).expect("served"));
        Self {
            folder,
            socket,
            addresses,
            reports,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    pub fn reports(&self) -> Vec<String> {
        self.reports.lock().expect("reports").clone()
    }

    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn reader(&self) -> Reader {
        Reader::new(&self.socket)
    }

    /// Ends the server regularly.
    pub fn end(mut self) -> Arc<TempDir> {
        self.stop_and_join();
        self.folder.clone()
    }

    fn stop_and_join(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the server failed");
        }
    }
}

impl Drop for Threaded {
    fn drop(&mut self) {
        self.stop_and_join();
    }
}

/// A server in a separate process.
pub struct Process {
    pub child: Child,
    pub socket: PathBuf,
}

impl Process {
    pub fn start(folder: &Path, level: &str) -> Self {
        let program = std::env::current_exe().expect("a path");
        let target = program.ancestors().nth(2).expect("target/debug/deps");
        let program = target.join("examples/refrain-test-eventlogger");
        let socket = folder.join("socket");
        let mut child = Command::new(&program)
            .arg(folder.join("data"))
            .arg(&socket)
            .arg(level)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the example of this crate");
        let mut line = String::new();
        let out = child.stdout.take().expect("a pipe");
        BufReader::new(out).read_line(&mut line).expect("a line");
        assert_eq!(line, "ready\n");
        Self { child, socket }
    }

    /// Kills the process with SIGKILL.
    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("dead");
    }

    /// Ends the process regularly.
    pub fn end(mut self) {
        drop(self.child.stdin.take());
        let status = self.child.wait().expect("an end");
        assert!(status.success(), "{status}");
    }

    pub fn reader(&self) -> Reader {
        Reader::new(&self.socket)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Names of files in a folder with this prefix.
pub fn files(folder: &Path, prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .map(|name| name.to_string_lossy().into_owned())
        .filter(|name| name.starts_with(prefix))
        .collect();
    names.sort();
    names
}
