//! File descriptors to wait on.

use crate::pair::{OPTIONS, Pair, with_every_provider};
use refrain_libfabric::{Access, Endpoint, EndpointOptions, MessageEndpoint, Part};
use refrain_ring::Region;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsRawFd;

/// A provider that has no descriptor can be opened, too.
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

        // A message to itself: the endpoint must not sleep before it has arrived.
        let region = Region::heap(4096);
        let memory = endpoint.register(&region, Access::LOCAL).unwrap();
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

/// An endpoint that may sleep is woken by a message.
#[test]
fn a_message_wakes_who_waits_for_it() {
    with_every_provider(|library, info| {
        let options = EndpointOptions {
            wants_fd: true,
            ..OPTIONS
        };
        let mut pair = Pair::open_with(library, info, 4096, &options);
        if !pair.b.endpoint.has_fd() {
            println!("  skipped waiting: no file descriptor");
            return;
        }
        let (peer, a, b) = (pair.a.peer, pair.a.memory, pair.b.memory);
        let part = |memory| Part {
            memory,
            offset: 0,
            bytes: 64,
        };
        for round in 0..20 {
            pair.start(|pair| pair.b.endpoint.receive(part(b), 1));
            pair.until(|pair| pair.b.endpoint.may_sleep().then_some(()));
            if round == 0 {
                // The connection needs both sides.
                pair.start(|pair| pair.a.endpoint.send(peer, &[part(a)], 2));
                pair.until(|pair| pair.b.completion(1));
                pair.until(|pair| pair.a.completion(2));
                continue;
            }
            let mut is_sent = false;
            let mut wakes = 0;
            while pair.b.completions.is_empty() {
                is_sent = is_sent || pair.a.endpoint.send(peer, &[part(a)], 2).is_ok();
                // The message leaves without calls of the receiver.
                for _ in 0..100 {
                    pair.a.poll();
                }
                if pair.b.endpoint.may_sleep() {
                    let fd = pair.b.endpoint.wait_fd().unwrap();
                    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
                    let limit = Timespec {
                        tv_sec: 20,
                        tv_nsec: 0,
                    };
                    assert_eq!(poll(&mut fds, Some(&limit)).unwrap(), 1, "nobody woke us");
                    wakes += 1;
                }
                pair.b.poll();
            }
            assert!(wakes < 1000, "woken for nothing");
            pair.until(|pair| pair.b.completion(1));
            pair.until(|pair| pair.a.completion(2));
        }
    });
}
