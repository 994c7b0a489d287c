//! `--status-file` and `--metrics`: the state of a job for other programs.

use super::Job;
use super::glance::{Glance, Turn};
use super::outcome::Outcome;
use refrain_job::JobError;
use refrain_job::machine::unix_ns;
use refrain_job::stderr::report;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// Time between two lines of the file, and two questions to ranks.
const EVERY: Duration = Duration::from_secs(1);
/// Time limit of a reader of metrics for each step.
const READER_MAX: Duration = Duration::from_secs(2);
/// Maximum number of readers at a time; others are turned away.
const READERS_MAX: usize = 8;
/// Maximum length of a request.
const REQUEST_BYTES_MAX: usize = 8 << 10;

/// Outputs of the state of a job.
#[derive(Clone, Debug, Default)]
pub struct MonitorSpec {
    /// A line of JSON is appended to this file each second, and one at the end.
    pub status_file: Option<PathBuf>,
    /// Address at which the state can be read by HTTP, as text for Prometheus.
    pub metrics: Option<SocketAddr>,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Monitor {
    begin: Instant,
    turn: Turn,
    file: Option<(File, PathBuf)>,
    metrics: Option<TcpListener>,
    /// Each reader has a copy.
    readers: Arc<()>,
}

impl Monitor {
    /// Opens file and port. `None`: there are none.
    ///
    /// # Errors
    /// [`JobError::Config`].
    pub(super) fn open(spec: &MonitorSpec) -> Result<Option<Self>, JobError> {
        let file = match &spec.status_file {
            None => None,
            Some(path) => {
                // A pipe without a reader is refused instead of waited for.
                let nonblocking = rustix::fs::OFlags::NONBLOCK.bits() as i32;
                let mut options = OpenOptions::new();
                let options = options.append(true).create(true).custom_flags(nonblocking);
                let opened = options.open(path).map_err(|error| {
                    JobError::Config(format!(
                        "--status-file {}: cannot be opened: {error}",
                        path.display()
                    ))
                })?;
                Some((opened, path.clone()))
            }
        };
        let metrics = spec.metrics.map(listen).transpose()?;
        let now = Instant::now();
        Ok((file.is_some() || metrics.is_some()).then(|| Self {
            begin: now,
            turn: Turn::at(now + EVERY),
            file,
            metrics,
            readers: Arc::default(),
        }))
    }

    /// When the next step is due.
    pub(super) fn next(&self) -> Instant {
        self.turn.next_step()
    }

    /// Readable when there is a reader of metrics.
    pub(super) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.metrics.as_ref()?.as_fd())
    }

    /// Where metrics are read.
    fn address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref()?.local_addr().ok()
    }

    fn write(&mut self, state: &Value) {
        if let Some((file, path)) = &mut self.file
            && let Err(error) = file.write_all(format!("{state}\n").as_bytes())
        {
            report(format_args!(
                "--status-file {}: cannot be written, and gets no more lines: {error}",
                path.display()
            ));
            self.file = None;
        }
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, JobError> {
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        report(format_args!(
            "metrics of the job at http://{}/metrics",
            listener.local_addr()?
        ));
        io::Result::Ok(listener)
    };
    listen().map_err(|error| {
        JobError::Config(format!(
            "--metrics {address}: {error}: choose a free port of this host"
        ))
    })
}

impl Job {
    /// Asks ranks for their status and writes a line, if it is time.
    pub(super) fn step_monitor(&mut self) {
        let Some(mut monitor) = self.monitor.take() else {
            return;
        };
        let now = Instant::now();
        if monitor.turn.must_ask(now) {
            self.ask_for_statuses();
        }
        if monitor.turn.is_due(now) {
            monitor.turn = Turn::at(now + EVERY);
            let mut state = json_of(&self.glance(monitor.begin, now));
            state["metrics"] = json!(monitor.address());
            monitor.write(&state);
        }
        self.monitor = Some(monitor);
    }

    /// Answers readers of metrics.
    pub(super) fn answer_readers(&mut self) {
        let Some(monitor) = &self.monitor else { return };
        let listener = monitor.metrics.as_ref();
        while let Some(Ok((reader, _))) = listener.map(TcpListener::accept) {
            if Arc::strong_count(&monitor.readers) > READERS_MAX {
                continue;
            }
            let counted = Arc::clone(&monitor.readers);
            let text = metrics_of(&self.glance(monitor.begin, Instant::now()));
            // A reader may be slow. If there can be no thread, it asks again.
            let _ = thread::Builder::new().spawn(move || {
                // Fails if the reader has closed the connection.
                let _ = answer(reader, &text);
                drop(counted);
            });
        }
    }

    /// Writes the last line.
    pub(super) fn monitor_end(&mut self, outcome: &Outcome) {
        if let Some(mut monitor) = self.monitor.take() {
            monitor.write(&json!({
                "time_unix_s": unix_ns() / 1_000_000_000,
                "seconds": monitor.begin.elapsed().as_secs(),
                "ended": true,
                "status": outcome.status,
                "failure": outcome.failure,
                "recoveries": self.recoveries.ended().len(),
                "introduced_pairs": self.introductions.pairs(self.lives.len()),
            }));
        }
    }
}

/// Answers one request.
fn answer(mut reader: TcpStream, text: &str) -> io::Result<()> {
    reader.set_nonblocking(false)?;
    reader.set_read_timeout(Some(READER_MAX))?;
    reader.set_write_timeout(Some(READER_MAX))?;
    let mut request = Vec::new();
    let mut bytes = [0; 1024];
    let give_up_at = Instant::now() + READER_MAX;
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = reader.read(&mut bytes)?;
        request.extend_from_slice(&bytes[..count]);
        if count == 0 || request.len() > REQUEST_BYTES_MAX || Instant::now() > give_up_at {
            return Ok(());
        }
    }
    let (status, text) = match request.starts_with(b"GET /metrics ") {
        true => ("200 OK", text),
        false => ("404 Not Found", "see /metrics\n"),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    reader.write_all(head.as_bytes())?;
    reader.write_all(text.as_bytes())
}

/// Ranks with their incarnations.
fn lives(ranks: &[(usize, u32)]) -> Value {
    let life =
        |(rank, incarnation): &(usize, u32)| json!({"rank": rank, "incarnation": incarnation});
    ranks.iter().map(life).collect()
}

/// A line of the status file.
fn json_of(glance: &Glance) -> Value {
    let logs = &glance.logs;
    json!({
        "time_unix_s": unix_ns() / 1_000_000_000,
        "seconds": glance.seconds,
        "ended": false,
        "running": glance.runs,
        "starting": lives(&glance.starts),
        "replaying": lives(&glance.replays),
        "left": glance.left,
        "recoveries": glance.recoveries,
        "introduced_pairs": glance.introduced_pairs,
        "ranks_with_checkpoint": glance.checkpoints.len(),
        "oldest_checkpoint_seconds": glance.checkpoints.iter().map(|(_, age)| age).max(),
        "log_memory_bytes": logs.memory_bytes,
        "log_disk_bytes": logs.disk_bytes,
        "fullest_log_bytes": logs.fullest.0,
        "fullest_log_bytes_max": logs.fullest.1,
        "log_lasts_seconds": glance.lasts_seconds,
        "protected": !glance.is_unprotected,
        "event_waits": logs.gate_waits,
        "event_wait_us": logs.gate_wait_us,
    })
}

/// The text for Prometheus (its exposition format 0.0.4).
fn metrics_of(glance: &Glance) -> String {
    let logs = &glance.logs;
    let (fullest_bytes, max_bytes) = logs.fullest;
    let fullest = (max_bytes > 0).then(|| fullest_bytes as f64 / max_bytes as f64);
    let oldest = glance.checkpoints.iter().map(|(_, age)| *age as f64);
    let oldest = oldest.reduce(f64::max);
    let is_protected = u8::from(!glance.is_unprotected);
    let figures = [
        (
            "job_seconds",
            "counter",
            "Age of the job.",
            Some(glance.seconds as f64),
        ),
        (
            "recoveries_total",
            "counter",
            "Ended recoveries of ranks.",
            Some(glance.recoveries as f64),
        ),
        (
            "introduced_pairs",
            "gauge",
            "Pairs of ranks that were introduced to each other.",
            Some(glance.introduced_pairs as f64),
        ),
        (
            "log_memory_bytes",
            "gauge",
            "Log memory in use, of all ranks.",
            Some(logs.memory_bytes as f64),
        ),
        (
            "log_disk_bytes",
            "gauge",
            "Bytes of the logs on disk.",
            Some(logs.disk_bytes as f64),
        ),
        (
            "log_fullest_ratio",
            "gauge",
            "Part in use of the fullest log memory of a rank.",
            fullest,
        ),
        (
            "protected",
            "gauge",
            "1: a killed rank continues; 0: a log was full.",
            Some(is_protected.into()),
        ),
        (
            "event_waits_total",
            "counter",
            "Sends that have waited for stable events.",
            Some(logs.gate_waits as f64),
        ),
        (
            "event_wait_seconds_total",
            "counter",
            "Time of these waits.",
            Some(logs.gate_wait_us as f64 / 1e6),
        ),
        (
            "oldest_checkpoint_age_seconds",
            "gauge",
            "Age of the oldest last checkpoint of a rank.",
            oldest,
        ),
    ];
    let mut text =
        "# HELP refrain_ranks Ranks by what they do.\n# TYPE refrain_ranks gauge\n".to_owned();
    for (state, count) in [
        ("running", glance.runs),
        ("starting", glance.starts.len()),
        ("replaying", glance.replays.len()),
        ("left", glance.left),
    ] {
        let _ = writeln!(text, "refrain_ranks{{state=\"{state}\"}} {count}");
    }
    for (name, kind, help, value) in figures {
        if let Some(value) = value {
            let _ = writeln!(
                text,
                "# HELP refrain_{name} {help}\n# TYPE refrain_{name} {kind}\nrefrain_{name} {value}"
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_have_one_type_and_value_each() {
        let glance = Glance {
            runs: 3,
            replays: vec![(1, 2)],
            checkpoints: vec![(1, 7), (2, 9)],
            ..Glance::default()
        };
        let text = metrics_of(&glance);
        assert!(
            text.contains("\nrefrain_ranks{state=\"running\"} 3\n"),
            "{text}"
        );
        assert!(
            text.contains("\nrefrain_ranks{state=\"replaying\"} 1\n"),
            "{text}"
        );
        assert!(
            text.contains("\nrefrain_oldest_checkpoint_age_seconds 9\n"),
            "{text}"
        );
        assert!(text.contains("\nrefrain_protected 1\n"), "{text}");
        let types: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE"))
            .collect();
        let mut unique = types.clone();
        unique.dedup();
        assert_eq!(types, unique);
    }
}
