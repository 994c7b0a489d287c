//! Silent peers: stopped ones, and addresses where no process listens.

use crate::peer::Peer;
use crate::process::in_processes;
use crate::setting::{Setting, setting};
use crate::station::Station;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::FabricError;
use std::time::{Duration, Instant};

const OWN: Rank = Rank(0);
const OTHER: Rank = Rank(1);
/// How long a silent peer is not suspected.
const SUSPECT_AFTER: Duration = Duration::from_secs(1);
/// How long the test watches that nothing is reported.
const LOOKED_FOR: Duration = Duration::from_millis(1500);
const FRAMES: u64 = 400;

in_processes! {
    stopped_over_tcp => stopped("tcp", false);
    stopped_over_shm => stopped("shm", false);
    stopped_over_net => stopped("net", false);
    stopped_over_tcp_of_the_second_library => stopped("tcp", true);
    stopped_over_tcp_under_rxm_of_the_second_library => stopped("tcp;ofi_rxm", true);
    stopped_over_shm_of_the_second_library => stopped("shm", true);
    absent_peer_over_tcp => absent_peer("tcp", false);
    absent_peer_over_shm => absent_peer("shm", false);
    absent_peer_over_net => absent_peer("net", false);
    absent_peer_over_tcp_of_the_second_library => absent_peer("tcp", true);
    absent_peer_over_tcp_under_rxm_of_the_second_library => absent_peer("tcp;ofi_rxm", true);
    absent_peer_over_shm_of_the_second_library => absent_peer("shm", true);
}

fn stopped(provider: &str, second: bool) {
    if let Some(setting) = setting(provider, second) {
        is_never_suspected(&setting);
        let suspect_after = Some(SUSPECT_AFTER);
        let job = setting.job + 1;
        is_suspected(&Setting {
            suspect_after,
            job,
            ..setting
        });
    }
}

/// Two ranks that have exchanged frames.
fn acquainted(setting: &Setting) -> (Station, Peer) {
    let mut own = Station::open(setting, OWN, Incarnation(0));
    let mut other = Peer::start(setting, OTHER, Incarnation(0));
    other.connect(&mut own, OWN, Incarnation(0));
    other.order(&format!("send {} {FRAMES}", OWN.0));
    own.set_goal(OTHER, FRAMES);
    own.until("frames come and go", |own| {
        own.inbox.frames(OTHER) == FRAMES && own.flows[&OTHER].is_released()
    });
    other.wait_for_answer(&mut own);
    (own, other)
}

fn look_for(own: &mut Station, time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        own.turn_or_wait();
    }
}

fn is_never_suspected(setting: &Setting) {
    let (mut own, mut other) = acquainted(setting);
    other.leave_the_provider(&mut own, &setting.provider);
    other.stop();
    own.set_goal(OTHER, 2 * FRAMES);
    look_for(&mut own, LOOKED_FOR);
    assert_eq!(own.inbox.lost, [], "silence is no reason");
    other.go_on(&mut own);
    own.until("all has come that waited", |own| {
        own.flows[&OTHER].is_released()
    });
    other.counts_are(&mut own, OWN, |counts| {
        counts.frames == 2 * FRAMES && counts.controls == Station::controls_of(2 * FRAMES)
    });
    assert_eq!(own.inbox.lost, []);
}

fn is_suspected(setting: &Setting) {
    let (mut own, mut other) = acquainted(setting);
    // A peer that leaves nothing unanswered is not suspected.
    look_for(&mut own, SUSPECT_AFTER + SUSPECT_AFTER / 4);
    assert_eq!(own.inbox.lost, [], "it has answered all");
    other.leave_the_provider(&mut own, &setting.provider);
    other.stop();
    own.set_goal(OTHER, 2 * FRAMES);
    own.until("the silent rank is reported", |own| {
        !own.inbox.lost.is_empty()
    });
    look_for(&mut own, SUSPECT_AFTER + SUSPECT_AFTER / 4);
    assert_eq!(own.inbox.lost, [OTHER], "it is reported once");
    own.disconnect(OTHER);
    own.until("no landing is left", |own| {
        own.inbox.landings_of(OTHER) == 0
    });
}

fn absent_peer(provider: &str, second: bool) {
    let Some(setting) = setting(provider, second) else {
        return;
    };
    // Killed before any frame was sent to it; its leftovers exist or not.
    for is_cleaned_up in [false, true] {
        let mut own = Station::open(&setting, OWN, Incarnation(0));
        let mut other = Peer::start(&setting, OTHER, Incarnation(0));
        other.kill();
        if is_cleaned_up {
            other.clean_up();
        }
        own.connect(OTHER, Incarnation(0), &other.address);
        let timeout = Duration::from_secs(1);
        let begin = Instant::now();
        let greeted = own.fabric.greet(Some(OTHER), &[], timeout, &mut |_| false);
        let lasted = begin.elapsed();
        match greeted {
            Err(FabricError::Silent { peer, address, .. }) => {
                assert_eq!(peer, OTHER);
                println!("silent: {address}");
                assert!(address.len() > 3, "{address:?} is no address");
            }
            other => panic!("{other:?} instead of silence"),
        }
        assert!(lasted < timeout * 10, "it hung for {lasted:?}");
        let is_dead = own
            .fabric
            .greet(Some(OTHER), &[], Duration::MAX, &mut |_| true);
        is_dead.expect("no answer is waited for");
        for _ in 0..1000 {
            own.turn();
        }
        own.disconnect(OTHER);
        own.turn();
    }
}
