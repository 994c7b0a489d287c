//! The cost of a record in the log: reserve, pack, publish, read, release.
//!
//! ```text
//! cargo bench -p refrain-bench --bench ring_append
//! ```
//!
//! `reused`: the reader keeps up and its chunks are freed at once, so that the log uses a few
//! chunks in rotation, which stay in the cache (protocol `none`). `retained`: nothing is freed
//! before 64 MiB are full, so that the log streams through memory (a logging protocol between two
//! checkpoints).

#![allow(
    unsafe_code,
    reason = "packs and unpacks by the copies of the fast path, which take raw pointers"
)]

use criterion::{BenchmarkId, Criterion, Throughput};
use refrain_ring::copy::{Target, into_log, out_of_log};
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, ChannelReader, Incarnation, Rank, RecordHeader, RecordKind,
    ReserveError, Ssn,
};
use std::hint::black_box;
use std::time::Duration;

const RETAINED_BYTES: usize = 64 << 20;
const REUSED_BYTES: usize = 4 * CHUNK_BYTES;
const PAYLOAD_BYTES: [usize; 4] = [8, 64, 1 << 10, 8 << 10];

/// A log with its writer and its reader in one thread.
struct Channel {
    arena: Arena,
    log: ChannelLog,
    reader: Option<ChannelReader>,
    target: Target,
    next_ssn: Ssn,
}

impl Channel {
    fn new(budget_bytes: usize, target: Target) -> Self {
        let window_bytes = budget_bytes as u64;
        Self {
            arena: Arena::heap(budget_bytes),
            log: ChannelLog::new(Rank(0), Incarnation(0), Rank(1), window_bytes),
            reader: None,
            target,
            next_ssn: Ssn(0),
        }
    }

    /// Packs and publishes a message. Fails if the log has no room.
    #[inline]
    fn send(&mut self, message: &[u8]) -> Result<(), ReserveError> {
        let header = RecordHeader {
            payload_bytes: 0,
            kind: RecordKind::Eager,
            flags: 0,
            incarnation: Incarnation(0),
            source: Rank(0),
            ssn: self.next_ssn,
            context: 0,
            tag: 0,
            extent: message.len() as u64,
        };
        self.next_ssn = self.next_ssn.next();
        let (from, bytes, target) = (message.as_ptr(), message.len(), self.target);
        let fill = |payload: &mut [u8]| {
            // SAFETY: a whole record is as long as the message, and apart from it.
            unsafe { into_log(from, payload.as_mut_ptr(), bytes, target) }
        };
        let frame = (self.log).append(&mut self.arena, bytes, true, header, fill)?;
        frame.publish(self.arena.region());
        Ok(())
    }

    #[inline]
    fn receive(&mut self, buffer: &mut [u8]) {
        let Self {
            arena, log, reader, ..
        } = self;
        let reader = reader.get_or_insert_with(|| {
            let first = log.first_chunk().expect("a message was sent");
            ChannelReader::new(arena.region().clone(), 0, first).expect("the chunk exists")
        });
        let record = reader.read().expect("the log is sound");
        let payload = record.expect("the message is published").payload;
        assert_eq!(payload.len(), buffer.len());
        // SAFETY: both are as long, and apart.
        unsafe { out_of_log(payload.as_ptr(), buffer.as_mut_ptr(), buffer.len()) };
    }

    #[inline]
    fn release(&mut self) {
        if let Some(reader) = &self.reader {
            self.log.trim_released(&mut self.arena, reader.position());
        }
    }
}

fn reused(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ring_append/reused");
    for bytes in PAYLOAD_BYTES {
        let mut channel = Channel::new(REUSED_BYTES, Target::Cached);
        let message = vec![0x5a; bytes];
        let mut buffer = vec![0; bytes];
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::from_parameter(bytes), |bencher| {
            bencher.iter(|| {
                channel
                    .send(black_box(&message))
                    .expect("the reader keeps up");
                channel.receive(black_box(&mut buffer));
                channel.release();
            });
        });
    }
    group.finish();
}

fn retained(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ring_append/retained");
    for bytes in PAYLOAD_BYTES {
        let mut channel = Channel::new(RETAINED_BYTES, Target::Streaming);
        let message = vec![0x5a; bytes];
        let mut buffer = vec![0; bytes];
        // Fills all memory once, so that all pages are mapped.
        while channel.send(&message).is_ok() {
            channel.receive(&mut buffer);
        }
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::from_parameter(bytes), |bencher| {
            bencher.iter(|| {
                if channel.send(black_box(&message)).is_err() {
                    channel.release();
                    channel.send(black_box(&message)).expect("all is released");
                }
                channel.receive(black_box(&mut buffer));
            });
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_millis(1000))
        .sample_size(30)
        .configure_from_args();
    reused(&mut criterion);
    retained(&mut criterion);
    criterion.final_summary();
}
