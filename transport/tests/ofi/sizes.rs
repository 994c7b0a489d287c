//! Payload lengths around all limits at which frames are sent differently.

use crate::peer::Peer;
use crate::process::in_processes;
use crate::setting::{Setting, is_of, setting};
use crate::station::Station;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::network::wire::{BRIEF_BYTES, WIRE_BYTES};
use refrain_transport::fabric::ofi::{Overrides, providers};

const OWN: Rank = Rank(0);
const OTHER: Rank = Rank(1);
/// Bytes of a record before its payload, by the payload's length.
const RECORD_HEADS: [usize; 2] = [48, 64];

in_processes! {
    over_tcp => sizes("tcp", false);
    over_shm => sizes("shm", false);
    over_net => sizes("net", false);
    over_tcp_of_the_second_library => sizes("tcp", true);
    over_tcp_under_rxm_of_the_second_library => sizes("tcp;ofi_rxm", true);
    over_shm_of_the_second_library => sizes("shm", true);
}

fn overrides() -> Vec<Overrides> {
    let with = |fragment_bytes, distant_bytes_min| Overrides {
        fragment_bytes,
        distant_bytes_min,
        credits: None,
    };
    vec![
        with(None, None),
        with(None, Some(1)),
        with(None, Some(4096)),
        with(Some(1000), None),
        with(Some(1000), Some(0)),
        with(Some(1000), Some(4096)),
        with(Some(1000), Some(100)),
    ]
}

fn sizes(provider: &str, second: bool) {
    let Some(setting) = setting(provider, second) else {
        return;
    };
    for (job, overrides) in (setting.job..).zip(overrides()) {
        println!("{overrides:?}");
        around_limits(Setting {
            overrides,
            job,
            size: 2,
            ..setting.clone()
        });
    }
}

/// Frames of every length arrive in every direction, as a whole message and as a part.
fn around_limits(mut setting: Setting) {
    setting.sizes = limits(&setting);
    let mut own = Station::open(&setting, OWN, Incarnation(0));
    let mut other = Peer::start(&setting, OTHER, Incarnation(0));
    other.connect(&mut own, OWN, Incarnation(0));
    let frames = 6 * setting.sizes.len() as u64;
    other.order(&format!("send {} {frames}", OWN.0));
    own.set_goal(OTHER, frames);
    other.wait_for_answer(&mut own);
    own.until("frames of all lengths come and go", |own| {
        own.inbox.frames(OTHER) == frames
            && own.inbox.landings_of(OTHER) == 0
            && own.inbox.kept.is_empty()
            && own.flows[&OTHER].is_released()
    });
    other.counts_are(&mut own, OWN, |counts| {
        (counts.frames, counts.sent, counts.is_quiet) == (frames, frames, true)
    });
    let is_read = setting
        .overrides
        .distant_bytes_min
        .is_some_and(|bytes| bytes > 0)
        || setting.provider == "shm";
    let can_be_read = own.fabric.attributes().frame_payload_bytes_max > 4096;
    assert!(
        own.inbox.landed > 0 || !(is_read && can_be_read),
        "payload was to be read, and none was"
    );
}

fn limits(setting: &Setting) -> Vec<usize> {
    let station = Station::open(setting, OWN, Incarnation(0));
    let attributes = station.fabric.attributes();
    let offered = providers(setting.library.as_deref()).expect("the library can be loaded");
    let inject_bytes = offered
        .iter()
        .find(|offer| is_of(&offer.name, &setting.provider) && offer.usable.is_ok())
        .expect("looked for before")
        .inject_bytes;
    let mut limits = vec![16, attributes.fragment_bytes, 8 << 10];
    limits.push(attributes.frame_payload_bytes_max);
    limits.extend(setting.overrides.distant_bytes_min);
    limits.push(inject_bytes);
    limits.push(inject_bytes.saturating_sub(BRIEF_BYTES));
    for head in RECORD_HEADS {
        limits.push(inject_bytes.saturating_sub(WIRE_BYTES + head));
    }
    let mut sizes = vec![0, 1];
    for limit in limits {
        sizes.extend([limit.saturating_sub(1), limit, limit + 1]);
    }
    sizes.retain(|bytes| *bytes <= attributes.frame_payload_bytes_max);
    sizes.sort_unstable();
    sizes.dedup();
    println!("  {sizes:?}");
    sizes
}
