//! The cost of sealing a chunk: a checksum for each record, and the chunk's own header.
//!
//! ```text
//! cargo bench -p refrain-bench --bench log_seal
//! ```
//!
//! `hot`: the chunk was just written and is in the cache. `cold`: 128 MiB of chunks in turn, which
//! exceed the private caches. Throughput is of log bytes.

use criterion::{BenchmarkId, Criterion, Throughput};
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Incarnation, LentChunk, Rank, RecordHeader, RecordKind, Ssn,
};
use std::hint::black_box;
use std::time::Duration;

const PAYLOAD_BYTES: [usize; 6] = [8, 64, 256, 1 << 10, 4 << 10, 16 << 10];
const COLD_CHUNKS: usize = (128 << 20) / CHUNK_BYTES;

/// A log of `chunks` full chunks with records of one length; all chunks are lent out.
fn lent_chunks(chunks: usize, payload_bytes: usize) -> (Arena, Vec<LentChunk>) {
    let mut arena = Arena::heap((chunks + 1) * CHUNK_BYTES);
    let mut log = ChannelLog::new(Rank(0), Incarnation(0), Rank(1), u64::MAX);
    let mut lent = Vec::with_capacity(chunks);
    let mut ssn = Ssn(0);
    while lent.len() < chunks {
        let header = RecordHeader {
            payload_bytes: 0,
            kind: RecordKind::Eager,
            flags: 0,
            incarnation: Incarnation(0),
            source: Rank(0),
            ssn,
            context: 0,
            tag: 0,
            extent: payload_bytes as u64,
        };
        ssn = ssn.next();
        log.append(&mut arena, payload_bytes, true, header, |it| it.fill(0x5a))
            .expect("one chunk more than are lent")
            .publish(arena.region());
        lent.extend(log.lend(&arena, log.tail()));
    }
    (arena, lent)
}

fn seal(criterion: &mut Criterion) {
    for (name, chunks) in [("hot", 1), ("cold", COLD_CHUNKS)] {
        let mut group = criterion.benchmark_group(format!("log_seal/{name}"));
        for payload_bytes in PAYLOAD_BYTES {
            let (_arena, mut lent) = lent_chunks(chunks, payload_bytes);
            group.throughput(Throughput::Bytes(lent[0].used_bytes() as u64));
            let mut next = 0;
            group.bench_function(BenchmarkId::from_parameter(payload_bytes), |bencher| {
                bencher.iter(|| {
                    next = (next + 1) % lent.len();
                    black_box(lent[next].seal(7))
                });
            });
        }
        group.finish();
    }
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1000))
        .sample_size(20)
        .configure_from_args();
    seal(&mut criterion);
    criterion.final_summary();
}
