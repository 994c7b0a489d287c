//! Messages are read again from the sender's log, in memory or on disk, while the job continues.
//! LOG-2

use crate::disk::MemoryDisk;
use crate::networks;
use crate::rig::{Receipt, Rig, Sent, Setup, from, payload, to};
use refrain_ring::{CHUNK_BYTES, Rank, RecordHeader, RecordKind, Ssn};
use refrain_transport::engine::{Progress, ReadBack, ReadBackError};
use refrain_transport::fabric::sim::Options;
use std::collections::BTreeMap;

const LOG_BYTES: usize = 2 << 20;

/// Short messages, some of a few records, some longer than several chunks.
fn message_bytes(message: u64) -> usize {
    match message % 7 {
        0 => 0,
        1 => 5,
        2 => 700_000,
        3 => 4096,
        4 => 100_000,
        5 => 17,
        _ => 300_000,
    }
}

/// A message as it was found in the log.
struct Found {
    bytes: Vec<u8>,
    read_bytes: usize,
}

/// A reader of rank 0's log, and the messages that it has read.
struct Reading {
    reader: ReadBack,
    from: Ssn,
    begun: Option<Ssn>,
    messages: BTreeMap<Ssn, Found>,
    passed: usize,
}

impl Reading {
    fn new(rig: &Rig, receiver: u32, from: u64) -> Self {
        Self {
            reader: rig.engines[0].read_back(Rank(receiver), Ssn(from)),
            from: Ssn(from),
            begun: None,
            messages: BTreeMap::new(),
            passed: 0,
        }
    }

    fn step(&mut self, rig: &mut Rig) -> Progress {
        let (begun, messages, first) = (&mut self.begun, &mut self.messages, self.from);
        let mut give = |header: &RecordHeader, payload: &[u8]| {
            assert!(header.ssn >= first, "not asked for");
            let at = match header.kind {
                RecordKind::Fragment => header.extent as usize,
                _ => {
                    assert!(*begun < Some(header.ssn), "in the order of sending");
                    *begun = Some(header.ssn);
                    let found = Found {
                        bytes: vec![0; header.extent as usize],
                        read_bytes: 0,
                    };
                    messages.insert(header.ssn, found);
                    0
                }
            };
            let found = messages.get_mut(&header.ssn).expect("it has begun");
            found.bytes[at..at + payload.len()].copy_from_slice(payload);
            found.read_bytes += payload.len();
        };
        let progress = rig.engines[0].read_on(&mut self.reader, &mut give);
        let progress = progress.expect("the log can be read");
        if let Progress::Passed(ssn) = progress {
            assert!(ssn > self.from);
            self.from = ssn;
            self.messages.retain(|known, _| *known >= ssn);
            self.passed += 1;
        }
        progress
    }

    fn finish(&mut self, rig: &mut Rig) {
        for _ in 0..100_000 {
            match self.step(rig) {
                Progress::End => return,
                // No other progress is needed.
                Progress::Waiting | Progress::Records(_) | Progress::Passed(_) => {}
            }
        }
        panic!("it does not come to an end");
    }

    /// Checks that all messages from the first on, `count` in all, are there, bit by bit.
    fn check(&self, count: u64) {
        let numbers: Vec<_> = self.messages.keys().map(|ssn| ssn.0).collect();
        let expected: Vec<_> = (self.from.0..count).collect();
        assert_eq!(numbers, expected);
        for (ssn, found) in &self.messages {
            let bytes = message_bytes(ssn.0);
            assert_eq!(found.read_bytes, bytes, "of message {}", ssn.0);
            assert!(found.bytes == payload(ssn.0, bytes), "message {}", ssn.0);
        }
    }
}

struct Job {
    rig: Rig,
    disk: MemoryDisk,
    open: Vec<(Sent, Receipt)>,
    sent: [u64; 3],
}

impl Job {
    fn new(network: Options, log_bytes: usize, has_disk: bool) -> Self {
        let mut rig = Setup::new(network).ranks(3).keeping(log_bytes).build();
        let disk = MemoryDisk::default();
        if has_disk {
            let sender = rig.engines.remove(0);
            rig.engines
                .insert(0, sender.with_spill(Box::new(disk.clone())));
        }
        Self {
            rig,
            disk,
            open: Vec::new(),
            sent: [0; 3],
        }
    }

    /// Rank 0 sends the next message to `receiver`, which waits for it.
    fn send(&mut self, receiver: usize) {
        let message = self.sent[receiver];
        self.sent[receiver] += 1;
        let data = payload(message, message_bytes(message));
        let receipt = self.rig.receive(receiver, from(0, 1), data.len());
        let sent = self.rig.send(0, to(receiver as u32, 1), &data);
        self.open.push((sent, receipt));
        self.rig.round();
    }

    fn settle(&mut self) {
        for (sent, receipt) in self.open.drain(..) {
            self.rig.finish_send(&sent);
            self.rig.finish_receive(&receipt);
        }
        self.rig.settle();
    }

    fn send_some(&mut self, count: usize) {
        for message in 0..count {
            self.send(1 + message % 2);
        }
        self.settle();
    }

    fn trim(&mut self) {
        self.rig.settle();
        self.rig.engines[0].trim();
    }
}

#[test]
fn from_memory_only() {
    for network in networks::all() {
        let mut job = Job::new(network, 16 << 20, false);
        job.send_some(30);
        for (receiver, first) in [(1, 0), (1, 6), (2, 3), (2, 14), (2, 15), (2, 99)] {
            let mut reading = Reading::new(&job.rig, receiver, first);
            reading.finish(&mut job.rig);
            reading.check(first.max(15));
        }
        assert_eq!(job.disk.chunks_read(), 0);
        job.rig.end();
    }
}

/// The window has moved through the memory many times.
#[test]
fn from_disk_and_memory() {
    for network in networks::all() {
        let mut job = Job::new(network, LOG_BYTES, true);
        job.send_some(100);
        job.trim();
        let (used_bytes, _) = job.rig.engines[0].log_bytes();
        assert!(job.disk.chunk_count() * CHUNK_BYTES > 3 * LOG_BYTES);
        assert!(used_bytes > 0);
        for (receiver, first) in [(1, 0), (2, 17), (1, 49), (2, 50)] {
            let mut reading = Reading::new(&job.rig, receiver, first);
            reading.finish(&mut job.rig);
            reading.check(50);
        }
        assert!(job.disk.chunks_read() > 0);
        job.rig.end();
    }
}

/// Several readers at once, while messages continue and chunks leave memory meanwhile; then the
/// readers wait for later messages, and get them.
#[test]
fn while_the_rank_goes_on_sending() {
    for network in networks::all() {
        let mut job = Job::new(network, LOG_BYTES, true);
        let mut readings = vec![Reading::new(&job.rig, 1, 0), Reading::new(&job.rig, 2, 0)];
        let mut records = 0;
        for round in 0..24 {
            job.send(1);
            job.send(2);
            if round % 8 == 5 {
                readings.push(Reading::new(&job.rig, 1 + round % 2, u64::from(round / 2)));
            }
            for reading in &mut readings {
                for _ in 0..round % 3 {
                    let progress = reading.step(&mut job.rig);
                    records += usize::from(matches!(progress, Progress::Records(_)));
                }
            }
            if round % 4 == 3 {
                job.settle();
            }
        }
        assert!(records > 0, "some was read meanwhile");
        job.settle();
        for reading in &mut readings {
            reading.finish(&mut job.rig);
            reading.check(24);
        }
        // A reader that is not finished does not keep the job from ending.
        drop(readings);
        job.rig.end();
    }
}

/// Horizons pass messages that a reader has not read: the reader is informed, and continues behind
/// them.
// LOG-4
#[test]
fn a_horizon_passes_a_reader() {
    for network in networks::all() {
        let mut job = Job::new(network, LOG_BYTES, true);
        let mut slow = Reading::new(&job.rig, 1, 0);
        let mut other = Reading::new(&job.rig, 2, 0);
        job.send_some(40);
        slow.step(&mut job.rig);
        other.step(&mut job.rig);
        job.rig.engines[1].publish_horizon();
        job.trim();
        job.send_some(20);
        slow.finish(&mut job.rig);
        assert_eq!(slow.passed, 1);
        assert_eq!(slow.from, Ssn(20));
        slow.check(30);
        let mut late = Reading::new(&job.rig, 1, 3);
        late.finish(&mut job.rig);
        assert_eq!((late.passed, late.from), (1, Ssn(20)));
        late.check(30);
        // Horizons of other ranks free nothing here.
        other.finish(&mut job.rig);
        assert_eq!(other.passed, 0);
        other.check(30);
        let mut other = Reading::new(&job.rig, 2, 0);
        other.finish(&mut job.rig);
        assert_eq!(other.passed, 0);
        other.check(30);
        job.rig.end();
    }
}

/// Messages that no protocol keeps cannot be read, and are reported as lost.
#[test]
fn a_log_that_keeps_nothing_says_so() {
    let setup = Setup::new(networks::calm()).ranks(3);
    let mut rig = setup.build();
    for message in 0..12 {
        let data = payload(message, 100_000);
        let sent = rig.send(0, to(1, 1), &data);
        rig.expect(1, from(0, 1), &data);
        rig.finish_send(&sent);
    }
    rig.settle();
    rig.engines[0].trim();
    let mut reader = rig.engines[0].read_back(Rank(1), Ssn(0));
    let lost = rig.engines[0].read_on(&mut reader, &mut |_, _| ());
    assert!(matches!(lost, Err(ReadBackError::Lost { .. })), "{lost:?}");
}
