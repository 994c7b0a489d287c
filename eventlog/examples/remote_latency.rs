//! Measures the latency of one-sided commits, and their rate.
//!
//! ```text
//! cargo run --release -p refrain-eventlog --example remote_latency -- [--library FILE] PROVIDER...
//! ```
//!
//! The logger is another process. It either sleeps until its provider wakes it,
//! as the server does, or polls continuously, as a NIC would.

use refrain_eventlog::LoggerId;
use refrain_eventlog::message::RemoteRing;
use refrain_eventlog::remote::{Delivery, RemoteRings, RemoteWriter, VERBS};
use refrain_eventlog::ring::{Cursor, RingIdentity, RingMemory};
use refrain_logging::determinant::EventIndex;
use refrain_ring::{Incarnation, Rank};
use refrain_verbs::PortChoice;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const WARM_UP: usize = 200;
const COMMITS: usize = 20_000;
const STREAM: Duration = Duration::from_millis(500);
/// Timeout for one commit, and for one provider.
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Outcome {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [role, provider, library, ring, way] = &arguments[..]
        && role == "serve"
    {
        return serve(provider, Path::new(library), Path::new(ring), way == "busy");
    }
    let mut library = PathBuf::from("libfabric.so.1");
    if arguments.first().is_some_and(|word| word == "--library") {
        library = arguments.get(1).ok_or("--library FILE")?.into();
        arguments.drain(..2);
    }
    println!("provider       logger   64 B: median     p99  64 B/s    4 KiB: median  4 KiB/s");
    for provider in &arguments {
        for way in ["sleeps", "busy"] {
            match measure(provider, &library, way) {
                Ok(line) => println!("{provider:14} {way:7}  {line}"),
                Err(error) => println!("{provider:14} {way:7}  skipped: {error}"),
            }
        }
    }
    Ok(())
}

fn measure(provider: &str, library: &Path, way: &str) -> Outcome<String> {
    let ring = std::env::temp_dir().join(format!("remote-latency-{}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(&ring)?;
    let identity = RingIdentity {
        job: 0,
        rank: Rank(0),
        incarnation: Incarnation(0),
        logger: LoggerId(0),
        start: EventIndex(0),
    };
    RingMemory::create(&file, &identity)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["serve", provider])
        .args([library, &ring])
        .arg(way)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let result = measure_with(&mut child, library);
    // The logger ends when its standard input ends.
    drop(child.stdin.take());
    child.wait()?;
    std::fs::remove_file(&ring)?;
    result
}

fn measure_with(child: &mut Child, library: &Path) -> Outcome<String> {
    let mut line = String::new();
    let from = child.stdout.as_mut().ok_or("no output of the logger")?;
    BufReader::new(from).read_line(&mut line)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let [provider, base, key, address] = words[..] else {
        return Err("the logger does not open it".into());
    };
    let octets: Result<Vec<u8>, _> = address.split(',').map(str::parse).collect();
    let remote = RemoteRing {
        provider: provider.to_owned(),
        base: base.parse()?,
        key: key.parse()?,
        address: octets?,
    };
    // Also for providers that are not trusted: this only measures.
    let delivery = Delivery::Honoured;
    let mut writer = RemoteWriter::open(
        library_file(provider, library),
        provider,
        &PortChoice::default(),
        &remote,
        delivery,
    )?;
    let (median, p99) = round_trips(&mut writer, 64)?;
    let small = stream(&mut writer, 64)?;
    let (median_long, _) = round_trips(&mut writer, 4096)?;
    let long = stream(&mut writer, 4096)?;
    Ok(format!(
        "{median:>9.2} µs {p99:>7.2} {small:>8.0} {median_long:>12.2} µs {long:>8.0}"
    ))
}

/// The library's file; for libibverbs the installed one.
fn library_file<'a>(provider: &str, library: &'a Path) -> Option<&'a Path> {
    (provider != VERBS).then_some(library)
}

/// Median and 99th percentile of the time from a write to its acknowledgement.
fn round_trips(writer: &mut RemoteWriter, bytes: usize) -> Outcome<(f64, f64)> {
    let batch = vec![1; bytes];
    let mut took_ns = Vec::with_capacity(COMMITS);
    let begin = Instant::now();
    for index in 0..WARM_UP + COMMITS {
        let start = Instant::now();
        while writer.write(&batch)?.is_err() {
            writer.consumed(writer.position())?;
        }
        while writer.poll()? < writer.position() {
            if start.elapsed() > PATIENCE {
                return Err("a commit does not come to its end".into());
            }
        }
        writer.consumed(writer.position())?;
        if index >= WARM_UP {
            took_ns.push(start.elapsed().as_nanos() as u64);
        }
        // Sleeps of a millisecond need fewer samples.
        if begin.elapsed() > PATIENCE / 5 && took_ns.len() > 500 {
            break;
        }
    }
    took_ns.sort_unstable();
    let at = |share: usize| took_ns[(took_ns.len() - 1) * share / 100] as f64 / 1000.0;
    Ok((at(50), at(99)))
}

/// Commits per second while the ring is kept full.
fn stream(writer: &mut RemoteWriter, bytes: usize) -> Outcome<f64> {
    let batch = vec![2; bytes];
    let start = Instant::now();
    let mut count = 0_u64;
    while start.elapsed() < STREAM {
        if writer.write(&batch)?.is_ok() {
            count += 1;
        }
        let placed: Cursor = writer.poll()?;
        writer.consumed(placed)?;
    }
    while writer.poll()? < writer.position() {
        if start.elapsed() > PATIENCE {
            return Err("the commits do not come to their end".into());
        }
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// Runs the logger until its standard input ends.
fn serve(provider: &str, library: &Path, ring: &Path, is_busy: bool) -> Outcome {
    let file = File::options().read(true).write(true).open(ring)?;
    let memory = RingMemory::open(&file)?;
    let mut rings = RemoteRings::open(
        provider,
        library_file(provider, library),
        &PortChoice::default(),
        1,
    )?;
    let (_, remote) = rings.register(&memory)?;
    let octets: Vec<String> = remote.address.iter().map(u8::to_string).collect();
    let (base, key) = (remote.base, remote.key);
    println!("{} {base} {key} {}", remote.provider, octets.join(","));
    std::io::stdout().flush()?;
    let stdin = std::io::stdin();
    let mut turns = 0_u32;
    loop {
        rings.progress()?;
        turns = turns.wrapping_add(1);
        if is_busy && !turns.is_multiple_of(1024) {
            continue;
        }
        let limit = match rings.sleep_max() {
            _ if is_busy => Some(Duration::ZERO),
            limit => limit,
        };
        let limit = limit.map(Timespec::try_from).transpose()?;
        let mut wanted = vec![PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN)];
        let descriptor = rings.descriptor();
        wanted.extend(descriptor.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        poll(&mut wanted, limit.as_ref())?;
        if !wanted[0].revents().is_empty() {
            return Ok(());
        }
    }
}
