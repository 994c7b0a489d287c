//! A server in a thread of the test.

use refrain_checkpoint::ServerAddress;
use refrain_checkpoint::server::{SESSIONS_MAX, Server, ServerOptions};
use refrain_storage::Io;
use refrain_wire::Secret;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use tempfile::TempDir;

/// The secret of the server's sealed address.
pub fn secret() -> Secret {
    Secret::from_bytes([7; 32])
}

/// A server that runs until it is dropped.
pub struct Running {
    folder: PathBuf,
    addresses: Vec<ServerAddress>,
    reports: Arc<Mutex<Vec<String>>>,
    /// Closed to end the server.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    /// The folder, if this value owns it.
    own_folder: Option<TempDir>,
}

#[allow(dead_code, reason = "each test binary uses some")]
impl Running {
    /// Starts a server in a folder of its own, behind a Unix socket and TCP.
    pub fn start() -> Self {
        let own = tempfile::tempdir().unwrap();
        let folder = own.path().to_owned();
        let mut running = Self::in_folder(&folder);
        running.own_folder = Some(own);
        running
    }

    /// Starts a server in this folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self::with(folder, SESSIONS_MAX)
    }

    /// Starts a server with a limit of concurrent sessions.
    pub fn with(folder: &Path, sessions_max: usize) -> Self {
        let options = ServerOptions {
            folder: folder.join("checkpoints"),
            listen: vec![
                ServerAddress::Unix(folder.join("socket")),
                ServerAddress::Tcp("127.0.0.1:0".into()),
                ServerAddress::Tcp("127.0.0.1:0".into()).sealed(&secret()),
            ],
            io: Io::Auto,
            sessions_max,
        };
        let reports: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = reports.clone();
        let report = move |text: &str| told.lock().unwrap().push(text.into());
        let mut server = Server::bind(&options, report).expect("it can listen");
        let addresses = server.addresses().cloned().collect();
        let (stop, stopped) = UnixStream::pair().unwrap();
        let serve = move || server.serve_until(&stopped).expect("it serves");
        Self {
            folder: options.folder,
            addresses,
            reports,
            stop: Some(stop),
            thread: Some(std::thread::spawn(serve)),
            own_folder: None,
        }
    }

    pub fn unix(&self) -> ServerAddress {
        self.addresses[0].clone()
    }

    pub fn tcp(&self) -> ServerAddress {
        self.addresses[1].clone()
    }

    /// The TCP address with the [`secret`].
    pub fn sealed(&self) -> ServerAddress {
        self.addresses[2].clone()
    }

    /// Names of the checkpoint files.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.filter(|name| name != "lock").collect();
        names.sort();
        names
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The log lines so far.
    pub fn reports(&self) -> Vec<String> {
        self.reports.lock().unwrap().clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            thread.join().expect("it ends well");
        }
    }
}
