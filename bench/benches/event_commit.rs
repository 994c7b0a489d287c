//! The cost of a commit for a rank: one batch into the ring of one event logger in shared memory,
//! level `placed`, while the logger runs.
//!
//! ```text
//! cargo bench -p refrain-bench --bench event_commit
//! ```
//!
//! The batches are sealed before the clock starts. Waits for room in a full ring are included.

use criterion::{BenchmarkId, Criterion};
use refrain_eventlog::client::{Client, ClientOptions, ServerAddress};
use refrain_eventlog::server::{Server, ServerOptions};
use refrain_eventlog::{Level, LoggerId};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::{BatchHeader, HEADER_BYTES, job_tag};
use refrain_logging::pessimist::Commits;
use refrain_ring::{Clock, Incarnation, Rank};
use std::hint::black_box;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

const JOB: u64 = 1;
/// Number of batches that are sealed together: an eighth of the ring for the shortest batches.
const AT_ONCE: u64 = 512;
const BATCH_BYTES: [usize; 3] = [64, 256, 1024];

fn sealed(first: u64, batch_bytes: usize) -> (BatchHeader, Vec<u8>) {
    let header = BatchHeader {
        job_tag: job_tag(JOB),
        rank: Rank(0),
        incarnation: Incarnation(0),
        lives_before: 0,
        first: EventIndex(first),
        count: 1,
        first_clock: Clock(first),
        last_clock: Clock(first),
        payload_bytes: (batch_bytes - HEADER_BYTES) as u32,
    };
    let mut batch = vec![7; batch_bytes];
    header.seal(&mut batch);
    (header, batch)
}

fn commit_all(client: &mut Client, batches: &[(BatchHeader, Vec<u8>)]) -> Duration {
    let began = Instant::now();
    for (header, batch) in batches {
        client.commit(header, black_box(batch));
        while client.stable_end() < header.end() {
            client.poll();
        }
    }
    began.elapsed()
}

fn commits(criterion: &mut Criterion, address: &ServerAddress) {
    let mut client = Client::connect(ClientOptions {
        job: JOB,
        rank: Rank(0),
        incarnation: Incarnation(0),
        loggers: vec![address.clone()],
        quorum: 1,
        level: Level::Placed,
        way: None,
        connect_wait: Duration::from_secs(10),
        libfabric: None,
        libibverbs: None,
        provider: None,
        verbs_port: Default::default(),
    })
    .expect("the logger listens");
    let mut group = criterion.benchmark_group("event_commit");
    for batch_bytes in BATCH_BYTES {
        group.bench_function(BenchmarkId::from_parameter(batch_bytes), |bencher| {
            bencher.iter_custom(|commits| {
                let mut took = Duration::ZERO;
                let mut left = commits;
                while left > 0 {
                    let next = client.end().0;
                    let now = left.min(AT_ONCE);
                    let batches: Vec<_> = (next..next + now)
                        .map(|first| sealed(first, batch_bytes))
                        .collect();
                    took += commit_all(&mut client, &batches);
                    left -= now;
                }
                took
            });
        });
    }
    group.finish();
}

fn main() {
    let folder = tempfile::tempdir().expect("a folder for the logger");
    let address = ServerAddress::Unix(folder.path().join("logger.sock"));
    let mut options = ServerOptions::new(folder.path().join("events"), LoggerId(0), Level::Placed);
    options.listen = vec![address.clone()];
    let mut server = Server::bind(options, |text| eprintln!("{text}")).expect("a logger");
    let (stop, stopped) = UnixStream::pair().expect("a pair of sockets");
    let logger = std::thread::spawn(move || server.serve_until(stopped));
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(20)
        .configure_from_args();
    commits(&mut criterion, &address);
    criterion.final_summary();
    drop(stop);
    logger
        .join()
        .expect("no panic")
        .expect("the logger ends well");
}
