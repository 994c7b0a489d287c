//! Peers are inserted, removed and replaced.

use crate::bytes::{fill, holds};
use crate::pair::{OPTIONS, Pair, with_every_provider};
use refrain_libfabric::{Access, Endpoint, MessageEndpoint, Part};
use refrain_ring::Region;

fn part(memory: refrain_libfabric::MemoryId, offset: usize, bytes: usize) -> Part {
    Part {
        memory,
        offset,
        bytes,
    }
}

fn message(pair: &mut Pair, seed: u8) {
    fill(&pair.a.region, 0, 200, seed);
    let (inbox, outbox) = (part(pair.b.memory, 1024, 512), part(pair.a.memory, 0, 200));
    pair.start(|pair| pair.b.endpoint.receive(inbox, 1));
    let peer = pair.a.peer;
    pair.start(|pair| pair.a.endpoint.send(peer, &[outbox], 2));
    assert_eq!(pair.until(|pair| pair.a.completion(2)).outcome, Ok(()));
    assert_eq!(pair.until(|pair| pair.b.completion(1)).outcome, Ok(()));
    assert!(holds(&pair.b.region, 1024, 200, seed));
}

#[test]
fn a_peer_can_be_inserted_again_after_it_was_removed() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, 1 << 16);
        message(&mut pair, 1);
        let name = pair.b.endpoint.name().unwrap();
        let before = pair.a.peer;
        pair.a.endpoint.remove(before).unwrap();
        pair.a.peer = pair.a.endpoint.insert(&name).unwrap();
        println!("  the same handle again: {}", before == pair.a.peer);
        message(&mut pair, 2);
    });
}

/// As after a restart: the same rank, another process, another address.
#[test]
fn another_endpoint_takes_the_place_of_a_peer() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, 1 << 16);
        message(&mut pair, 1);
        pair.b.endpoint.close().unwrap();
        pair.a.endpoint.remove(pair.a.peer).unwrap();

        let mut endpoint = Endpoint::open(library, info, &OPTIONS).unwrap();
        let region = Region::heap(1 << 16);
        let memory = endpoint.register(&region, Access::LOCAL).unwrap();
        let name = pair.a.endpoint.name().unwrap();
        pair.b.peer = endpoint.insert(&name).unwrap();
        pair.a.peer = pair.a.endpoint.insert(&endpoint.name().unwrap()).unwrap();
        pair.b.endpoint = endpoint;
        pair.b.region = region;
        pair.b.memory = memory;
        message(&mut pair, 2);
    });
}

#[test]
fn addresses_that_cannot_be_addresses_are_refused() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, 1 << 16);
        for address in [&b""[..], &[0; 4096], &[7; 3]] {
            let error = pair.a.endpoint.insert(address).unwrap_err();
            println!("  {error}");
        }
        message(&mut pair, 3);
    });
}

/// The memory file of the `shm` provider is removed with the endpoint; only a killed process leaves
/// one.
#[test]
fn a_closed_endpoint_leaves_no_memory_file() {
    with_every_provider(|library, info| {
        if info.provider() != "shm" {
            return;
        }
        let pair = Pair::open(library, info, 1 << 16);
        let name = String::from_utf8(pair.a.endpoint.name().unwrap()).unwrap();
        let name = name.trim_end_matches('\0').trim_start_matches("fi_shm://");
        let files = || {
            std::fs::read_dir("/dev/shm")
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|file| file.contains(name))
                .collect::<Vec<_>>()
        };
        println!("  name {name}, files {:?}", files());
        assert!(!files().is_empty());
        drop(pair);
        assert_eq!(files(), [""; 0]);
    });
}
