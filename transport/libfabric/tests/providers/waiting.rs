//! File descriptors to wait on.

use crate::pair::{OPTIONS, with_every_provider};
use refrain_libfabric::{Access, Endpoint, EndpointOptions, Part};
use refrain_ring::Region;
use std::os::fd::AsRawFd;

/// A provider that cannot wait is opened all the same; one that can has a
/// descriptor that becomes readable when a message comes.
#[test]
fn an_endpoint_may_have_a_descriptor() {
    with_every_provider(|library, info| {
        let options = EndpointOptions {
            wants_fd: true,
            ..OPTIONS
        };
        let mut endpoint = Endpoint::open(library, info, &options).unwrap();
        println!(
            "  wait fd: {} may sleep: {}",
            endpoint.has_fd(),
            endpoint.may_sleep()
        );
        assert_eq!(endpoint.has_fd(), endpoint.wait_fd().is_some());
        assert!(endpoint.has_fd() || !endpoint.may_sleep());
        if let Some(fd) = endpoint.wait_fd() {
            assert!(fd.as_raw_fd() >= 0);
        }
        let without = Endpoint::open(library, info, &OPTIONS).unwrap();
        assert!(!without.has_fd());

        // A message to itself: not sleeping before it is there.
        let region = Region::heap(4096);
        let memory = endpoint.register(&region, 0, 4096, Access::LOCAL).unwrap();
        let me = endpoint.name().unwrap();
        let me = endpoint.insert(&me).unwrap();
        let part = |offset| Part {
            memory,
            offset,
            bytes: 64,
        };
        endpoint.receive(part(1024), 1).unwrap();
        let mut completions = Vec::new();
        let mut is_sent = false;
        for _ in 0..1_000_000 {
            if !is_sent {
                is_sent = endpoint.send(me, &[part(0)], 2).is_ok();
            }
            endpoint.poll(&mut completions).unwrap();
            if completions.len() == 2 {
                break;
            }
        }
        assert_eq!(completions.len(), 2, "a message to itself");
    });
}
