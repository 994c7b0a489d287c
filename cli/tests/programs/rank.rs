//! A rank for the launcher's tests: executes its arguments in order.
//!
//! Only rank N executes `N:step`, only a rank's first life `first:step`, and only later lives
//! `later:step`. Steps that use the control plane join the job first. Numbers and texts of a step
//! follow it after `=`.

mod lives;

use refrain::Error;
use refrain_job::JobError;
use refrain_job::control::ControlPlane;
use refrain_job::control::message::ToLauncher;
use std::fs::File;
use std::io::{Read, Write, stdout};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio, exit};
use std::thread;
use std::time::Duration;

/// Exit status of a failed step, after its error was printed.
const FAILED: i32 = 9;

fn main() {
    let own: Option<u32> = std::env::var("REFRAIN_RANK")
        .ok()
        .and_then(|rank| rank.parse().ok());
    let mut control = None;
    for argument in std::env::args().skip(1) {
        let mut step = argument.as_str();
        let mut is_meant = true;
        while let Some((who, rest)) = step.split_once(':') {
            is_meant &= match who {
                "first" => !lives::is_later(&mut control),
                "later" => lives::is_later(&mut control),
                rank => rank.parse().ok() == own,
            };
            step = rest;
        }
        if !is_meant {
            continue;
        }
        let (name, value) = step.split_once('=').unwrap_or((step, ""));
        if let Err(error) = act(&mut control, name, value) {
            println!("{name} failed: {}", chain(&error));
            exit(FAILED);
        }
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", chain(cause)),
        None => error.to_string(),
    }
}

fn joined(control: &mut Option<ControlPlane>) -> Result<&mut ControlPlane, JobError> {
    if control.is_none() {
        *control = ControlPlane::from_environment()?;
    }
    Ok(control
        .as_mut()
        .expect("the tests start it with a launcher"))
}

fn act(control: &mut Option<ControlPlane>, name: &str, value: &str) -> Result<(), Error> {
    match name {
        "hello" => say_hello(joined(control)?),
        "put" => joined(control)?.put(value, format!("value of {value}").as_bytes(), None)?,
        "get" => {
            let (bytes, memory) = joined(control)?.get(value)?;
            assert!(memory.is_none());
            println!("{value} is {:?}", String::from_utf8_lossy(&bytes));
        }
        "exchange" => exchange(joined(control)?, value.parse().expect("a number"))?,
        "fence" => joined(control)?.fence()?,
        "check-until-stopped" => check_until_stopped(joined(control)?),
        "finalize" => joined(control)?.report(&ToLauncher::Finalize)?,
        "flood" => flood(value)?,
        "answers" => answers(value)?,
        "abort" => joined(control)?.abort(value),
        "garbage" => {
            let control = joined(control)?;
            rustix::io::write(control.as_fd(), b"GET / HTTP/1.1\r\n\r\n")
                .expect("the launcher listens");
        }
        "join-again" => drop(ControlPlane::from_environment()?),
        "child-joins" => {
            let me = std::env::current_exe().expect("it runs");
            let child = Command::new(me).arg("hello").output().expect("it starts");
            print!("child: {}", String::from_utf8_lossy(&child.stdout));
        }
        other if lives::act(control, other, value)? => {}
        other => alone(other, value),
    }
    Ok(())
}

/// Steps that need no launcher.
#[allow(
    clippy::zombie_processes,
    reason = "the tests see to it that the launcher ends grandchildren"
)]
fn alone(name: &str, value: &str) {
    match name {
        "say" => println!("{value}"),
        "complain" => eprintln!("{value}"),
        "mutter" => {
            print!("{value}");
            stdout().flush().expect("somebody reads");
        }
        "lines" => (0..value.parse::<u32>().expect("a number"))
            .for_each(|i| println!("line {i} {}", "x".repeat(90))),
        "long" => {
            print!("{}", "x".repeat(value.parse().expect("a number")));
            stdout().flush().expect("somebody reads");
        }
        "process" => println!("process {}", std::process::id()),
        "chatter" => while writeln!(stdout(), "again and again").is_ok() {},
        "exit" => exit(value.parse().expect("a number")),
        "kill-myself" => {
            let number = value.parse().expect("a number");
            let signal = rustix::process::Signal::from_named_raw(number).expect("a signal");
            // Twice for SIGSEGV: the runtime's handler takes the first signal.
            loop {
                rustix::process::kill_process(rustix::process::getpid(), signal)
                    .expect("one may kill oneself");
            }
        }
        "hang" => hang(),
        "ignore-term" => ignore(signal_hook::consts::SIGTERM),
        "ignore-interrupt" => ignore(signal_hook::consts::SIGINT),
        "grandchild" => {
            let child = Command::new("sleep")
                .arg("1000")
                .stdin(Stdio::null())
                .spawn()
                .expect("there is sleep");
            println!("grandchild {}", child.id());
        }
        "escape" => {
            // A grandchild that leaves the process group and holds the pipes open.
            let child = Command::new("setsid")
                .args(["sleep", "1000"])
                .stdin(Stdio::null())
                .spawn()
                .expect("setsid");
            // Before that it would be killed with this rank.
            let id = rustix::process::Pid::from_child(&child);
            while rustix::process::getpgid(Some(id)) != Ok(id) {
                thread::yield_now();
            }
            println!("grandchild {}", child.id());
        }
        "environment" => {
            let get = |name| std::env::var(name).unwrap_or_default();
            println!("{} of {}", get("REFRAIN_RANK"), get("REFRAIN_SIZE"));
        }
        "affinity" => {
            let cores = rustix::thread::sched_getaffinity(None).expect("it can be asked");
            let cores: Vec<usize> = (0..1024).filter(|core| cores.is_set(*core)).collect();
            println!("cores {cores:?}");
        }
        "descriptors" => {
            let listed = std::fs::read_dir("/proc/self/fd").expect("proc is there");
            // The folder itself is open while it is listed.
            println!("{} descriptors", listed.count() - 1);
        }
        "holds" => {
            let (name, expected) = value.split_once('/').expect("a name and what is behind it");
            let number = std::env::var(name).expect("the variable is set");
            let text =
                std::fs::read_to_string(format!("/proc/self/fd/{number}")).expect("it is open");
            assert_eq!(text, expected);
        }
        "lacks" => assert!(std::env::var(value).is_err()),
        "stdin" => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).expect("text");
            println!("stdin {text:?}");
        }
        "read" => read_input(value.parse().expect("a number")),
        "signals" => signals(),
        other => panic!("there is no step {other:?}"),
    }
}

/// Reads a number of bytes, or up to the end, and nothing ahead.
fn read_input(wanted: usize) {
    let mut bytes = vec![0; wanted];
    let mut count = 0;
    while count < wanted {
        match rustix::io::read(rustix::stdio::stdin(), &mut bytes[count..]) {
            Ok(0) => break,
            Ok(read) => count += read,
            Err(error) => panic!("{error}"),
        }
    }
    let last = bytes[..count].rsplitn(2, |byte| *byte == b' ').next();
    let last = String::from_utf8_lossy(last.expect("a part"));
    let sum: u64 = bytes
        .iter()
        .zip(1..)
        .map(|(byte, place)| u64::from(*byte) * place)
        .sum();
    println!("read {count} bytes, sum {sum}, last {last}");
}

/// Rank 0 sends a number of messages of 64 KiB to rank 1, which no checkpoint frees; it prints a
/// line for every hundredth.
fn flood(count: &str) -> Result<(), Error> {
    let count: u32 = count.parse().expect("a number");
    let mut world = refrain::World::init()?;
    let mut buffer = vec![0; 64 << 10];
    for number in 0..count {
        match world.rank().0 {
            0 => {
                buffer[..4].copy_from_slice(&number.to_le_bytes());
                world.send(&buffer, refrain::to(1))?;
            }
            1 => {
                world.recv(&mut buffer, refrain::from(0))?;
                assert_eq!(buffer[..4], number.to_le_bytes());
            }
            _ => {}
        }
        if number % 100 == 0 {
            let verb = ["sent", "received"][world.rank().0.min(1) as usize];
            println!("{verb} {number}");
        }
    }
    println!("flooded");
    world.finalize()
}

/// Two ranks answer each other; each receive is from any source.
fn answers(count: &str) -> Result<(), Error> {
    let count: u32 = count.parse().expect("a number");
    let mut world = refrain::World::init()?;
    let other = 1 - world.rank().0;
    let mut buffer = [0; 8];
    for number in 0..count {
        if (number + other) % 2 == 0 {
            world.recv(&mut buffer, refrain::from_any())?;
            assert_eq!(buffer[..4], number.to_le_bytes());
        } else {
            buffer[..4].copy_from_slice(&number.to_le_bytes());
            world.send(&buffer, refrain::to(other))?;
        }
    }
    world.finalize()
}

fn say_hello(control: &mut ControlPlane) {
    println!(
        "rank {} of {}, fabric {}, {} on host",
        control.rank(),
        control.size(),
        control.config().fabric,
        control.config().ranks_on_host
    );
}

/// Each rank puts an address with memory, and reads those of all other ranks.
fn exchange(control: &mut ControlPlane, rounds: u32) -> Result<(), JobError> {
    let (rank, size) = (control.rank().0, control.size());
    for round in 0..rounds {
        let mut file = File::from(
            rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).expect("memory"),
        );
        write!(file, "memory of {rank} in {round}").expect("it fits");
        control.put(
            &format!("{round}/{rank}"),
            &[rank as u8; 100],
            Some(file.as_fd()),
        )?;
        for peer in 0..size {
            let (bytes, memory) = control.get(&format!("{round}/{peer}"))?;
            assert_eq!(bytes, [peer as u8; 100]);
            // All ranks share the offset of the file: read without moving it.
            let file = File::from(memory.expect("memory comes with it"));
            let mut text = [0; 64];
            let read = file.read_at(&mut text, 0).expect("it can be read");
            let text = String::from_utf8_lossy(&text[..read]);
            assert_eq!(text, format!("memory of {peer} in {round}"));
        }
        control.fence()?;
    }
    println!("exchanged");
    Ok(())
}

fn check_until_stopped(control: &mut ControlPlane) {
    println!("checking");
    loop {
        if let Err(error) = control.check() {
            println!("{error}");
            return;
        }
        thread::yield_now();
    }
}

/// Prints each signal that arrives, until SIGTERM.
fn signals() {
    use signal_hook::consts::{SIGCONT, SIGTERM, SIGUSR1, SIGUSR2};
    let mut signals = signal_hook::iterator::Signals::new([SIGUSR1, SIGUSR2, SIGCONT, SIGTERM])
        .expect("handlers");
    println!("listening");
    for signal in signals.forever() {
        println!(
            "got {}",
            signal_hook::low_level::signal_name(signal).unwrap_or("?")
        );
        if signal == SIGTERM {
            return;
        }
    }
}

/// Ignores a signal by a handler without effect.
fn ignore(signal: i32) {
    let flag = std::sync::Arc::default();
    signal_hook::flag::register(signal, flag).expect("a handler");
}

fn hang() {
    loop {
        thread::sleep(Duration::from_secs(1000));
    }
}
