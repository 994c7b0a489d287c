//! Programs whose tasks another launcher has started, with its server of values (PMI-1). The tests
//! of Slurm (`ci/slurm`) do the same with real ones.

#![allow(
    unsafe_code,
    reason = "gives a task its descriptor between fork and exec"
)]

#[path = "../../capi/tests/built/mod.rs"]
mod built;

use built::{Program, compiler, launcher, target};
use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use tempfile::TempDir;

/// An installed library with its `refrain`, and a program.
struct Installed {
    _folder: TempDir,
    program: Program,
}

fn installed(source: &str) -> Option<Installed> {
    let mut cc = compiler("cc")?;
    cc.args(["-std=c11", "-O1", "-g"]);
    let folder = tempfile::tempdir().unwrap();
    let [bin, lib, include] = ["bin", "lib", "include"].map(|name| folder.path().join(name));
    for folder in [&bin, &lib, &include] {
        fs::create_dir(folder).unwrap();
    }
    let library = lib.join("libmpi_abi.so.1");
    fs::copy(launcher(), bin.join("refrain")).unwrap();
    fs::copy(target().join("examples/libmpi_under_test.so"), &library).unwrap();
    let clocks = "librefrain_clocks.so";
    fs::copy(target().join("deps").join(clocks), lib.join(clocks)).unwrap();
    fs::write(include.join("mpi.h"), refrain_mpi_abi::header()).unwrap();
    let mut rpath = std::ffi::OsString::from("-Wl,-rpath,");
    rpath.push(&lib);
    cc.arg(rpath);
    let program = Program::linked(cc, source, &include, &library);
    Some(Installed {
        _folder: folder,
        program,
    })
}

/// Starts a task for each host and answers their requests; returns what they have printed.
fn run(program: &Program, hosts: &[&str], options: &str) -> Vec<Output> {
    let values = Arc::new(Mutex::new(HashMap::new()));
    let fence = Arc::new(Barrier::new(hosts.len()));
    let size = hosts.len();
    let tasks: Vec<_> = (0..size)
        .map(|rank| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let descriptor = 40;
            let inherited = theirs.as_raw_fd();
            let mut command = Command::new(program.path());
            command
                .env("PMI_FD", descriptor.to_string())
                .env("PMI_RANK", rank.to_string())
                .env("PMI_SIZE", size.to_string())
                .env("SLURMD_NODENAME", hosts[rank])
                .env("REFRAIN_OPTIONS", options)
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            // SAFETY: the calls of the child are safe between fork and exec.
            unsafe {
                command.pre_exec(move || match libc::dup2(inherited, descriptor) {
                    -1 => Err(std::io::Error::last_os_error()),
                    _ => Ok(()),
                });
            }
            let task = command.spawn().unwrap();
            drop(theirs);
            let (values, fence) = (Arc::clone(&values), Arc::clone(&fence));
            let server = thread::spawn(move || serve(ours, &values, &fence));
            (task, server)
        })
        .collect();
    let (tasks, servers): (Vec<_>, Vec<_>) = tasks.into_iter().unzip();
    let outputs = tasks
        .into_iter()
        .map(|task| task.wait_with_output().unwrap())
        .collect();
    for server in servers {
        assert!(server.join().unwrap(), "each task takes leave: {outputs:?}");
    }
    outputs
}

/// Serves one task; returns whether it has taken leave.
fn serve(socket: UnixStream, values: &Mutex<HashMap<String, String>>, fence: &Barrier) -> bool {
    let mut lines = BufReader::new(socket);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap_or(0) == 0 {
            return false;
        }
        let words: HashMap<&str, &str> = line
            .split_ascii_whitespace()
            .filter_map(|word| word.split_once('='))
            .collect();
        let answer = match words["cmd"] {
            "init" => "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0".into(),
            "get_my_kvsname" => "cmd=my_kvsname kvsname=test".into(),
            "put" => {
                let value = (words["key"].to_owned(), words["value"].to_owned());
                values.lock().unwrap().extend([value]);
                "cmd=put_result rc=0 msg=success".into()
            }
            "get" => match values.lock().unwrap().get(words["key"]) {
                Some(value) => format!("cmd=get_result rc=0 msg=success value={value}"),
                None => "cmd=get_result rc=-1 msg=unknown".into(),
            },
            "barrier_in" => {
                fence.wait();
                "cmd=barrier_out rc=0".into()
            }
            "finalize" => "cmd=finalize_ack rc=0".into(),
            other => panic!("no task asks {other}"),
        };
        lines
            .get_mut()
            .write_all(format!("{answer}\n").as_bytes())
            .unwrap();
        if words["cmd"] == "finalize" {
            return true;
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The sorted lines of the job, which task 0 prints.
#[track_caller]
fn lines(outputs: &[Output]) -> Vec<String> {
    for (task, output) in outputs.iter().enumerate() {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "task {task}: {said}");
        assert!(task == 0 || output.stdout.is_empty(), "task {task}");
    }
    let mut lines: Vec<_> = text(&outputs[0].stdout)
        .lines()
        .map(str::to_owned)
        .collect();
    lines.sort_unstable();
    lines
}

// REC-4 REC-8
#[test]
fn tasks_of_other_launchers_are_ranks_that_come_back() {
    let Some(it) = installed("tests/programs/groups.c") else {
        return;
    };
    let places = [&["a", "a", "a"][..], &["a", "b", "a"], &["a", "b", "c"]];
    let expected = lines(&run(&it.program, places[0], "--protocol none"));
    assert_eq!(expected.len(), 3);
    for hosts in places {
        let killed = run(&it.program, hosts, "--kill 1@clock=40");
        assert_eq!(lines(&killed), expected, "{hosts:?}");
        let said = text(&killed[0].stderr);
        assert!(said.contains("rank 1 was killed"), "{hosts:?}: {said}");
    }
}

#[test]
fn a_job_that_cannot_start_ends_all_tasks() {
    let Some(it) = installed("tests/programs/groups.c") else {
        return;
    };
    for (options, words) in [
        ("--protocol nothing", "unknown protocol"),
        ("--host x,y", "another launcher has placed the tasks"),
        ("--fabric shm", "shm"),
    ] {
        let outputs = run(&it.program, &["a", "b"], options);
        let said = text(&outputs[0].stderr);
        assert_eq!(outputs[0].status.code(), Some(2), "{options}: {said}");
        assert!(said.contains(words), "{options}: {said}");
        assert_eq!(outputs[1].status.code(), Some(0), "{options}");
    }
}

#[test]
fn a_task_can_stay_what_it_is() {
    let Some(it) = installed("tests/programs/arguments.c") else {
        return;
    };
    let mut command = Command::new(it.program.path());
    command.env("REFRAIN_DIRECT_START", "off");
    for (name, value) in [("PMI_FD", "40"), ("PMI_RANK", "0"), ("PMI_SIZE", "2")] {
        command.env(name, value);
    }
    let ended = built::end(&mut command);
    assert!(
        ended.err.contains("another launcher has started several"),
        "{}",
        ended.err
    );
    // A descriptor that is not open.
    let ended = built::end(command.env_remove("REFRAIN_DIRECT_START"));
    assert!(
        ended.err.contains("PMI_FD is 40, which is not open"),
        "{}",
        ended.err
    );
    assert!(ended.err.contains("jobs of one rank"), "{}", ended.err);
}
