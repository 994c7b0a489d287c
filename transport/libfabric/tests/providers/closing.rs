//! Endpoints are closed at any time.

#![allow(
    unsafe_code,
    reason = "reads of remote memory go to memory that the caller answers for"
)]

use crate::pair::{Pair, with_every_provider};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use refrain_libfabric::constants::FI_EOPBADSTATE;
use refrain_libfabric::{Access, MessageEndpoint, Part, Refused, RemoteMemory};
use refrain_ring::Region;
use std::sync::Arc;

/// Begins operations of all kinds, with one poll at most.
fn begin_operations(pair: &mut Pair) {
    let part = |memory, index: usize| Part {
        memory,
        offset: index * (64 << 10),
        bytes: 64 << 10,
    };
    let (a, b, peer) = (pair.a.memory, pair.b.memory, pair.a.peer);
    let key = pair.b.endpoint.remote_key(b);
    for index in 0..8 {
        let _ = pair.a.endpoint.receive(part(a, 8 + index), 1);
        let _ = pair.b.endpoint.receive(part(b, 8 + index), 1);
        let _ = pair.a.endpoint.send(peer, &[part(a, index)], 2);
        let _ = pair.a.endpoint.write(peer, part(a, index), key, 3);
        let to = NonNull::new(pair.a.region.at((24 + index) * (64 << 10))).unwrap();
        // SAFETY: the tests keep the region until both endpoints are closed.
        let _ = unsafe { pair.a.endpoint.read(peer, (to, Some(a)), 64 << 10, key, 4) };
    }
}

#[test]
fn operations_in_flight_are_given_up() {
    with_every_provider(|library, info| {
        for polls in [0, 1, 3, 100] {
            let mut pair = Pair::open(library, info, 4 << 20);
            begin_operations(&mut pair);
            for _ in 0..polls {
                pair.a.poll();
                pair.b.poll();
            }
            let regions = (pair.a.region.clone(), pair.b.region.clone());
            assert!(pair.a.endpoint.operations_in_flight() > 0 || polls > 1);
            pair.a.endpoint.close().unwrap();
            // The peer continues as long as it can.
            let mut completions = Vec::new();
            for _ in 0..100 {
                let _ = pair.b.endpoint.poll(&mut completions);
            }
            pair.b.endpoint.close().unwrap();
            drop(pair);
            drop(regions);
        }
    });
}

#[test]
fn a_closed_endpoint_says_so() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, 1 << 16);
        pair.a.endpoint.close().unwrap();
        pair.a.endpoint.close().unwrap();
        let part = Part {
            memory: pair.a.memory,
            offset: 0,
            bytes: 1,
        };
        let peer = pair.a.peer;
        for result in [
            pair.a.endpoint.send(peer, &[part], 1),
            pair.a.endpoint.inject(peer, &[part]),
            pair.a.endpoint.receive(part, 1),
            pair.a
                .endpoint
                .write(peer, part, RemoteMemory::default(), 1),
        ] {
            assert!(matches!(result, Err(Refused::Failed(_))));
        }
        let error = pair.a.endpoint.name().unwrap_err();
        assert_eq!(error.code(), FI_EOPBADSTATE);
        assert!(pair.a.endpoint.poll(&mut Vec::new()).is_err());
        assert!(pair.a.endpoint.wait_fd().is_none());
        assert!(!pair.a.endpoint.may_sleep());
    });
}

/// Memory of operations stays mapped as long as the endpoint, and not longer.
#[test]
fn registered_memory_lives_as_long_as_the_endpoint() {
    struct Owner {
        is_freed: Arc<AtomicBool>,
        _memory: Region,
    }
    impl Drop for Owner {
        fn drop(&mut self) {
            self.is_freed.store(true, Ordering::Relaxed);
        }
    }
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, 1 << 16);
        let is_freed = Arc::new(AtomicBool::new(false));
        let inner = Region::heap(8192);
        let base = NonNull::new(inner.at(0)).unwrap();
        let owner = Owner {
            is_freed: is_freed.clone(),
            _memory: inner,
        };
        // SAFETY: the memory of `inner`, which the owner keeps.
        let region = unsafe { Region::from_raw(base, 8192, Arc::new(owner)) };
        let memory = pair.b.endpoint.register(&region, Access::LOCAL).unwrap();
        drop(region);
        let part = Part {
            memory,
            offset: 0,
            bytes: 8192,
        };
        pair.b.endpoint.receive(part, 1).unwrap();
        assert!(!is_freed.load(Ordering::Relaxed));
        drop(pair);
        assert!(is_freed.load(Ordering::Relaxed));
    });
}

#[test]
fn an_empty_region_is_not_registered() {
    with_every_provider(|library, info| {
        let mut pair = Pair::open(library, info, 1 << 16);
        let registered = pair.a.endpoint.register(&Region::heap(0), Access::LOCAL);
        assert!(registered.is_err());
    });
}
