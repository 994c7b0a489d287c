//! Faulty networks and breaking queue pairs, then no more faults.

use super::network::{Network, Weather};
use super::seed;
use core::time::Duration;
use proptest::prelude::*;
use refrain_verbs::greeting::REPEAT_MAX;

#[derive(Clone, Copy, Debug)]
enum Mishap {
    Break(usize),
    Data(usize),
}

fn mishap() -> impl Strategy<Value = Mishap> {
    prop_oneof![
        (0..2_usize).prop_map(Mishap::Break),
        (0..2_usize).prop_map(Mishap::Data),
    ]
}

fn weather() -> impl Strategy<Value = Weather> {
    (0..=200_u8, 0..=50_u8, 0..=100_u8, 0..=400_u64).prop_map(
        |(lost, repeated, failing, delay_ms_max)| Weather {
            lost,
            repeated,
            failing,
            delay_ms_max,
        },
    )
}

proptest! {
    #![proptest_config(seed::config(1_000))]

    /// Both sides agree on a pair soon after the last fault, and are then silent.
    #[test]
    fn calm_brings_a_pair_and_silence(
        random in any::<u64>(),
        weather in weather(),
        mishaps in prop::collection::vec((1_u64..100, mishap()), 0..40),
    ) {
        let mut network = Network::new(random, weather);
        for (after_ms, mishap) in mishaps {
            network.run(network.now + Duration::from_millis(after_ms), false);
            match mishap {
                Mishap::Break(side) => network.break_at(side),
                Mishap::Data(side) => network.send_data(side),
            }
        }
        network.weather = Weather::default();
        // The longest gap of a side that waits to make a queue pair, the longest
        // between its greetings, and as many round trips as fit into the rest.
        let soon = network.now + REPEAT_MAX * 2 + Duration::from_millis(10);
        prop_assert!(network.run(soon, true), "no pair after {:?}", network.now);
        network.assert_pair();
        let (under_way, sent) = (network.under_way(), network.greetings);
        let later = network.now + Duration::from_secs(3600);
        prop_assert!(network.run(later, false));
        network.assert_pair();
        let more = network.greetings - sent;
        // At most one answer to each greeting that was in flight.
        prop_assert!(more <= under_way, "{more} more, {under_way} under way");
        for side in &network.sides {
            prop_assert_eq!(side.connecting.next_tick_at(), None);
        }
    }

    /// An established pair breaks at one side, at the other, or at both at once.
    #[test]
    fn a_pair_that_breaks_is_replaced_by_one(
        random in any::<u64>(),
        sides in prop::collection::vec(prop::collection::vec(0..2_usize, 1..4), 1..6),
    ) {
        let mut network = Network::new(random, Weather { delay_ms_max: 1, ..Weather::default() });
        for at_once in sides {
            let soon = network.now + Duration::from_millis(100);
            prop_assert!(network.run(soon, true));
            network.assert_pair();
            network.run(network.now + Duration::from_secs(2), false);
            let before = network.greetings;
            let breaks = at_once.len();
            for side in at_once {
                network.break_at(side);
            }
            network.run(network.now + Duration::from_secs(2), false);
            let more = network.greetings - before;
            prop_assert!(more <= 20 * breaks, "{more} greetings for {breaks} breaks");
        }
    }
}

/// The other side never answers: its silence is reported once, and it is greeted at the longest
/// gap.
#[test]
fn nobody_there() {
    let weather = Weather {
        lost: 255,
        ..Weather::default()
    };
    let mut network = Network::new(7, weather);
    assert!(!network.run(Duration::from_secs(60), false));
    let silences: Vec<_> = network.sides.iter().map(|side| side.silences).collect();
    assert_eq!(silences, [1, 1]);
    assert!(
        network.greetings < 2 * (60 * 4 + 10),
        "{}",
        network.greetings
    );
}
