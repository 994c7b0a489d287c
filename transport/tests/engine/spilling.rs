//! Which chunks go to disk first, and how a rank is informed when none go. LOG-3

use crate::rig::{Rig, Setup, from, to};
use refrain_ring::{CHUNK_BYTES, Frontier, LentChunk, LoanEnd, Rank};
use refrain_transport::engine::Stall;
use refrain_transport::fabric::sim::Options;
use refrain_transport::spill::{Spill, SpillEvent};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

const WINDOW_CHUNKS: usize = 4;
const MESSAGE_BYTES: usize = CHUNK_BYTES / 2;

/// A disk that writes at once, but takes nothing for one receiver.
#[derive(Clone)]
struct Disk {
    after_bytes: u64,
    full_for: Option<Rank>,
    writes: Rc<RefCell<VecDeque<LentChunk>>>,
    /// The receivers of the written chunks.
    written: Rc<RefCell<Vec<Rank>>>,
}

impl Spill for Disk {
    fn takes(&mut self, destination: Rank, _: u64) -> bool {
        self.full_for != Some(destination)
    }

    fn put(&mut self, mut chunk: LentChunk) {
        chunk.seal(1);
        self.written.borrow_mut().push(chunk.destination());
        self.writes.borrow_mut().push_back(chunk);
    }

    fn poll(&mut self) -> Option<SpillEvent> {
        let chunk = self.writes.borrow_mut().pop_front()?;
        Some(SpillEvent::Returned(chunk, LoanEnd::OnDisk))
    }

    fn under_way(&self) -> usize {
        self.writes.borrow().len()
    }

    fn trim(&mut self, _: Rank, _: &Frontier) {}

    fn find(&self, _: Rank, _: &Frontier) -> Option<u64> {
        None
    }

    fn read(&mut self, _: Rank, _: u64) -> Option<u64> {
        None
    }

    fn after_bytes(&self) -> u64 {
        self.after_bytes
    }

    fn held_bytes(&self) -> u64 {
        (self.written.borrow().len() * CHUNK_BYTES) as u64
    }

    fn explain(&self) -> String {
        "a disk of a test".to_owned()
    }
}

/// Three ranks; the first has a disk, and memory for two full windows.
fn job(after_bytes: u64, full_for: Option<Rank>) -> (Rig, Disk) {
    job_of(WINDOW_CHUNKS, after_bytes, full_for)
}

/// As `job`, with other windows.
fn job_of(window_chunks: usize, after_bytes: u64, full_for: Option<Rank>) -> (Rig, Disk) {
    let setup = Setup {
        window_bytes: (window_chunks * CHUNK_BYTES) as u64,
        ..Setup::new(Options::calm(1).reading_in_place(true))
            .ranks(3)
            .keeping(2 * window_chunks * CHUNK_BYTES)
    };
    let mut rig = setup.build();
    let disk = Disk {
        after_bytes,
        full_for,
        writes: Rc::default(),
        written: Rc::default(),
    };
    let sender = rig.engines.remove(0).with_spill(Box::new(disk.clone()));
    rig.engines.insert(0, sender);
    (rig, disk)
}

fn send(rig: &mut Rig, receiver: usize, messages: usize) {
    for _ in 0..messages {
        let data = vec![7; MESSAGE_BYTES];
        let receipt = rig.receive(receiver, from(0, 1), data.len());
        let sent = rig.send(0, to(receiver as u32, 1), &data);
        rig.finish_send(&sent);
        rig.finish_receive(&receipt);
    }
    rig.settle();
}

/// If only one channel is busy, it has no more than its window, so it must not wait until the
/// memory of all channels is in use.
#[test]
fn a_channel_spills_before_its_window_is_full() {
    let (mut rig, disk) = job((WINDOW_CHUNKS * CHUNK_BYTES) as u64, None);
    send(&mut rig, 1, 2 * WINDOW_CHUNKS - 2);
    assert!(rig.engines[0].log_bytes().0 <= (WINDOW_CHUNKS * CHUNK_BYTES) as u64);
    assert_ne!(*disk.written.borrow(), []);
}

#[test]
fn a_full_window_sends_no_chunks_of_other_channels_to_disk() {
    let (mut rig, disk) = job(u64::MAX, None);
    send(&mut rig, 1, 2 * WINDOW_CHUNKS - 2);
    assert_eq!(*disk.written.borrow(), []);
    send(&mut rig, 2, 4 * WINDOW_CHUNKS);
    let written = disk.written.borrow();
    assert!(!written.is_empty() && written.iter().all(|rank| *rank == Rank(2)));
}

/// A slow receiver must not make a sender wait for ever for a log that is full.
#[test]
fn a_slow_receiver_does_not_hide_that_the_log_is_full() {
    for slow in [1, 2] {
        let full = 3 - slow;
        let (mut rig, _) = job(u64::MAX, Some(Rank(full)));
        let data = vec![7; MESSAGE_BYTES];
        let mut send_many = |receiver: u32| {
            // Messages that the slow receiver has not received stay in the log.
            for _ in 0..3 * WINDOW_CHUNKS {
                if receiver == full {
                    rig.receive(full as usize, from(0, 1), data.len());
                }
                rig.send(0, to(receiver, 1), &data);
            }
            rig.settle();
            rig.engines[0].stall()
        };
        let stalls = [1, 2].map(&mut send_many);
        let alone = if slow == 1 {
            Stall::Window
        } else {
            Stall::Share
        };
        assert_eq!(stalls, [Some(alone), Some(Stall::Share)]);
    }
}

/// Number of chunks of memory that the system gives at once.
const EXTENT_CHUNKS: usize = 8;

/// A rank whose system has no more memory, though budget and windows have room.
fn job_without_more_memory(full_for: Option<Rank>) -> (Rig, Disk) {
    let (mut rig, disk) = job_of(2 * EXTENT_CHUNKS, u64::MAX, full_for);
    send(&mut rig, 1, 1);
    rig.end_memory();
    (rig, disk)
}

/// LOG-3: chunks that the disk can take make room.
#[test]
fn without_more_memory_the_log_goes_to_disk() {
    let (mut rig, disk) = job_without_more_memory(None);
    send(&mut rig, 1, 6 * EXTENT_CHUNKS);
    send(&mut rig, 2, 6 * EXTENT_CHUNKS);
    let held = rig.engines[0].log_bytes().0;
    assert!(held <= (EXTENT_CHUNKS * CHUNK_BYTES) as u64, "{held}");
    for rank in [1, 2] {
        assert!(disk.written.borrow().contains(&Rank(rank)));
    }
    assert_eq!(rig.engines[0].stall(), None);
}

/// LOG-3: when the disk takes nothing, sends wait. They continue with memory that is freed, or with
/// more memory.
#[test]
fn without_more_memory_and_disk_sends_wait() {
    for has_memory_again in [false, true] {
        let (mut rig, _) = job_without_more_memory(Some(Rank(1)));
        let data = vec![7; MESSAGE_BYTES];
        let exchange = |rig: &mut Rig| {
            let receipt = rig.receive(1, from(0, 1), data.len());
            (rig.send(0, to(1, 1), &data), receipt)
        };
        let messages: Vec<_> = (0..2 * EXTENT_CHUNKS + 4)
            .map(|_| exchange(&mut rig))
            .collect();
        rig.settle();
        assert_eq!(rig.engines[0].stall(), Some(Stall::Memory));
        // One request, however long the stall lasts.
        rig.settle();
        assert_eq!(rig.protocols[0].wishes(), 1);
        assert!(messages.iter().any(|(sent, _)| !rig.is_sent(sent)));
        match has_memory_again {
            true => rig.give_memory(),
            false => rig.engines[1].publish_horizon(),
        }
        for (sent, receipt) in &messages {
            rig.finish_send(sent);
            rig.finish_receive(receipt);
        }
        rig.settle();
        assert_eq!(rig.engines[0].stall(), None);
    }
}
