//! The speed of a disk alone, of a log that spills to it, and of reading the log back, with
//! different settings.
//!
//! ```text
//! cargo bench -p refrain-bench --bench log_disk
//! REFRAIN_BENCH_DIR=/fast/disk cargo bench -p refrain-bench --bench log_disk -- disk
//! ```
//! Two folders: `tmpfs` is /dev/shm, `disk` is `REFRAIN_BENCH_DIR` or else the build's folder for
//! temporary files. Every sample uses a new file or log of 256 MiB. `alone`: blocks written with
//! direct I/O and through the page cache, with different numbers of writes in flight. `spill`: a
//! log appended, sealed and written. `read_back`: a log opened and read, with all checksums.

use clap::Parser;
use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use refrain_bench::disk::{self, Access, DiskFile, Load, Until};
use refrain_bench::interrupt::Interrupt;
use refrain_bench::log_bench::{Arguments, BenchFiles, append_and_spill, read_all};
use std::path::{Path, PathBuf};
use std::time::Duration;

const LOG_BYTES: u64 = 256 << 20;
const IN_FLIGHT: [usize; 5] = [1, 2, 4, 8, 16];

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn arguments(folder: &Path, options: &str) -> Arguments {
    let folder = folder.to_str().expect("a folder with an ordinary name");
    let line = format!("bench --size {LOG_BYTES} --log-memory 32M {options}");
    let words = line.split_whitespace().chain([folder]);
    Line::try_parse_from(words)
        .expect("options that exist")
        .arguments
}

fn folders() -> Vec<(&'static str, PathBuf)> {
    let disk = std::env::var_os("REFRAIN_BENCH_DIR")
        .map_or_else(|| env!("CARGO_TARGET_TMPDIR").into(), PathBuf::from);
    vec![("tmpfs", "/dev/shm".into()), ("disk", disk)]
}

/// The disk alone, with different numbers of writes in flight, with and without direct I/O.
fn alone(criterion: &mut Criterion, name: &str, folder: &Path) {
    let mut group = criterion.benchmark_group(format!("log_disk/{name}/alone"));
    group.throughput(Throughput::Bytes(LOG_BYTES));
    group.sampling_mode(SamplingMode::Flat);
    for (way_name, is_direct) in [("direct", true), ("buffered", false)] {
        for in_flight in IN_FLIGHT {
            let load = Load {
                access: Access::Write,
                in_flight,
                until: Until::Through,
            };
            let sample = || {
                let file = DiskFile::create(folder, LOG_BYTES, is_direct);
                let files = [file.expect("a file")];
                let done = disk::run(&files, folder, load, &Interrupt::default());
                Duration::from_secs_f64(done.expect("a disk that writes").seconds)
            };
            group.bench_function(BenchmarkId::new(way_name, in_flight), |bencher| {
                bencher.iter_custom(|times| (0..times).map(|_| sample()).sum());
            });
        }
    }
    group.finish();
}

/// A log that spills, with different disk engines, numbers of writes in flight, and thresholds.
fn spill(criterion: &mut Criterion, name: &str, folder: &Path) {
    let mut group = criterion.benchmark_group(format!("log_disk/{name}/spill"));
    group.throughput(Throughput::Bytes(LOG_BYTES));
    group.sampling_mode(SamplingMode::Flat);
    let counts = IN_FLIGHT.map(|count| {
        let options = format!("--spill-io uring --in-flight {count}");
        (format!("uring/{count}"), options)
    });
    let others = [
        ("plain/8", "--spill-io plain --in-flight 8"),
        (
            "uring/8/after_half",
            "--spill-io uring --in-flight 8 --spill-after 16M",
        ),
        (
            "uring/8/4K_messages",
            "--spill-io uring --in-flight 8 --message 4K",
        ),
    ];
    let others = others.map(|(id, options)| (id.to_owned(), options.to_owned()));
    for (id, options) in counts.into_iter().chain(others) {
        let arguments = arguments(folder, &options);
        let sample = || {
            let files = BenchFiles::new(folder, LOG_BYTES).expect("room on the disk");
            let appended = append_and_spill(&arguments, &files, &Interrupt::default());
            Duration::from_secs_f64(appended.expect("a disk that writes").spilled.seconds)
        };
        group.bench_function(id, |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| sample()).sum());
        });
    }
    group.finish();
}

/// Reads the same log repeatedly: the host's cache of the disk speeds this up.
fn read_back(criterion: &mut Criterion, name: &str, folder: &Path) {
    let mut group = criterion.benchmark_group(format!("log_disk/{name}/read_back"));
    group.throughput(Throughput::Bytes(LOG_BYTES));
    group.sampling_mode(SamplingMode::Flat);
    for message in ["4K", "64K"] {
        let arguments = arguments(folder, &format!("--message {message}"));
        let files = BenchFiles::new(folder, LOG_BYTES).expect("room on the disk");
        let interrupt = Interrupt::default();
        let appended =
            append_and_spill(&arguments, &files, &interrupt).expect("a disk that writes");
        let sample = || {
            let read = read_all(&files, &appended, &interrupt).expect("what was written");
            Duration::from_secs_f64(read.read.seconds)
        };
        group.bench_function(message, |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| sample()).sum());
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(3))
        .sample_size(10)
        .configure_from_args();
    for (name, folder) in folders() {
        alone(&mut criterion, name, &folder);
        spill(&mut criterion, name, &folder);
        read_back(&mut criterion, name, &folder);
    }
    criterion.final_summary();
}
