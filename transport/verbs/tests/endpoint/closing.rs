//! Endpoints are closed at any time.

#![allow(
    unsafe_code,
    reason = "reads of remote memory go to memory that the caller answers for"
)]

use crate::bytes::{copy, fill};
use crate::pair::{Pair, Side, ground};
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use refrain_ring::Region;
use refrain_verbs::{Access, Endpoint, EndpointOptions, MessageEndpoint, Refused, RemoteMemory};
use std::sync::Arc;

/// Begins operations of all kinds, with one poll at most.
fn begin_operations(pair: &mut Pair) {
    const BYTES: usize = 64 << 10;
    let key = pair.b.endpoint.remote_key(pair.b.memory);
    let peer = pair.a.peer();
    for index in 0..8 {
        let (a, b) = (&mut pair.a, &mut pair.b);
        let part = |side: &Side, index: usize| side.part(index * BYTES, BYTES);
        let (into_a, into_b) = (part(a, 8 + index), part(b, 8 + index));
        let _ = a.endpoint.receive(into_a, 1);
        let _ = b.endpoint.receive(into_b, 1);
        let from = part(a, index);
        let _ = a.endpoint.send(peer, &[from], 2);
        let _ = a.endpoint.write(peer, from, key, 3);
        let to = NonNull::new(a.region.at((24 + index) * BYTES)).unwrap();
        // SAFETY: the test keeps the region until both endpoints are closed.
        let _ = unsafe { a.endpoint.read(peer, (to, Some(a.memory)), BYTES, key, 4) };
    }
}

#[test]
fn operations_in_flight_are_given_up() {
    let Some(ground) = ground() else { return };
    for polls in [0, 1, 3, 100] {
        let mut pair = Pair::open(&ground, 4 << 20);
        if polls > 0 {
            pair.connect();
        }
        begin_operations(&mut pair);
        for _ in 0..polls {
            pair.a.poll();
            pair.b.poll();
        }
        assert!(pair.a.endpoint.operations_in_flight() > 0);
        pair.a.endpoint.close().unwrap();
        // The device does not use its memory any more.
        fill(&pair.a.region, 0, 4 << 20, 5);
        let before = copy(&pair.a.region, 0, 4 << 20);
        // The peer continues as long as it can.
        for _ in 0..1000 {
            pair.b.poll();
        }
        assert!(copy(&pair.a.region, 0, 4 << 20) == before);
        pair.b.endpoint.close().unwrap();
    }
}

#[test]
fn a_closed_endpoint_says_so() {
    let Some(ground) = ground() else { return };
    let mut pair = Pair::open(&ground, 1 << 16);
    let name = pair.b.endpoint.name().unwrap();
    pair.a.endpoint.close().unwrap();
    pair.a.endpoint.close().unwrap();
    let (part, peer) = (pair.a.part(0, 1), pair.a.peer());
    let a = &mut pair.a.endpoint;
    for result in [
        a.send(peer, &[part], 1),
        a.inject(peer, &[part]),
        a.receive(part, 1),
        a.write(peer, part, RemoteMemory::default(), 1),
    ] {
        assert!(matches!(result, Err(Refused::Failed(_))), "{result:?}");
    }
    assert!(a.name().is_err());
    assert!(a.insert(&name).is_err());
    assert!(a.remove(peer).is_err());
    assert!(a.poll(&mut Vec::new()).is_err());
    assert!(a.wait_fd().is_none());
    assert!(!a.may_sleep());
    assert_eq!(a.operations_in_flight(), 0);
}

/// Registered memory stays mapped as long as the endpoint or the registration, and not longer.
#[test]
fn registered_memory_lives_as_long_as_its_registration() {
    struct Owner {
        is_freed: Arc<AtomicBool>,
        _memory: Region,
    }
    impl Drop for Owner {
        fn drop(&mut self) {
            self.is_freed.store(true, Ordering::Relaxed);
        }
    }
    let Some(ground) = ground() else { return };
    for gives_up in [false, true] {
        let mut pair = Pair::open(&ground, 1 << 16);
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
        assert!(!is_freed.load(Ordering::Relaxed));
        if gives_up {
            pair.b.endpoint.deregister(memory).unwrap();
        } else {
            pair.b.endpoint.close().unwrap();
        }
        assert!(is_freed.load(Ordering::Relaxed));
    }
}

#[test]
fn an_empty_region_is_not_registered() {
    let Some(ground) = ground() else { return };
    let mut side = Side::open(&ground, 0, 4096, &EndpointOptions::default());
    let refused = side.endpoint.register(&Region::heap(0), Access::LOCAL);
    assert!(refused.is_err());
}

/// Endpoints are opened and closed repeatedly: no resources of them remain in the process or in the
/// kernel.
#[test]
fn nothing_is_left_of_closed_endpoints() {
    let Some(ground) = ground() else { return };
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let mut before = None;
    for round in 0..20 {
        let mut pair = Pair::open(&ground, 4 << 20);
        if round % 2 == 0 {
            pair.connect();
            begin_operations(&mut pair);
        }
        drop(pair);
        let now = descriptors();
        assert_eq!(*before.get_or_insert(now), now, "round {round}");
    }
}

/// An endpoint may move to another thread.
#[test]
fn endpoints_are_send() {
    fn is_send<T: Send>() {}
    is_send::<Endpoint>();
}
