//! Reads and writes of a peer's memory, and the meaning of their completions.

#![allow(
    unsafe_code,
    reason = "reads of remote memory go to memory that the caller answers for"
)]

use crate::bytes::{clear, fill, holds};
use crate::pair::{Pair, with_every_provider};
use core::ptr::NonNull;
use refrain_libfabric::constants::FI_MR_PROV_KEY;
use refrain_libfabric::{Access, Kind, MessageEndpoint, Part, Refused, RemoteMemory};
use refrain_ring::Region;
use std::time::{Duration, Instant};

const REGION_BYTES: usize = 4 << 20;
const SIZES: [usize; 6] = [1, 64, 4096, 16 << 10, 64 << 10, 1 << 20];
/// How long one side alone is polled before the other side. Only printed results depend on it.
const ALONE_MS: u64 = 30;

/// Whether an operation of `a` completes while `b` is not polled.
fn completes_alone(pair: &mut Pair) -> bool {
    let end = Instant::now() + Duration::from_millis(ALONE_MS);
    while pair.a.completions.is_empty() && Instant::now() < end {
        pair.a.poll();
        std::thread::yield_now();
    }
    !pair.a.completions.is_empty()
}

/// The memory from `offset` on.
fn beyond(remote: RemoteMemory, offset: usize) -> RemoteMemory {
    RemoteMemory {
        base: remote.base + offset as u64,
        ..remote
    }
}

fn read(pair: &mut Pair, local: usize, bytes: usize, remote: usize) -> Result<(), Refused> {
    let key = pair.b.endpoint.remote_key(pair.b.memory);
    let to = NonNull::new(pair.a.region.at(local)).unwrap();
    let (peer, memory) = (pair.a.peer, pair.a.memory);
    // SAFETY: registered memory of the pair, which stays until both endpoints are closed and is not
    // accessed before the completion.
    unsafe {
        let from = beyond(key, remote);
        let endpoint = &mut pair.a.endpoint;
        endpoint.read(peer, (to, Some(memory)), bytes, from, 11)
    }
}

#[test]
fn reads_bring_what_the_peer_has() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, REGION_BYTES);
        connect(&mut pair);
        for (seed, bytes) in SIZES.into_iter().enumerate() {
            let seed = seed as u8;
            fill(&pair.b.region, 4096, bytes, seed);
            clear(&pair.a.region, 64, bytes + 1);
            pair.start(|pair| read(pair, 64, bytes, 4096));
            let alone = completes_alone(&mut pair);
            let completion = pair.until(|pair| pair.a.completion(11));
            assert_eq!(completion.outcome, Ok(()));
            assert_eq!((completion.kind, completion.bytes), (Kind::Read, bytes));
            assert!(holds(&pair.a.region, 64, bytes, seed));
            assert!(!holds(&pair.a.region, 64, bytes + 1, seed));
            println!(
                "  read of {bytes}: completes {} the peer's help",
                if alone { "without" } else { "with" }
            );
        }
    });
}

#[test]
fn a_read_goes_also_into_memory_that_is_not_registered() {
    with_every_provider(|library, info| {
        if info.mr_mode() & refrain_libfabric::constants::FI_MR_LOCAL != 0 {
            println!("skipped {}: it needs registered memory", info.provider());
            return;
        }
        let mut pair = Pair::open(library, info, REGION_BYTES);
        let elsewhere = refrain_ring::Region::heap(1 << 20);
        for bytes in [100, 1 << 20] {
            fill(&pair.b.region, 0, bytes, 5);
            let key = pair.b.endpoint.remote_key(pair.b.memory);
            let (to, peer) = (NonNull::new(elsewhere.at(0)).unwrap(), pair.a.peer);
            // SAFETY: the memory lives longer than the pair.
            pair.start(|pair| unsafe { pair.a.endpoint.read(peer, (to, None), bytes, key, 3) });
            let completion = pair.until(|pair| pair.a.completion(3));
            assert_eq!(completion.outcome, Ok(()));
            assert!(holds(&elsewhere, 0, bytes, 5));
        }
        drop(pair);
    });
}

/// A read beyond what the peer registered must fail, not bring other bytes.
#[test]
fn a_read_outside_registered_memory_is_an_error() {
    with_every_provider(|library, info| {
        if info.provider() == "shm" {
            // This provider copies between processes without checking registrations.
            println!("skipped {}: keys are not checked there", info.provider());
            return;
        }
        let mut pair = Pair::open(library, info, 1 << 16);
        pair.start(|pair| read(pair, 0, 4096, (1 << 16) - 1));
        let completion = pair.until(|pair| pair.a.completion(11));
        let error = completion.outcome.unwrap_err();
        println!("  {error}");
    });
}

/// The test checks the target's memory when the write completes.
#[test]
fn a_write_is_in_the_peers_memory_when_it_completes() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, REGION_BYTES);
        // Connections need both sides; they are made before the test.
        connect(&mut pair);
        for (seed, bytes) in SIZES.into_iter().enumerate() {
            let said = write(&mut pair, bytes, seed as u8);
            println!("  write of {bytes}: {said}");
        }
    });
}

fn write(pair: &mut Pair, bytes: usize, seed: u8) -> String {
    let key = pair.b.endpoint.remote_key(pair.b.memory);
    let part = Part {
        memory: pair.a.memory,
        offset: 4096,
        bytes,
    };
    fill(&pair.a.region, part.offset, bytes, seed);
    clear(&pair.b.region, 128, bytes + 1);
    let peer = pair.a.peer;
    pair.start(|pair| {
        let to = beyond(key, 128);
        pair.a.endpoint.write(peer, part, to, 21)
    });
    let alone = completes_alone(pair);
    let mut there = holds(&pair.b.region, 128, bytes, seed);
    let said = match (alone, there) {
        (true, true) => "completes without the peer's help, bytes are there",
        (true, false) => "completes without the peer's help, BYTES ARE NOT THERE",
        (false, true) => "needs the peer's help to complete, bytes are there before",
        (false, false) => "needs the peer's help",
    };
    let completion = pair.until(|pair| {
        let completion = pair.a.completion(21)?;
        there = holds(&pair.b.region, 128, bytes, seed);
        Some(completion)
    });
    assert_eq!(completion.outcome, Ok(()));
    assert_eq!((completion.kind, completion.bytes), (Kind::Write, bytes));
    let said = format!(
        "{said}{}",
        if there || alone {
            ""
        } else {
            ", completes BEFORE THE BYTES ARE THERE"
        }
    );
    assert!(there, "{said}");
    pair.until(|pair| holds(&pair.b.region, 128, bytes, seed).then_some(()));
    assert!(!holds(&pair.b.region, 128, bytes + 1, seed));
    said
}

/// Deregistered memory is not written any more, and its key is invalid; other memory of the same
/// endpoint stays reachable.
#[test]
fn memory_that_was_given_up_is_out_of_reach() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, 1 << 16);
        connect(&mut pair);
        let old = Region::heap(4096);
        let key = u64::MAX >> (64 - 8 * info.mr_key_bytes().clamp(1, 8)) << 3;
        let given = pair
            .b
            .endpoint
            .register_with_key(&old, Access::REMOTE_WRITE, key)
            .unwrap();
        let remote = pair.b.endpoint.remote_key(given);
        let is_chosen_by_provider = info.mr_mode() & FI_MR_PROV_KEY != 0;
        assert!(is_chosen_by_provider || remote.key == key);
        let (peer, memory) = (pair.a.peer, pair.a.memory);
        let part = Part {
            memory,
            offset: 0,
            bytes: 64,
        };
        fill(&pair.a.region, 0, 64, 1);
        pair.start(|pair| {
            let to = beyond(remote, 128);
            pair.a.endpoint.write(peer, part, to, 31)
        });
        assert_eq!(pair.until(|pair| pair.a.completion(31)).outcome, Ok(()));
        assert!(holds(&old, 128, 64, 1));

        let own = pair.b.memory;
        assert!(pair.b.endpoint.deregister(own).is_err(), "may be in use");
        pair.b.endpoint.deregister(given).unwrap();
        pair.b.endpoint.deregister(given).unwrap();
        fill(&pair.a.region, 0, 64, 2);
        pair.start(|pair| {
            let to = beyond(remote, 128);
            pair.a.endpoint.write(peer, part, to, 32)
        });
        // `shm` 1.17 reports nothing, 2.5 reports success.
        let is_told = info.provider() != "shm";
        let limit_ms = if is_told { 20_000 } else { 10 * ALONE_MS };
        let end = Instant::now() + Duration::from_millis(limit_ms);
        let mut outcome = None;
        while outcome.is_none() && Instant::now() < end {
            pair.a.poll();
            pair.b.poll();
            outcome = pair.a.completion(32).map(|completion| completion.outcome);
        }
        println!("  a write after it was given up: {outcome:?}");
        assert!(!is_told || matches!(outcome, Some(Err(_))));
        assert!(holds(&old, 128, 64, 1), "the memory has changed");
    });
}

fn connect(pair: &mut Pair) {
    let inbox = Part {
        memory: pair.b.memory,
        offset: 0,
        bytes: 64,
    };
    let byte = Part {
        memory: pair.a.memory,
        offset: 0,
        bytes: 1,
    };
    let peer = pair.a.peer;
    pair.start(|pair| pair.b.endpoint.receive(inbox, 1));
    pair.start(|pair| pair.a.endpoint.send(peer, &[byte], 2));
    pair.until(|pair| pair.a.completion(2));
    pair.until(|pair| pair.b.completion(1));
}
