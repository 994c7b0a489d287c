//! Real sweeps: this program starts itself as the driver, which starts it again as ranks.
//! Arguments select scenarios.

use clap::Parser;
use miette::IntoDiagnostic;
use refrain_bench::netpipe::{self, Arguments};
use refrain_eventlog::client::ServerAddress;
use refrain_eventlog::server::{Server, ServerOptions};
use refrain_eventlog::{Level, LoggerId};
use refrain_job::choice::provider;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use signal_hook::consts::SIGTERM;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

const SCENARIOS: &[(&str, fn())] = &[
    ("every_size_and_protocol_has_its_line", lines),
    ("every_mode_delivers_what_was_sent", modes),
    ("over_ofi_every_mode_delivers_what_was_sent", modes_over_ofi),
    ("a_small_log_is_freed_in_time", small_log),
    (
        "a_log_beyond_its_memory_goes_to_disk_in_every_mode",
        spilling,
    ),
    ("one_fabric_by_two_names_is_refused", one_fabric_twice),
    ("an_interrupt_prints_what_was_measured", interrupted),
    ("a_killed_rank_is_reported", killed),
    ("wrong_options_are_one_error", wrong_options),
];

fn main() -> ExitCode {
    let mut words = std::env::args();
    let result = match words.nth(1).as_deref() {
        Some("netpipe-rank") => netpipe::rank_main(),
        Some("eventlogger") => event_logger(EventLogger::parse_from(words_behind(words))),
        Some("netpipe-driver") => {
            let line = std::iter::once("netpipe".into()).chain(words);
            netpipe::run(Line::parse_from(line).arguments)
        }
        _ => return scenarios(),
    };
    result.unwrap_or_else(|report| {
        eprintln!("{report:?}");
        ExitCode::FAILURE
    })
}

fn words_behind(words: std::env::Args) -> impl Iterator<Item = String> {
    std::iter::once("eventlogger".into()).chain(words)
}

/// Command lines of processes that launchers start besides ranks, for protocols that log events.
#[derive(Parser)]
struct EventLogger {
    folder: PathBuf,
    #[arg(long)]
    listen: Vec<ServerAddress>,
    #[arg(long)]
    logger: u32,
    #[arg(long)]
    level: String,
    #[arg(long = "continue")]
    continues: bool,
}

fn event_logger(arguments: EventLogger) -> miette::Result<ExitCode> {
    assert_eq!(arguments.level, "placed", "the sweeps' default");
    let logger = LoggerId(arguments.logger);
    let mut options = ServerOptions::new(arguments.folder, logger, Level::Placed);
    options.listen = arguments.listen;
    options.continues = arguments.continues;
    let (stop, signalled) = UnixStream::pair().into_diagnostic()?;
    signal_hook::low_level::pipe::register(SIGTERM, signalled).into_diagnostic()?;
    let mut server = Server::bind(options, |text: &str| eprintln!("{text}")).into_diagnostic()?;
    server.serve_until(&stop).into_diagnostic()?;
    Ok(ExitCode::SUCCESS)
}

/// Parses the options of the usual test harness, as `cargo test` and nextest pass them.
fn scenarios() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    // The only option whose value is a separate word.
    if let Some(place) = words.iter().position(|word| word == "--format") {
        words.drain(place..words.len().min(place + 2));
    }
    let has = |option: &str| words.iter().any(|word| word == option);
    let filters: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let (listing, exact) = (has("--list"), has("--exact"));
    if has("--ignored") {
        return ExitCode::SUCCESS;
    }
    for (name, scenario) in SCENARIOS {
        let chosen = |filter: &&String| {
            if exact {
                filter.as_str() == *name
            } else {
                name.contains(filter.as_str())
            }
        };
        if !filters.is_empty() && !filters.iter().any(chosen) {
            continue;
        }
        if listing {
            println!("{name}: test");
            continue;
        }
        scenario();
        assert!(ranks().is_empty(), "{name}: ranks are left");
        println!("test {name} ... ok");
    }
    ExitCode::SUCCESS
}

/// Environment variable of all processes that this process starts: scenarios may run at the same
/// time, each in its own process.
const SCENARIO_VARIABLE: &str = "REFRAIN_SWEEP_SCENARIO";

fn driver(options: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command
        .arg("netpipe-driver")
        .env(SCENARIO_VARIABLE, std::process::id().to_string())
        .args(options.split_whitespace())
        .args(["--log-memory", "8M"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a sweep that must succeed; returns its output and the lines of its JSON.
fn sweep(options: &str) -> (Output, Vec<serde_json::Value>) {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("a.json");
    let output = driver(options)
        .arg("--json")
        .arg(&json)
        .output()
        .expect("the driver starts");
    assert!(
        output.status.success(),
        "{options}: {}\n{}",
        output.status,
        text(&output.stderr)
    );
    (output, read_json(&json))
}

fn read_json(path: &Path) -> Vec<serde_json::Value> {
    fs::read_to_string(path)
        .unwrap_or_default()
        .lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect()
}

/// Processes of this executable that are ranks, started by this process.
fn ranks() -> Vec<i32> {
    let own: PathBuf = std::env::current_exe().expect("this program");
    let mark = format!("{SCENARIO_VARIABLE}={}", std::process::id());
    let holds = |file: String, wanted: &str| {
        fs::read(file).is_ok_and(|words| {
            words
                .split(|byte| *byte == 0)
                .any(|word| word == wanted.as_bytes())
        })
    };
    let processes = fs::read_dir("/proc").expect("/proc").flatten();
    processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == own))
        .filter(|pid| holds(format!("/proc/{pid}/cmdline"), "netpipe-rank"))
        .filter(|pid| holds(format!("/proc/{pid}/environ"), &mark))
        .collect()
}

fn lines() {
    let folder = tempfile::tempdir().expect("a folder");
    let plot = folder.path().join("a.svg");
    let options = format!(
        "--max 70K --time-per-size 0.01 --rounds 2 --plot {}",
        plot.display()
    );
    let (output, lines) = sweep(&options);
    for protocol in ["none", "pessimist"] {
        let sizes: Vec<u64> = lines
            .iter()
            .filter(|line| line["protocol"] == protocol)
            .map(|line| line["bytes"].as_u64().expect("a size"))
            .collect();
        assert_eq!(sizes.first(), Some(&1));
        assert!(sizes.contains(&65_539) && sizes.contains(&(70 << 10)));
        assert!(sizes.is_sorted());
    }
    for line in &lines {
        assert_eq!(line["fabric"], "shm");
        let p50 = line["half_rtt_us_p50"].as_f64().expect("a time");
        let p99 = line["half_rtt_us_p99"].as_f64().expect("a time");
        assert!(p50 > 0.0 && p99 >= p50, "{line}");
        assert!(line["repeats"].as_u64() >= Some(6), "{line}");
        let compared = line["overhead_vs_none"].is_f64();
        assert_eq!(compared, line["protocol"] == "pessimist");
    }
    let table = text(&output.stdout);
    assert!(table.contains("÷ none") && table.contains("64K"), "{table}");
    assert!(!table.contains("65539"));
    assert!(fs::read_to_string(&plot).is_ok_and(|plot| plot.contains("pessimist")));
}

fn modes() {
    for receive in ["named", "any"] {
        for (option, mode) in [
            ("", "ping-pong"),
            ("--bidirectional", "bidirectional"),
            ("--stream", "stream"),
        ] {
            let options = format!(
                "--min 3 --max 200K --perturbation 0 --time-per-size 0.004 --rounds 2 --receive {receive} {option}"
            );
            let (_, lines) = sweep(&options);
            assert!(!lines.is_empty());
            for line in lines {
                assert_eq!(line["mode"], mode);
                assert_eq!(line["receive"], receive);
            }
        }
    }
}

/// Runs short and long messages on each available libfabric.
fn modes_over_ofi() {
    let installed = provider::installed(None).map(|_| "libfabric.so.1".to_owned());
    let second = std::env::var("REFRAIN_LIBFABRIC_SECOND");
    let libraries = [
        installed.map_err(|error| format!("the installed libfabric: {error}")),
        second.map_err(|_| "the second libfabric: REFRAIN_LIBFABRIC_SECOND is not set".into()),
    ];
    for library in libraries {
        let library = match library {
            Ok(library) => library,
            Err(reason) => {
                println!("skipped a sweep over {reason}");
                continue;
            }
        };
        for mode in ["", "--bidirectional", "--stream"] {
            let options = format!(
                "--libfabric {library} --fabric ofi:tcp,ofi:shm --min 3 --max 200K \
                 --perturbation 0 --time-per-size 0.004 --rounds 2 {mode}"
            );
            let (output, lines) = sweep(&options);
            for fabric in ["ofi:tcp", "ofi:shm"] {
                for protocol in ["none", "pessimist"] {
                    let is_of =
                        |line: &&Value| line["fabric"] == fabric && line["protocol"] == protocol;
                    let count = lines.iter().filter(is_of).count();
                    assert!(count > 30, "{fabric} {protocol}: {count} sizes");
                    let name = format!("{fabric} {protocol}");
                    assert!(text(&output.stdout).contains(&name), "{name}");
                }
            }
        }
    }
}

/// Two names of one fabric would give two lines with one name. This is detected only when ranks
/// have joined.
fn one_fabric_twice() {
    let output = driver("--fabric shm,auto --max 64")
        .output()
        .expect("the driver starts");
    let said = text(&output.stderr);
    assert!(said.contains("`shm` is measured twice"), "{said}");
    assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
}

/// Sends many times the log's 8 MiB.
fn small_log() {
    let options = "--protocol pessimist --min 1M --max 1M --perturbation 0 --rounds 2";
    goes_through_its_log(options, 16);
    goes_through_its_log(&format!("{options} --stream"), 4);
}

/// Sends more than a number of messages, with more time on a busy machine.
#[track_caller]
fn goes_through_its_log(options: &str, messages: u64) {
    let mut lines = Vec::new();
    for seconds in ["0.2", "1", "5", "25"] {
        lines = sweep(&format!("{options} --time-per-size {seconds}")).1;
        if lines[0]["repeats"].as_u64() > Some(messages) {
            return;
        }
    }
    panic!("not more than {messages} repeats: {lines:?}");
}

/// Sends four times the log's 8 MiB between two horizons. LOG-3
fn spilling() {
    for mode in ["", "--bidirectional", "--stream"] {
        let folder = tempfile::tempdir().expect("a folder");
        let options = format!(
            "--spill-dir {} --spill-after 0 --min 300K --max 1M --perturbation 0 \
             --time-per-size 0.2 --rounds 2 {mode}",
            folder.path().display()
        );
        let (output, lines) = sweep(&options);
        assert!(text(&output.stdout).contains("÷ target"));
        for line in &lines {
            let number = |name: &str| line[name].as_f64();
            if line["protocol"] == "none" {
                assert_eq!(number("log_part_on_disk"), None);
                continue;
            }
            assert!(number("log_part_on_disk") > Some(0.0), "{line}");
            assert!(number("disk_bytes_per_s") > Some(0.0), "{line}");
            assert!(number("of_target") > Some(0.0), "{line}");
            let per_byte = number("log_bytes_per_payload_byte");
            assert!(per_byte > Some(1.0) && per_byte <= Some(1.05), "{line}");
            // Memory stays within the budget.
            assert!(
                number("log_memory_peak_bytes") <= Some(f64::from(8 << 20)),
                "{line}"
            );
        }
        let left = fs::read_dir(folder.path()).expect("it is there").count();
        assert_eq!(left, 0, "files are left{mode}");
    }
}

/// A sweep that takes a minute, with its first size measured.
fn long_sweep(json: &Path) -> Child {
    let mut child = driver("--max 1M --time-per-size 0.5")
        .arg("--json")
        .arg(json)
        .spawn()
        .expect("the driver starts");
    while read_json(json).is_empty() {
        assert_eq!(child.try_wait().expect("a child"), None, "ended early");
        std::thread::yield_now();
    }
    child
}

fn interrupted() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = long_sweep(&folder.path().join("a.json"));
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("a child");
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("pessimist"));
    assert_eq!(text(&output.stderr), "interrupted\n");
}

fn killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let child = long_sweep(&folder.path().join("a.json"));
    let rank = ranks()[0];
    kill_process(Pid::from_raw(rank).expect("a process"), Signal::KILL).expect("it runs");
    let output = child.wait_with_output().expect("a child");
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("rank") && said.contains("protocol"), "{said}");
    assert!(text(&output.stdout).contains("pessimist"));
}

fn wrong_options() {
    for (options, words) in [
        ("--fabric myrinet", "auto, shm"),
        ("--fabric shm,myrinet", "myrinet"),
        ("--protocol optimist", "none, pessimist"),
        ("--min 0", "--min"),
        ("--max 1G", "--log-memory"),
    ] {
        let output = driver(options).output().expect("the driver starts");
        assert_eq!(output.status.code(), Some(2), "{options}");
        let said = text(&output.stderr);
        assert!(said.contains(words), "{options}: {said}");
    }
}
