//! Reads and writes of the other side's memory.

#![allow(
    unsafe_code,
    reason = "reads of remote memory go to memory that the caller answers for"
)]

use crate::bytes::{fill, holds};
use crate::pair::{Pair, ground};
use core::ptr::NonNull;
use refrain_ring::Region;
use refrain_verbs::{Access, Completion, Kind, MessageEndpoint, Refused, RemoteMemory};

fn read(pair: &mut Pair, to: usize, from: usize, bytes: usize, key: u64, token: u64) -> Completion {
    let base = pair.b.endpoint.remote_key(pair.b.memory).base;
    pair.start(|pair| {
        let peer = pair.a.peer();
        let at = NonNull::new(pair.a.region.at(to)).unwrap();
        let memory = Some(pair.a.memory);
        let base = base + from as u64;
        let remote = RemoteMemory { key, base };
        // SAFETY: the region lives as long as the pair, and is not accessed before the completion.
        unsafe {
            pair.a
                .endpoint
                .read(peer, (at, memory), bytes, remote, token)
        }
    });
    pair.until(|pair| pair.a.completion(token))
}

#[test]
fn memory_of_a_peer_is_read() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 4 << 20);
    let key = pair.b.endpoint.remote_key(pair.b.memory).key;
    for (round, bytes) in [0, 1, 63, 1024, 5000, 1 << 20].into_iter().enumerate() {
        let seed = round as u64;
        fill(&pair.b.region, 100, bytes, seed);
        let completion = read(&mut pair, 7, 100, bytes, key, 9);
        assert_eq!((completion.outcome, completion.bytes), (Ok(()), bytes));
        assert_eq!(completion.kind, Kind::Read);
        assert!(holds(&pair.a.region, 7, bytes, seed), "{bytes}");
    }
    let outside = NonNull::new(pair.a.region.at(0)).unwrap();
    let peer = pair.a.peer();
    let memory = Some(pair.a.memory);
    let remote = RemoteMemory { key, base: 0 };
    // SAFETY: the call is refused, since the range is too long.
    let refused = unsafe {
        pair.a
            .endpoint
            .read(peer, (outside, memory), (4 << 20) + 1, remote, 1)
    };
    assert!(matches!(refused, Err(Refused::Failed(_))), "{refused:?}");
}

/// The memory from `offset` on.
fn beyond(remote: RemoteMemory, offset: u64) -> RemoteMemory {
    RemoteMemory {
        base: remote.base + offset,
        ..remote
    }
}

/// EL-1: when a write completes, the bytes are in the peer's memory, although the peer makes no
/// calls.
#[test]
fn writes_lie_there_when_they_complete() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 4 << 20);
    pair.connect();
    let key = pair.b.endpoint.remote_key(pair.b.memory);
    for (round, bytes) in [0, 1, 8, 48, 4096, 100_000, 1 << 20]
        .into_iter()
        .enumerate()
    {
        for again in 0..20 {
            let seed = (round * 100 + again) as u64;
            fill(&pair.a.region, 0, bytes, seed);
            let part = pair.a.part(0, bytes);
            let before = *pair.a.endpoint.counters();
            let to = beyond(key, 64);
            pair.a.endpoint.write(pair.a.peer(), part, to, 5).unwrap();
            let after = *pair.a.endpoint.counters();
            assert_eq!(after.doorbells - before.doorbells, 1);
            assert_eq!(after.signalled - before.signalled, 1);
            // The peer is not polled.
            let completion = loop {
                pair.a.poll();
                if let Some(completion) = pair.a.completion(5) {
                    break completion;
                }
            };
            assert!(holds(&pair.b.region, 64, bytes, seed), "{bytes}");
            assert_eq!((completion.outcome, completion.bytes), (Ok(()), bytes));
            assert_eq!(completion.kind, Kind::Write);
        }
    }
}

/// A message after a write arrives after the write is done.
#[test]
fn writes_come_before_a_message() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 20);
    let key = pair.b.endpoint.remote_key(pair.b.memory);
    for seed in 0..50 {
        fill(&pair.a.region, 0, 5000, seed);
        let (part, into) = (pair.a.part(0, 5000), pair.b.part(0, 64));
        pair.b.endpoint.receive(into, 1).unwrap();
        pair.start(|pair| {
            let to = beyond(key, 4096);
            pair.a.endpoint.write(pair.a.peer(), part, to, 2)
        });
        pair.start(|pair| pair.a.endpoint.inject(pair.a.peer(), &[]));
        pair.until(|pair| pair.b.completion(1));
        assert!(holds(&pair.b.region, 4096, 5000, seed));
        assert_eq!(pair.until(|pair| pair.a.completion(2)).outcome, Ok(()));
    }
}

/// A wrong key fails with an error, and the connection is replaced.
#[test]
fn a_wrong_key_is_refused() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 16);
    let key = pair.b.endpoint.remote_key(pair.b.memory);
    fill(&pair.b.region, 0, 64, 1);
    fill(&pair.a.region, 0, 64, 2);
    let part = pair.a.part(0, 64);
    for _ in 0..2 {
        let wrong = RemoteMemory {
            key: key.key ^ 0x0001_0100,
            ..key
        };
        pair.start(|pair| {
            let peer = pair.a.peer();
            pair.a.endpoint.write(peer, part, wrong, 3)
        });
        let error = pair.until(|pair| pair.a.completion(3)).outcome.unwrap_err();
        println!("{error}");
        assert_eq!(error.errno(), libc_eacces());
        assert!(holds(&pair.b.region, 0, 64, 1), "written with a wrong key");
    }
    let completion = read(&mut pair, 128, 0, 64, key.key ^ 0x0001_0100, 4);
    assert!(completion.outcome.is_err());
    let completion = read(&mut pair, 128, 0, 64, key.key, 5);
    assert_eq!(completion.outcome, Ok(()));
    assert!(holds(&pair.a.region, 128, 64, 1));
    assert!(pair.a.endpoint.counters().replacements >= 3);
}

/// `EACCES` on Linux.
fn libc_eacces() -> i32 {
    rustix::io::Errno::ACCESS.raw_os_error()
}

/// Deregistered memory is not written any more (FENCE-1).
#[test]
fn memory_that_is_given_up_is_not_written() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 16);
    let region = Region::heap(8192);
    let memory = pair
        .b
        .endpoint
        .register(&region, Access::REMOTE_WRITE)
        .unwrap();
    let key = pair.b.endpoint.remote_key(memory);
    let part = pair.a.part(0, 4096);
    let write = |pair: &mut Pair, token| {
        pair.start(|pair| {
            let peer = pair.a.peer();
            pair.a.endpoint.write(peer, part, key, token)
        });
        pair.until(|pair| pair.a.completion(token)).outcome
    };
    fill(&pair.a.region, 0, 4096, 1);
    assert_eq!(write(&mut pair, 1), Ok(()));
    assert!(holds(&region, 0, 4096, 1));
    pair.b.endpoint.deregister(memory).unwrap();
    pair.b.endpoint.deregister(memory).unwrap();
    fill(&pair.a.region, 0, 4096, 2);
    let error = write(&mut pair, 2).unwrap_err();
    println!("{error}");
    assert!(holds(&region, 0, 4096, 1), "written after it was given up");
    // Another registration of the same memory has another key.
    let again = pair
        .b
        .endpoint
        .register(&region, Access::REMOTE_WRITE)
        .unwrap();
    assert_ne!(pair.b.endpoint.remote_key(again).key, key.key);
    assert!(write(&mut pair, 3).is_err());
    assert!(holds(&region, 0, 4096, 1));
}

/// Memory that was registered for reading cannot be written.
#[test]
fn memory_for_reading_is_not_written() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 16);
    let region = Region::heap(4096);
    let memory = pair
        .b
        .endpoint
        .register(&region, Access::REMOTE_READ)
        .unwrap();
    let key = pair.b.endpoint.remote_key(memory);
    fill(&pair.a.region, 0, 64, 9);
    let part = pair.a.part(0, 64);
    pair.start(|pair| {
        let peer = pair.a.peer();
        pair.a.endpoint.write(peer, part, key, 1)
    });
    assert!(pair.until(|pair| pair.a.completion(1)).outcome.is_err());
    assert!(!holds(&region, 0, 64, 9));
}
