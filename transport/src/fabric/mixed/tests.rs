//! Each call goes to the side where the peer is, and both sides get their turn.

use super::*;
use crate::gate::Gate;
use refrain_ring::Ssn;
use std::cell::RefCell;
use std::rc::Rc;

/// All calls of both sides, in their order.
type Calls = Rc<RefCell<Vec<String>>>;

/// A side that records its calls.
struct Recorder {
    name: &'static str,
    attributes: Attributes,
    calls: Calls,
    /// Number of calls that each poll reports.
    busy: usize,
    drained: bool,
}

impl Recorder {
    fn new(name: &'static str, calls: &Calls) -> Self {
        Self {
            name,
            attributes: Attributes {
                name: name.into(),
                reads_in_place: name == "near",
                follows_references: name == "near",
                frame_payload_bytes_max: 1000,
                attached_bytes_max: if name == "near" { 1000 } else { 50 },
                fragment_bytes: if name == "near" { 100 } else { 200 },
                eager_bytes_max: if name == "near" { 90 } else { 80 },
                staged_bytes: 0..0,
            },
            calls: Rc::clone(calls),
            busy: 0,
            drained: true,
        }
    }

    fn note(&self, what: impl core::fmt::Display) {
        self.calls
            .borrow_mut()
            .push(format!("{} {what}", self.name));
    }
}

impl Fabric for Recorder {
    fn attributes(&self) -> &Attributes {
        &self.attributes
    }
    fn address(&self) -> Address {
        Address {
            bytes: self.name.into(),
            memory: None,
        }
    }
    fn connect(
        &mut self,
        peer: Rank,
        incarnation: Incarnation,
        address: &Address,
    ) -> Result<(), FabricError> {
        let address = String::from_utf8_lossy(&address.bytes).into_owned();
        self.note(format_args!("connect {peer} {incarnation} {address}"));
        Ok(())
    }
    fn disconnect(&mut self, peer: Rank) {
        self.note(format_args!("disconnect {peer}"));
    }
    fn post(&mut self, _pass: Pass, _peer: Rank, _frame: &Frame) -> Result<(), Refusal> {
        unreachable!("shown by the conformance suite: a frame needs a log")
    }
    fn post_control(&mut self, _pass: Pass, peer: Rank, _: Control) -> Result<(), Refusal> {
        self.note(format_args!("control {peer}"));
        Ok(())
    }
    fn released(&mut self, peer: Rank) -> Position {
        self.note(format_args!("released {peer}"));
        Position(0)
    }
    fn poll(&mut self, _sink: &mut dyn Sink) -> Result<usize, FabricError> {
        self.note("poll");
        Ok(self.busy)
    }
    fn kept(&self, place: Place, _payload_bytes: usize) -> &[u8] {
        self.note(format_args!("kept {}", place.source));
        &[]
    }
    fn is_drained(&mut self) -> bool {
        self.drained
    }
    fn let_go(&mut self, place: Place) {
        self.note(format_args!("let go {}", place.source));
    }
    fn fetch(&mut self, place: Place, _landing: Landing) {
        self.note(format_args!("fetch {}", place.source));
    }
    fn close(&mut self) {
        self.note("close");
    }
    fn wait(&mut self, timeout: Duration) {
        self.note(format_args!("wait {} us", timeout.as_micros()));
    }
}

struct Nothing;

impl Sink for Nothing {
    fn frame(&mut self, _: super::super::Arrival<'_>) -> super::super::Disposition {
        unreachable!("recorders hand nothing over")
    }
    fn control(&mut self, _: Rank, _: Control) {}
    fn landed(&mut self, _: u64, _: super::super::Landed) {}
    fn peer_lost(&mut self, _: Rank) {}
}

/// Rank 0 with rank 1 near and rank 2 far.
fn mixed() -> (Mixed<Recorder, Recorder>, Calls) {
    let calls = Calls::default();
    let sides = vec![Side::Near, Side::Near, Side::Far];
    let (near, far) = (Recorder::new("near", &calls), Recorder::new("far", &calls));
    (Mixed::new(near, far, sides), calls)
}

fn take(calls: &Calls) -> Vec<String> {
    calls.borrow_mut().drain(..).collect()
}

#[test]
fn each_call_goes_where_the_peer_is() {
    let (mut mixed, calls) = mixed();
    let address = mixed.address();
    for (peer, side) in [(1, "near"), (2, "far")] {
        let rank = Rank(peer);
        let place = Place {
            source: rank,
            position: Position(0),
            locator: 0,
        };
        mixed.connect(rank, Incarnation(3), &address).unwrap();
        let pass = Gate::default().pass_unseen();
        let control = Control::Horizon { ssn: Ssn(0) };
        mixed.post_control(pass, rank, control).unwrap();
        mixed.released(rank);
        mixed.kept(place, 0);
        mixed.let_go(place);
        mixed.disconnect(rank);
        let expected = [
            format!("{side} connect {peer} 3 {side}"),
            format!("{side} control {peer}"),
            format!("{side} released {peer}"),
            format!("{side} kept {peer}"),
            format!("{side} let go {peer}"),
            format!("{side} disconnect {peer}"),
        ];
        assert_eq!(take(&calls), expected);
        assert_eq!(mixed.attributes_to(rank).name, side);
    }
    mixed.close();
    assert_eq!(take(&calls), ["near close", "far close"]);
}

#[test]
fn what_holds_towards_every_peer_is_the_least_of_both() {
    let (mixed, _) = mixed();
    let attributes = mixed.attributes();
    assert_eq!(attributes.name, "near+far");
    assert!(!attributes.reads_in_place);
    assert_eq!(
        (attributes.fragment_bytes, attributes.eager_bytes_max),
        (100, 80)
    );
}

#[test]
fn an_address_without_the_part_that_is_needed_is_refused() {
    let (mut mixed, calls) = mixed();
    let own = |side: &str| {
        Some(Address {
            bytes: side.into(),
            memory: None,
        })
    };
    for (rank, address, words) in [
        (1, join(None, own("far")), "its own host"),
        (2, join(own("near"), None), "other hosts"),
        (1, own("strange").unwrap(), "this version does not know"),
    ] {
        let refused = mixed.connect(Rank(rank), Incarnation(0), &address);
        let words_found = refused.unwrap_err().to_string();
        assert!(words_found.contains(words), "{words_found}");
    }
    assert!(take(&calls).is_empty(), "neither side was asked");
}

#[test]
fn a_busy_near_side_does_not_starve_the_far_one() {
    let (mut mixed, calls) = mixed();
    for _ in 0..3 {
        mixed.poll(&mut Nothing).unwrap();
    }
    assert_eq!(
        take(&calls),
        ["near poll", "far poll"].repeat(3),
        "idle: both"
    );
    mixed.near.busy = 1;
    let polls = 10 * NEAR_POLLS_MAX;
    (0..polls).for_each(|_| assert_eq!(mixed.poll(&mut Nothing).unwrap(), 1));
    let far = take(&calls)
        .iter()
        .filter(|call| *call == "far poll")
        .count();
    assert_eq!(far as u32, polls / NEAR_POLLS_MAX);
}

#[test]
fn a_wait_is_one_slice_that_grows_while_nothing_comes() {
    let (mut mixed, calls) = mixed();
    let waited = |mixed: &mut Mixed<_, _>, timeout| {
        mixed.wait(Duration::from_micros(timeout));
        take(&calls).join(", ")
    };
    let long = 1_000_000;
    for slice in [50, 100, 200, 400, 800, 1600, 2000, 2000] {
        assert_eq!(
            waited(&mut mixed, long),
            format!("near wait {slice} us, far wait 0 us")
        );
    }
    assert_eq!(waited(&mut mixed, 70), "near wait 70 us, far wait 0 us");
    mixed.far.busy = 1;
    mixed.poll(&mut Nothing).unwrap();
    take(&calls);
    assert_eq!(waited(&mut mixed, long), "near wait 50 us, far wait 0 us");
}

#[test]
fn it_is_drained_when_both_are() {
    let (mut mixed, _) = mixed();
    assert!(mixed.is_drained());
    mixed.far.drained = false;
    assert!(!mixed.is_drained());
    mixed.far.drained = true;
    mixed.near.drained = false;
    assert!(!mixed.is_drained());
}
