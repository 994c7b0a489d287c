//! The suite on libfabric: several endpoints in this process, every provider
//! that any machine has, with the library of the system and a second one
//! (`REFRAIN_LIBFABRIC_SECOND`, see docs/design/testing.md). Verbs under libfabric need a
//! device, which the guest of `ci/softroce` has; elsewhere they are skipped.

use super::greeting::alone_on_libfabric;
use super::on_network::{NetworkHarness, NetworkTiming};
use super::*;
use refrain_ring::{Incarnation, Rank, Region};
use refrain_transport::fabric::FabricError;
use refrain_transport::fabric::network::NetworkOptions;
use refrain_transport::fabric::ofi::{Ofi, OfiOptions, Overrides, Provider, providers};
use std::path::PathBuf;

fn harness(
    ranks: u32,
    library: Option<PathBuf>,
    provider: &'static str,
    overrides: Overrides,
) -> impl Harness {
    let timing = NetworkTiming {
        // soft-RoCE has threads, which wait for a processor where others use them.
        silence: match provider {
            VERBS => Duration::from_millis(50),
            _ => Duration::from_millis(3),
        },
        busy_rounds: if provider == VERBS { 2000 } else { 10_000 },
        cannot_begin_again: match provider {
            "shm" if library.is_some() => {
                Some("shm of libfabric 2.5 crashes when a peer of its own process comes again")
            }
            // Jobs of ci/guest/jobs.table show it, where lives are processes.
            VERBS => Some("an endpoint of libfabric's verbs ends with its process"),
            _ => None,
        },
    };
    NetworkHarness::new(
        ranks,
        timing,
        move |network: NetworkOptions, region: &Region| {
            let options = OfiOptions {
                network,
                provider: provider.into(),
                library: library.clone(),
                overrides,
            };
            Ofi::create(options, region).expect("the provider works here")
        },
    )
}

fn keeps_the_contract(provider: &'static str, second: bool, overrides: Overrides) {
    let _alone = alone_on_libfabric();
    let library = std::env::var_os("REFRAIN_LIBFABRIC_SECOND").map(PathBuf::from);
    if second && library.is_none() {
        eprintln!(
            "skipped ofi:{provider} on a second libfabric: REFRAIN_LIBFABRIC_SECOND names none"
        );
        return;
    }
    let library = library.filter(|_| second);
    run_all(&mut harness(0, library, provider, overrides));
}

/// Verbs under libfabric, with its layer for endpoints without connections.
const VERBS: &str = "verbs;ofi_rxm";

fn verbs_keeps_the_contract_with(overrides: Overrides) {
    let offers = providers(None).unwrap_or_default();
    let is_there = |offer: &Provider| offer.name == VERBS && offer.usable.is_ok();
    if !offers.iter().any(is_there) {
        println!("skipped ofi:{VERBS}: libfabric offers no such provider here");
        return;
    }
    keeps_the_contract(VERBS, false, overrides);
}

#[test]
fn verbs_keeps_the_contract() {
    verbs_keeps_the_contract_with(AS_CHOSEN);
}

#[test]
fn verbs_with_reads_keeps_the_contract() {
    verbs_keeps_the_contract_with(ALL_READ);
}

/// A peer with other slots or credits would be overrun, or would cut off messages to it.
#[test]
fn a_peer_with_other_receives_is_refused() {
    let _alone = alone_on_libfabric();
    let rank = |rank: u32, credits: Option<usize>| {
        let overrides = Overrides {
            credits,
            ..AS_CHOSEN
        };
        harness(2, None, "tcp", overrides).restart(Rank(rank), Incarnation(0))
    };
    let (mut here, there) = (rank(0, Some(8)), rank(1, Some(9)));
    let address = there.fabric.address();
    let refused = here.fabric.connect(Rank(1), Incarnation(0), &address);
    let Err(FabricError::Attach { reason, .. }) = refused else {
        panic!("{refused:?}");
    };
    assert!(
        reason.contains("9 messages") && reason.contains("8 of"),
        "{reason}"
    );
    let there = rank(1, Some(8));
    let address = there.fabric.address();
    let taken = here.fabric.connect(Rank(1), Incarnation(0), &address);
    taken.expect("it has the same");
}

macro_rules! on_providers {
    ($($name:ident: $provider:literal, second $second:literal, $overrides:expr;)+) => {
        $(
            #[test]
            fn $name() {
                keeps_the_contract($provider, $second, $overrides);
            }
        )+
    };
}

/// The provider's own choices.
const AS_CHOSEN: Overrides = Overrides {
    fragment_bytes: None,
    distant_bytes_min: None,
    credits: None,
};
/// Every payload is read out of the sender's log.
const ALL_READ: Overrides = Overrides {
    distant_bytes_min: Some(1),
    ..AS_CHOSEN
};

/// No payload is read.
const NONE_READ: Overrides = Overrides {
    distant_bytes_min: Some(0),
    ..AS_CHOSEN
};

/// Inside one process, `shm` of 2.5 needs the other side's answer for reads of every length. It
/// never ends those from an endpoint that was dropped, and crashes when one comes again. Between
/// processes it does not: see tests/ofi.
#[test]
fn shm_of_the_second_library_keeps_the_contract() {
    eprintln!(
        "skipped reads of ofi:shm inside one process: libfabric 2.5 crashes; tests/ofi reads between processes"
    );
    keeps_the_contract("shm", true, NONE_READ);
}

on_providers! {
    tcp_keeps_the_contract: "tcp", second false, AS_CHOSEN;
    shm_keeps_the_contract: "shm", second false, AS_CHOSEN;
    net_keeps_the_contract: "net", second false, AS_CHOSEN;
    tcp_of_the_second_library_keeps_the_contract: "tcp", second true, AS_CHOSEN;
    tcp_under_rxm_of_the_second_library_keeps_the_contract: "tcp;ofi_rxm", second true, AS_CHOSEN;
    tcp_with_reads_keeps_the_contract: "tcp", second false, ALL_READ;
    shm_with_reads_keeps_the_contract: "shm", second false, ALL_READ;
    net_with_reads_keeps_the_contract: "net", second false, ALL_READ;
    tcp_with_reads_of_the_second_library_keeps_the_contract: "tcp", second true, ALL_READ;
}
