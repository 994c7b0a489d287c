//! OpenSSH's server and client in a separate folder.

use crate::launched::{Process, processes_of};
use crate::two_hosts::Hosts;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

/// Folder to which sshd confines a process when it runs as root; Debian's service creates it. It
/// is kept: each connection to any sshd needs it.
const CONFINEMENT: &str = "/run/sshd";
/// Number of attempts: another process may take a port that was free.
const TRIES: u32 = 10;

/// A running server. Dropping it kills the server.
struct Server {
    child: Child,
    port: u16,
}

/// A folder with keys, settings, and servers that know them.
pub struct Ssh {
    folder: tempfile::TempDir,
    servers: Vec<Server>,
    /// The log of the servers.
    log: Arc<Mutex<String>>,
}

impl Drop for Ssh {
    fn drop(&mut self) {
        for server in &mut self.servers {
            let _ = server.child.kill();
            let _ = server.child.wait();
        }
        if thread::panicking() {
            eprintln!("sshd said: {}", self.log.lock().expect("whole"));
        }
    }
}

impl Ssh {
    /// One server on this host for both names `a` and `b`; `None`, with the reason printed, if
    /// OpenSSH is not installed.
    pub fn start() -> Option<Self> {
        let mut ssh = Self::installed()?;
        let listening = ssh.serve("127.0.0.1", Command::new);
        ssh.configure(&[("a", "127.0.0.1", listening), ("b", "127.0.0.1", listening)]);
        Some(ssh)
    }

    /// One server in each of two namespaces, named `a` and `b`.
    pub fn start_on(hosts: &Hosts) -> Option<Self> {
        let mut ssh = Self::installed()?;
        let addresses = [hosts.address(0), hosts.address(1)];
        let ports = [0, 1].map(|host| {
            let address = &addresses[host as usize];
            ssh.serve(address, |program| hosts.enter(host, program))
        });
        ssh.configure(&[
            ("a", &addresses[0], ports[0]),
            ("b", &addresses[1], ports[1]),
        ]);
        Some(ssh)
    }

    fn installed() -> Option<Self> {
        let missing = ["sshd", "ssh", "ssh-keygen"]
            .into_iter()
            .find(|name| find(name).is_none());
        if let Some(name) = missing {
            println!(
                "skipped real ssh: there is no {name} (Debian: openssh-server openssh-client)"
            );
            return None;
        }
        if rustix::process::geteuid().is_root() {
            let made = fs::DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(CONFINEMENT);
            made.expect("root may");
        }
        let ssh = Self {
            folder: tempfile::tempdir().expect("a folder"),
            servers: Vec::new(),
            log: Arc::default(),
        };
        fs::create_dir(ssh.temporary()).expect("a new folder");
        for key in ["key-host", "key-a", "key-b", "key-stranger"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-C", key, "-f"]);
            let made = command.arg(ssh.file(key)).status();
            assert!(made.expect("it is installed").success(), "{key}");
        }
        let friends = ssh.text("key-a.pub") + &ssh.text("key-b.pub");
        fs::write(ssh.file("authorized"), friends).expect("a new file");
        Some(ssh)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).expect(name)
    }

    /// Folder for temporary files of the processes that sshd starts.
    pub fn temporary(&self) -> PathBuf {
        self.file("temporary")
    }

    /// Starts a server at a free port; returns the port when the server listens.
    fn serve(&mut self, address: &str, command: impl Fn(PathBuf) -> Command) -> u16 {
        for _ in 0..TRIES {
            if let Some(server) = self.try_to_serve(address, &command) {
                let port = server.port;
                self.servers.push(server);
                return port;
            }
        }
        panic!("sshd does not listen: {}", self.log.lock().expect("whole"));
    }

    fn try_to_serve(&self, address: &str, command: impl Fn(PathBuf) -> Command) -> Option<Server> {
        // In a namespace the same port may be in use; then another one is tried.
        let free = TcpListener::bind(("127.0.0.1", 0)).and_then(|it| it.local_addr());
        let port = free.expect("a free port").port();
        let settings = self.file(&format!("sshd-{address}-{port}"));
        let text = format!(
            "ListenAddress {address}:{port}\nHostKey {host}\nAuthorizedKeysFile {keys}\n\
             PidFile none\nUsePAM no\nStrictModes no\nPermitRootLogin prohibit-password\n\
             PasswordAuthentication no\nKbdInteractiveAuthentication no\nUseDNS no\n\
             SetEnv TMPDIR={temporary}\n",
            host = self.file("key-host").display(),
            keys = self.file("authorized").display(),
            temporary = self.temporary().display(),
        );
        fs::write(&settings, text).expect("a new file");
        let mut child = command(find("sshd").expect("looked for"))
            .args(["-D", "-e", "-f"])
            .arg(settings)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it is installed");
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        while said.read_line(&mut line).expect("text") > 0 {
            self.log.lock().expect("whole").push_str(&line);
            if line.starts_with("Server listening on") {
                let log = self.log.clone();
                thread::spawn(move || collect(said, &log));
                return Some(Server { child, port });
            }
            line.clear();
        }
        child.wait().expect("ours");
        None
    }

    /// Writes the client's settings: names, addresses and ports. Each name has its own key and its
    /// own file of known hosts.
    fn configure(&self, hosts: &[(&str, &str, u16)]) {
        let mut text = String::new();
        for (name, address, port) in hosts {
            text += &format!("Host {name}\n  HostName {address}\n  Port {port}\n");
            self.know(name, "key-host", (address, *port));
        }
        text += &format!(
            "Host *\n  BatchMode yes\n  IdentitiesOnly yes\n  IdentityFile {}\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n",
            self.file("key-%n").display(),
            self.file("known-%n").display(),
        );
        fs::write(self.file("config"), text).expect("a new file");
    }

    /// From now on the client expects the key of this name from the server.
    fn know(&self, name: &str, key: &str, (address, port): (&str, u16)) {
        let key = self.text(&format!("{key}.pub"));
        let line = format!("[{address}]:{port} {key}");
        fs::write(self.file(&format!("known-{name}")), line).expect("a new file");
    }

    /// The value of `--ssh`.
    pub fn command(&self) -> String {
        format!("ssh -F {}", self.file("config").display())
    }

    /// The running agents.
    pub fn agents(&self) -> Vec<Process> {
        let temporary = self.temporary();
        let temporary = temporary.to_str().expect("text");
        let all = fs::read_dir("/proc").expect("it is there").flatten();
        let agents = all.filter_map(|process| {
            let read = |name| fs::read(process.path().join(name)).unwrap_or_default();
            let command = String::from_utf8_lossy(&read("cmdline")).into_owned();
            let words: Vec<&str> = command.split_terminator('\0').collect();
            let is_agent = words.len() == 2 && words[1] == "agent";
            let is_of_this = String::from_utf8_lossy(&read("environ")).contains(temporary);
            let id = process.file_name().to_str()?.parse().ok()?;
            (is_agent && is_of_this).then(|| Process::of(id))
        });
        agents.collect()
    }

    /// All processes that sshd has started have ended, and their files are removed.
    #[track_caller]
    pub fn expect_nothing_left(&self) {
        let temporary = self.temporary();
        assert_eq!(processes_of(&temporary), [""; 0]);
        let files = fs::read_dir(&temporary).expect("it is there");
        let files: Vec<_> = files.map(|file| file.expect("one").file_name()).collect();
        assert!(files.is_empty(), "{files:?}");
    }
}

fn collect(mut said: BufReader<impl std::io::Read>, log: &Mutex<String>) {
    let mut bytes = [0; 1024];
    while let Ok(count @ 1..) = said.read(&mut bytes) {
        let text = String::from_utf8_lossy(&bytes[..count]);
        log.lock().expect("whole").push_str(&text);
    }
}

/// sshd is seldom in `PATH`, and must be called by its full path.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    let more = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut all = folders.chain(more).map(|folder| folder.join(name));
    all.find(|file| Path::is_file(file))
}
