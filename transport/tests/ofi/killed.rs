//! A peer that is killed many times, and comes back each time as a new process. Of each life a
//! prefix of its frames arrives, and no frame after its fence. No other rank is disturbed.

use crate::name::Dice;
use crate::peer::{Counts, Peer};
use crate::process::in_processes;
use crate::setting::{Setting, setting};
use crate::station::Station;
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::Fabric;

const SURVIVOR: Rank = Rank(0);
const VICTIM: Rank = Rank(1);
const WITNESS: Rank = Rank(2);
const LIVES: u32 = 8;
/// More frames than are ever sent.
const ENDLESS: u64 = 1 << 40;

in_processes! {
    over_tcp => killed("tcp", false, 1);
    over_shm => killed("shm", false, 2);
    over_net => killed("net", false, 4);
    over_tcp_with_reads => killed_with_reads("tcp", false, 5);
    over_tcp_of_the_second_library => killed("tcp", true, 7);
    over_tcp_under_rxm_of_the_second_library => killed("tcp;ofi_rxm", true, 8);
    over_shm_of_the_second_library => killed("shm", true, 9);
}

fn killed(provider: &str, second: bool, seed: u64) {
    if let Some(setting) = setting(provider, second) {
        live_and_die(&setting, Dice(seed << 32));
    }
}

fn killed_with_reads(provider: &str, second: bool, seed: u64) {
    if let Some(mut setting) = setting(provider, second) {
        setting.overrides.distant_bytes_min = Some(4096);
        live_and_die(&setting, Dice(seed << 32));
    }
}

fn live_and_die(setting: &Setting, mut dice: Dice) {
    println!("seed {}", dice.0);
    let mut survivor = Station::open(setting, SURVIVOR, Incarnation(0));
    let mut witness = Peer::start(setting, WITNESS, Incarnation(0));
    witness.connect(&mut survivor, SURVIVOR, Incarnation(0));
    send_both_ways(&mut survivor, &mut witness, WITNESS, ENDLESS);
    let mut lives_on: Option<Peer> = None;
    for life in 0..LIVES {
        let mut victim = Peer::start(setting, VICTIM, Incarnation(life));
        victim.connect(&mut survivor, SURVIVOR, Incarnation(0));
        send_both_ways(&mut survivor, &mut victim, VICTIM, ENDLESS);
        // Each second life is short: it dies while it is being connected.
        let frames = dice.below(if life % 2 == 0 { 1500 } else { 20 });
        survivor.until("the victim's frames come", |survivor| {
            survivor.inbox.frames(VICTIM) >= frames
        });
        if let Some(mut old) = lives_on.take() {
            kill(&mut old, &mut survivor, setting);
        }
        // Each fourth life is fenced without knowing it: it keeps sending. Not with reads: the
        // survivor's log is freed, and the life would read bytes of other frames there, as the
        // contract allows.
        let reads = setting.provider == "shm" || setting.overrides.distant_bytes_min.is_some();
        let is_killed = reads || life % 4 != 3;
        if is_killed {
            kill(&mut victim, &mut survivor, setting);
        }
        // The survivor does not know yet.
        let turns_until_known = dice.below(3000);
        println!(
            "life {life}: killed {is_killed} after {frames} frames, fenced {turns_until_known} turns later"
        );
        for _ in 0..turns_until_known {
            survivor.turn();
        }
        let received = survivor.inbox.frames(VICTIM);
        assert!(received >= frames);
        survivor.disconnect(VICTIM);
        survivor.until("the landings of a fenced peer end", |survivor| {
            survivor.inbox.landings_of(VICTIM) == 0
        });
        if is_killed {
            victim.clean_up();
        } else {
            lives_on = Some(victim);
        }
        goes_on(&mut survivor, &mut witness);
        survivor.inbox.verify_lost();
    }
    assert_eq!(survivor.inbox.lost, [], "no loss was to be reported");
    ends_well(setting, &mut survivor, &mut witness);
}

fn kill(victim: &mut Peer, survivor: &mut Station, setting: &Setting) {
    victim.leave_the_provider(survivor, &setting.provider);
    victim.kill();
}

fn send_both_ways(station: &mut Station, peer: &mut Peer, rank: Rank, frames: u64) {
    station.set_goal(rank, frames);
    peer.order(&format!("send {} {frames}", SURVIVOR.0));
    peer.wait_for_answer(station);
}

/// The channel with the witness continues, in both directions.
fn goes_on(survivor: &mut Station, witness: &mut Peer) {
    let before = (
        survivor.inbox.frames(WITNESS),
        survivor.flows[&WITNESS].released,
    );
    survivor.until("the witness continues", |survivor| {
        survivor.inbox.frames(WITNESS) > before.0 + 200
            && survivor.flows[&WITNESS].released > before.1
    });
    let there = witness.counts(survivor, SURVIVOR).frames;
    while witness.counts(survivor, SURVIVOR).frames <= there {}
}

/// One more life, which is not killed: all frames that were sent arrive.
fn ends_well(setting: &Setting, survivor: &mut Station, witness: &mut Peer) {
    let mut last = Peer::start(setting, VICTIM, Incarnation(LIVES));
    last.connect(survivor, SURVIVOR, Incarnation(0));
    send_both_ways(survivor, &mut last, VICTIM, 600);
    witness.order(&format!("stop {}", SURVIVOR.0));
    let from_witness: u64 = witness.wait_for_answer(survivor).parse().expect("a number");
    let to_witness = survivor.stop(WITNESS);
    survivor.until("all has come", |survivor| {
        let came = [(VICTIM, 600), (WITNESS, from_witness)]
            .iter()
            .all(|(from, frames)| {
                survivor.inbox.frames(*from) == *frames
                    && survivor.inbox.controls(*from) == Station::controls_of(*frames)
                    && survivor.inbox.landings_of(*from) == 0
                    && survivor.flows[from].is_released()
            });
        came && survivor.inbox.kept.is_empty()
    });
    for (peer, sent, frames) in [(&mut last, 600, 600), (witness, from_witness, to_witness)] {
        let expected = Counts {
            sent,
            frames,
            controls: Station::controls_of(frames),
            is_quiet: true,
        };
        peer.counts_are(survivor, SURVIVOR, |counts| counts == expected);
    }
    survivor.until("the survivor is drained", |survivor| {
        survivor.fabric.is_drained()
    });
}
