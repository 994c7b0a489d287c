//! Jobs over hosts (a script in place of ssh; each "host" is this one) and their files: spilled
//! logs, checkpoints in folders and on servers with a secret.

use crate::launched::{Ended, Launched, Process, processes_of, refrain, run};
use crate::libfabric::installed::has;
use rustix::process::Signal;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const RING: &str = "token-ring --rounds 60 --checkpoint-every 8";

/// A folder with the script in place of ssh, and one for temporary files.
struct Hosts {
    folder: tempfile::TempDir,
}

impl Hosts {
    /// `None`, with the reason printed, if messages cannot leave a host.
    fn new() -> Option<Self> {
        if !has(None, "tcp") {
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        // As with ssh, an agent is not killed with the launcher's child.
        fs::write(folder.path().join("ssh"), "shift; \"$@\"; exit\n").expect("a new file");
        for name in ["temporary", "files"] {
            fs::create_dir(folder.path().join(name)).expect("a new folder");
        }
        Some(Self { folder })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Three ranks on two hosts.
    fn job(&self, options: &str, workload: &str) -> Command {
        let mut command = refrain();
        command
            .args(["run", "-n", "3", "--no-prefix", "--host", "a:2,b", "--ssh"])
            .arg(format!("sh {}", self.file("ssh").display()))
            .args(["--fabric", "ofi:tcp", "--protocol", "pessimist"])
            .args(options.split_whitespace())
            .args(["--", "refrain-workload"])
            .args(workload.split_whitespace())
            .env("TMPDIR", self.file("temporary"));
        command
    }

    #[track_caller]
    fn expect_no_files(&self) {
        for name in ["temporary", "files"] {
            let left = fs::read_dir(self.file(name)).expect("a folder");
            let left: Vec<_> = left.map(|file| file.expect("one").file_name()).collect();
            assert!(left.is_empty(), "{name}: {left:?}");
        }
    }

    /// A file with a secret that consists of this digit.
    fn secret(&self, digit: &str) -> PathBuf {
        let file = self.file(&format!("secret-{digit}"));
        fs::write(&file, digit.repeat(64)).expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("ours");
        file
    }
}

/// The same job on this host alone, without kills.
fn expected(workload: &str) -> String {
    let mut alone = refrain();
    alone.args(["run", "-n", "3", "--no-prefix", "--", "refrain-workload"]);
    run(alone.args(workload.split_whitespace())).expect(0).out
}

/// A rank of each host has died and was restarted.
#[track_caller]
fn expect_recovery(ended: &Ended, workload: &str) {
    assert_eq!(ended.out, expected(workload), "{}", ended.err);
    for rank in [1, 2] {
        let words = format!("rank {rank} was killed by SIGKILL (incarnation 0, by --kill)");
        assert!(ended.err.contains(&words), "{}", ended.err);
    }
}

const KILLS: &str = "--kill 1@clock=60,2@clock=45 --stats";

/// Without options each host has its own folder; with an option it is named. GC-1 REC-3
#[test]
fn ranks_go_on_from_checkpoints_in_folders_of_their_hosts() {
    let Some(hosts) = Hosts::new() else { return };
    let named = format!("--checkpoint-dir {}", hosts.file("files").display());
    for options in ["", &named] {
        let mut command = hosts.job(&format!("{KILLS} {options}"), RING);
        let ended = run(&mut command).expect(0);
        expect_recovery(&ended, RING);
        assert!(!ended.err.contains(" 0 checkpoints"), "{}", ended.err);
        hosts.expect_no_files();
    }
}

/// A checkpoint server. Dropping it kills the server.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(hosts: &Hosts, secret: &Path) -> Self {
        let mut command = refrain();
        command.args(["checkpointd", "--listen", "tcp:127.0.0.1:0", "--dir"]);
        command.arg(hosts.file("files")).arg("--secret").arg(secret);
        let mut child = command.stdout(Stdio::piped()).spawn().expect("refrain");
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().expect("piped"));
        out.read_line(&mut line).expect("a line");
        let address = line.trim_end().strip_prefix("listening on ");
        let address = address.expect("it listens").to_owned();
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The secret reaches the ranks of all hosts; a client without it gets nothing.
#[test]
fn a_checkpoint_server_wants_its_secret() {
    let Some(hosts) = Hosts::new() else { return };
    let (secret, wrong) = (hosts.secret("a"), hosts.secret("b"));
    let server = Server::start(&hosts, &secret);
    let with = |file: Option<&Path>| {
        let mut options = format!("{KILLS} --checkpoint-dir {}", server.address);
        if let Some(file) = file {
            options += &format!(" --checkpoint-secret {}", file.display());
        }
        run(&mut hosts.job(&options, RING))
    };
    let ended = with(Some(&secret)).expect(0);
    expect_recovery(&ended, RING);
    assert!(!ended.err.contains(" 0 checkpoints"), "{}", ended.err);
    let left = fs::read_dir(hosts.file("files")).expect("a folder");
    let left = left.map(|file| file.expect("one").file_name());
    assert_eq!(
        left.collect::<Vec<_>>(),
        ["lock"],
        "checkpoints go with the job"
    );
    let ended = with(Some(&wrong)).expect(2);
    assert!(ended.err.contains("--checkpoint-secret"), "{ended:?}");
    let ended = with(None).expect(2);
    assert!(ended.err.contains("--checkpoint-secret"), "{ended:?}");
    for text in [&ended.err, &ended.out] {
        assert!(!text.contains("aaaaaaaa"), "{text}");
    }
    // The option is for a server only.
    let options = format!(
        "--checkpoint-dir /tmp --checkpoint-secret {}",
        secret.display()
    );
    run(&mut hosts.job(&options, RING)).expect(1);
}

/// An agent that has connected by IPv6 gives its ranks an IPv6 address.
#[test]
fn loggers_are_reached_by_the_address_that_the_agent_called() {
    if let Err(error) = std::net::TcpListener::bind("[::1]:0") {
        return println!("skipped: there is no ::1 here: {error}");
    }
    let Some(hosts) = Hosts::new() else { return };
    let script = "export SSH_CONNECTION='::1 1 ::1 22'\nshift; \"$@\"; exit\n";
    fs::write(hosts.file("ssh"), script).expect("the file is replaced");
    let ended = run(&mut hosts.job(KILLS, RING)).expect(0);
    expect_recovery(&ended, RING);
}

/// The part of the log that exceeds memory is written to the folder of each rank's host. LOG-3
#[test]
fn logs_are_spilled_on_their_hosts_and_go_with_the_job() {
    let Some(hosts) = Hosts::new() else { return };
    let files = hosts.file("files");
    let chaos = "chaos --operations 400 --patience 60";
    let options = format!(
        "--log-memory 3M --spill-after 0 --spill-dir {} --kill 1@clock=60,2@clock=45",
        files.display()
    );
    for keep in ["", "--keep-log"] {
        let mut command = hosts.job(&format!("{options} {keep}"), chaos);
        let ended = run(&mut command).expect(0);
        expect_recovery(&ended, chaos);
        if !keep.is_empty() {
            let left = fs::read_dir(&files).expect("a folder").count();
            assert!(left > 0, "they were spilled");
            run(refrain().args(["clean", "--spill-dir"]).arg(&files)).expect(0);
        }
        hosts.expect_no_files();
    }
}

/// The launcher is killed: agents end, and remove the job's files.
#[test]
fn a_killed_launcher_leaves_no_files_on_hosts() {
    let Some(hosts) = Hosts::new() else { return };
    let files = hosts.file("files");
    let spill = format!(
        "--log-memory 3M --spill-after 0 --spill-dir {} --event-dir {}",
        files.display(),
        hosts.file("events").display()
    );
    let chaos = "chaos --operations 100000000 --patience 60";
    let launched = Launched::start(&mut hosts.job(&spill, chaos));
    let launcher = Process::of(launched.id());
    while fs::read_dir(&files).expect("a folder").count() == 0 {
        assert!(launcher.is_running(), "{:?}", launched.end());
        std::thread::yield_now();
    }
    launched.signal(Signal::KILL);
    launched.end();
    // Agents detect it by the end of their standard input.
    while !processes_of(hosts.folder.path()).is_empty() {
        std::thread::yield_now();
    }
    hosts.expect_no_files();
}
