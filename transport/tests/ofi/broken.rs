//! Connections that break below the provider in the middle of traffic: frames that were lost with
//! them are sent again from the log.

#![allow(unsafe_code, reason = "borrows the provider's sockets by number")]

use crate::name::Dice;
use crate::process::in_processes;
use crate::setting::setting;
use crate::station::{PATIENCE, Station};
use refrain_ring::{Incarnation, Rank};
use refrain_transport::fabric::Fabric;
use rustix::net::{AddressFamily, Shutdown, SocketType};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

const RANKS: [Rank; 2] = [Rank(0), Rank(1)];
const BREAKS: usize = 8;
const ENDLESS: u64 = 1 << 40;
/// The limit for peers that cannot be reached any more.
const LOST_AFTER: Duration = Duration::from_secs(2);

in_processes! {
    over_tcp => breaks("tcp", false, 1, After::GoesOn);
    over_net => breaks("net", false, 2, After::GoesOn);
    over_tcp_of_the_second_library => breaks("tcp", true, 4, After::GoesOn);
    over_tcp_under_rxm_of_the_second_library => breaks("tcp;ofi_rxm", true, 5, After::GoesOn);
}

/// The expected state after a connection broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum After {
    /// The provider connects again, the fabric sends again.
    GoesOn,
    /// The provider never connects again: both ranks report the other one.
    Lost,
}

/// Two ranks in this process, so that all its sockets are known.
struct Pair([Station; 2]);

impl Pair {
    fn turn(&mut self) {
        for station in &mut self.0 {
            station.turn();
        }
    }

    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut [Station; 2]) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(&mut self.0) {
            let is_late = Instant::now() > end;
            assert!(
                !is_late,
                "it never is so that {what}: {} | {}; lost {:?} {:?}",
                self.0[0].state(),
                self.0[1].state(),
                self.0[0].inbox.lost,
                self.0[1].inbox.lost,
            );
            self.turn();
        }
    }

    fn frames(&self) -> [u64; 2] {
        [0, 1].map(|at| self.0[at].inbox.frames(RANKS[1 - at]))
    }
}

fn breaks(provider: &str, second: bool, seed: u64, after: After) {
    let Some(mut setting) = setting(provider, second) else {
        return;
    };
    setting.size = 2;
    if after == After::Lost {
        setting.lost_after = LOST_AFTER;
    }
    let mut dice = Dice(seed << 32);
    println!("seed {}", dice.0);
    let mut pair = Pair(RANKS.map(|rank| Station::open(&setting, rank, Incarnation(0))));
    let addresses = [0, 1].map(|at: usize| pair.0[at].address());
    for at in [0, 1] {
        let peer = RANKS[1 - at];
        pair.0[at].connect(peer, Incarnation(0), &addresses[1 - at]);
        pair.0[at].set_goal(peer, ENDLESS);
    }
    pair.until("frames flow", |stations| {
        (0..2).all(|at| stations[at].inbox.frames(RANKS[1 - at]) > 100)
    });
    for round in 0..BREAKS {
        for _ in 0..dice.below(400) {
            pair.turn();
        }
        let before = pair.frames();
        let broken = break_connections();
        println!("break {round}: {broken} sockets, after {before:?} frames");
        assert!(broken > 0, "there was nothing to break");
        if after == After::Lost {
            return is_lost(&mut pair);
        }
        pair.until("frames flow again in both directions", |stations| {
            (0..2).all(|at| stations[at].inbox.frames(RANKS[1 - at]) > before[at] + 300)
        });
    }
    all_arrives(&mut pair);
}

/// All frames that were sent arrive once, and both logs are free in the end.
fn all_arrives(pair: &mut Pair) {
    let sent = [0, 1].map(|at| pair.0[at].stop(RANKS[1 - at]));
    pair.until("all has come and was let go", |stations| {
        (0..2).all(|at| {
            let (station, peer) = (&stations[at], RANKS[1 - at]);
            station.inbox.frames(peer) == sent[1 - at]
                && station.inbox.controls(peer) == Station::controls_of(sent[1 - at])
                && station.inbox.landings_of(peer) == 0
                && station.flows[&peer].is_released()
        })
    });
    pair.until("both are drained", |stations| {
        stations
            .iter_mut()
            .all(|station| station.fabric.is_drained())
    });
    for station in &pair.0 {
        assert_eq!(station.inbox.lost, [], "no peer is lost");
    }
}

/// Both ranks report the other one, once, and continue without it.
fn is_lost(pair: &mut Pair) {
    pair.until("both report a loss", |stations| {
        stations
            .iter()
            .all(|station| !station.inbox.lost.is_empty())
    });
    for _ in 0..10_000 {
        pair.turn();
    }
    for at in [0, 1] {
        let peer = RANKS[1 - at];
        assert_eq!(pair.0[at].inbox.lost, [peer]);
        pair.0[at].disconnect(peer);
    }
}

/// Shuts down every TCP connection of this process. Returns the number of sockets.
fn break_connections() -> usize {
    let numbers: Vec<i32> = std::fs::read_dir("/proc/self/fd")
        .expect("Linux has it")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let mut broken = 0;
    for number in numbers {
        // SAFETY: only looked at during this call, in which no code of this
        // process opens or closes descriptors on this thread; a number that is
        // gone or another one by now is refused or is no connection.
        let socket = unsafe { BorrowedFd::borrow_raw(number) };
        let is_tcp = rustix::net::sockopt::socket_type(socket) == Ok(SocketType::STREAM)
            && rustix::net::sockopt::socket_domain(socket)
                .is_ok_and(|family| [AddressFamily::INET, AddressFamily::INET6].contains(&family));
        let is_connected = is_tcp && rustix::net::getpeername(socket).is_ok();
        if is_connected && rustix::net::shutdown(socket, Shutdown::Both).is_ok() {
            broken += 1;
        }
    }
    broken
}
