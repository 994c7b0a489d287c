//! A server that clients join and leave repeatedly.

use crate::whole::{leave, with_every_level};
use refrain_eventlog::Level;

/// Rings that are left may stay mapped in the server; some do.
const MAPPED_MAX: usize = 20;
const TIMES: u32 = 100;

/// Rings that a process has mapped.
fn mapped(process: u32) -> usize {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
    maps.lines().filter(|line| line.contains("ring-")).count()
}

#[test]
fn rings_that_were_left_are_given_back() {
    with_every_level(|place| {
        if !place.setup.provider.starts_with("tcp") || place.level != Level::Placed {
            return;
        }
        let server = place.serve();
        for _ in 0..TIMES {
            leave(place.client(0));
            let mapped = mapped(server.id());
            assert!(mapped <= MAPPED_MAX, "{mapped} rings are mapped");
        }
        server.end();
    });
}
