//! Connections that break, and are replaced automatically.

use crate::bytes::{put_word, word};
use crate::pair::{Ground, Pair, ground};
use refrain_verbs::{Completion, Kind, MessageEndpoint, Refused};
use std::process::Command;

/// The link between the two ports, in the guest of `ci/softroce`; repaired on drop.
struct Link;

impl Link {
    fn of(_: &Ground) -> Option<Self> {
        if std::env::var_os("SOFTROCE_DEV0").is_none() {
            println!("skipped cutting the link: not in the guest of ci/softroce");
            return None;
        }
        Some(Self)
    }

    fn turn(&self, how: &[&str]) {
        let status = Command::new("softroce-link").args(how).status().unwrap();
        assert!(status.success(), "softroce-link {how:?}");
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.turn(&["heal"]);
    }
}

/// A sender of numbered messages, which begins a new *era* whenever one fails, and the messages
/// that its peer receives.
struct Stream {
    pair: Pair,
    era: u64,
    next: u64,
    in_flight: Vec<u64>,
    received: Vec<(u64, u64)>,
    failures: usize,
    /// Bytes of each message.
    bytes: usize,
    is_over: bool,
}

const SLOTS: u64 = 256;

impl Stream {
    fn new(ground: &Ground, bytes: usize) -> Self {
        let mut pair = Pair::open(ground, SLOTS as usize * bytes);
        for slot in 0..SLOTS {
            let part = pair.b.part(slot as usize * bytes, bytes);
            pair.b.endpoint.receive(part, slot).unwrap();
        }
        Self {
            pair,
            era: 0,
            next: 0,
            in_flight: Vec::new(),
            received: Vec::new(),
            failures: 0,
            bytes,
            is_over: false,
        }
    }

    /// Sends and receives as many messages as possible now.
    fn step(&mut self) {
        while !self.is_over && self.in_flight.len() < SLOTS as usize / 2 && self.send() {}
        self.pair.a.poll();
        self.pair.b.poll();
        for completion in core::mem::take(&mut self.pair.a.completions) {
            self.sent(&completion);
        }
        for completion in core::mem::take(&mut self.pair.b.completions) {
            assert_eq!(completion.kind, Kind::Receive);
            assert_eq!(completion.outcome, Ok(()));
            assert_eq!(completion.bytes, self.bytes);
            let offset = completion.token as usize * self.bytes;
            let region = &self.pair.b.region;
            self.received
                .push((word(region, offset), word(region, offset + 8)));
            let part = self.pair.b.part(offset, self.bytes);
            self.pair
                .b
                .endpoint
                .receive(part, completion.token)
                .unwrap();
        }
    }

    fn send(&mut self) -> bool {
        let slot = (0..SLOTS)
            .find(|slot| !self.in_flight.contains(slot))
            .unwrap();
        let offset = slot as usize * self.bytes;
        put_word(&self.pair.a.region, offset, self.era);
        put_word(&self.pair.a.region, offset + 8, self.next);
        let part = self.pair.a.part(offset, self.bytes);
        let peer = self.pair.a.peer();
        match self.pair.a.endpoint.send(peer, &[part], slot) {
            Ok(()) => {
                self.in_flight.push(slot);
                self.next += 1;
                true
            }
            Err(Refused::Again | Refused::Full) => false,
            Err(error) => panic!("{error}"),
        }
    }

    fn sent(&mut self, completion: &Completion) {
        assert_eq!(completion.kind, Kind::Send);
        let at = self
            .in_flight
            .iter()
            .position(|slot| *slot == completion.token);
        self.in_flight
            .remove(at.expect("each operation completes once"));
        if let Err(error) = &completion.outcome {
            if self.failures == 0 {
                println!("{error}");
            }
            self.failures += 1;
            self.era = self.pair.a.endpoint.counters().connections;
        }
    }

    #[track_caller]
    fn until(&mut self, mut done: impl FnMut(&Self) -> bool) {
        let began = std::time::Instant::now();
        while !done(self) {
            self.step();
            assert!(
                began.elapsed() < crate::pair::LIMIT,
                "{:?} {:?}",
                self.pair.a.endpoint.counters(),
                self.pair.b.endpoint.counters()
            );
        }
    }

    /// Checks that messages arrived in order and not twice, and that no message sent before the
    /// connection broke arrived after one that was sent on its replacement.
    #[track_caller]
    fn check(&self) {
        for both in self.received.windows(2) {
            assert!(both[0].1 < both[1].1, "{both:?}: again, or out of order");
            assert!(both[0].0 <= both[1].0, "{both:?}: of an older connection");
        }
    }
}

/// A cut link: operations fail. When it is repaired, the connection is made again, and no message
/// of the old one arrives.
#[test]
fn a_cut_link_is_mended() {
    let Some(ground) = ground() else { return };
    let Some(link) = Link::of(&ground) else {
        return;
    };
    let mut stream = Stream::new(&ground, 16);
    stream.until(|stream| stream.received.len() >= 1000);
    for round in 1..=2 {
        link.turn(&["cut"]);
        stream.failures = 0;
        stream.until(|stream| stream.failures > 0 && stream.in_flight.is_empty());
        let received = stream.received.len();
        link.turn(&["heal"]);
        stream.until(|stream| stream.received.len() >= received + 1000);
        stream.check();
        assert!(stream.pair.a.endpoint.counters().replacements >= round);
        assert!(stream.pair.a.endpoint.counters().connections > round);
    }
    println!("{:?}", stream.pair.a.endpoint.counters());
    println!("{:?}", stream.pair.b.endpoint.counters());
}

/// A link that loses, repeats, delays and reorders packets loses no message.
#[test]
fn a_bad_link_loses_nothing() {
    let Some(ground) = ground() else { return };
    let Some(link) = Link::of(&ground) else {
        return;
    };
    link.turn(&[
        "netem",
        "0",
        "loss",
        "3%",
        "delay",
        "1ms",
        "1ms",
        "duplicate",
        "3%",
    ]);
    let mut stream = Stream::new(&ground, 16);
    stream.until(|stream| stream.received.len() >= 500);
    stream.check();
    println!("{:?}", stream.pair.a.endpoint.counters());
}

/// The port goes down and comes up, detected by the device or by retries.
#[test]
fn a_port_that_was_down_is_used_again() {
    let Some(ground) = ground() else { return };
    let Some(link) = Link::of(&ground) else {
        return;
    };
    let mut stream = Stream::new(&ground, 16);
    stream.until(|stream| stream.received.len() >= 100);
    link.turn(&["down"]);
    stream.until(|stream| stream.failures > 0 && stream.in_flight.is_empty());
    link.turn(&["up"]);
    let received = stream.received.len();
    stream.until(|stream| stream.received.len() >= received + 100);
    stream.check();
    let counters = *stream.pair.a.endpoint.counters();
    println!("{counters:?}");
    assert!(counters.port_events > 0);
}

/// Connections break during messages of many packets: each receive that had taken a part of a
/// message is posted again.
#[test]
fn broken_messages_lose_no_receive() {
    let Some(ground) = ground() else { return };
    let Some(link) = Link::of(&ground) else {
        return;
    };
    let mut stream = Stream::new(&ground, 100_000);
    for _ in 0..4 {
        let received = stream.received.len();
        stream.until(|stream| stream.received.len() >= received + 20);
        link.turn(&["cut"]);
        stream.failures = 0;
        stream.until(|stream| stream.failures > 0 && stream.in_flight.is_empty());
        link.turn(&["heal"]);
    }
    let received = stream.received.len();
    stream.until(|stream| stream.received.len() >= received + 20);
    stream.check();
    stream.is_over = true;
    stream.until(|stream| stream.in_flight.is_empty());
    // Every receive that is posted now gets a message.
    let last = stream.next - 1;
    stream.until(|stream| stream.received.last().unwrap().1 == last);
    let Stream { mut pair, .. } = stream;
    let posted = pair.b.endpoint.operations_in_flight();
    assert_eq!(posted, SLOTS as usize);
    let mut sent = 0;
    pair.until(|pair| {
        let peer = pair.a.peer();
        while sent < posted && pair.a.endpoint.inject(peer, &[]).is_ok() {
            sent += 1;
        }
        (pair.b.completions.len() == posted).then_some(())
    });
    println!("{:?}", pair.b.endpoint.counters());
}
