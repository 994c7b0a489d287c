//! Every order in which two sides can receive greetings and break, for a few breaks.

use super::graph::World;
use std::collections::{HashSet, VecDeque};

/// The result of an exploration.
struct Explored {
    worlds: usize,
    generation_max: u32,
    exchanges_max: u32,
}

/// Explores all reachable states from the beginning. That it ends shows that each break costs a
/// bounded number of queue pairs in any order of events: only the number of breaks is limited here.
fn explore(breaks: [u32; 2]) -> Explored {
    let first = World::new(breaks);
    let mut seen = HashSet::from([first.clone()]);
    let mut next = VecDeque::from([first]);
    let mut explored = Explored {
        worlds: 0,
        generation_max: 0,
        exchanges_max: 0,
    };
    while let Some(world) = next.pop_front() {
        explored.worlds += 1;
        for side in &world.sides {
            let newest = side.bound.keys().max().copied().unwrap_or(0);
            explored.generation_max = explored.generation_max.max(newest);
        }
        explored.exchanges_max = explored.exchanges_max.max(exchanges(&world));
        for action in world.actions() {
            let after = world.after(action);
            if !seen.contains(&after) {
                seen.insert(after.clone());
                next.push_back(after);
            }
        }
    }
    explored
}

/// Number of exchanges from here until both sides know that they are a pair, if nothing breaks or
/// is lost any more. Each exchange changes something: since generations are bounded (see above),
/// any order of deliveries leads to a pair as long as the newest greetings arrive repeatedly.
fn exchanges(world: &World) -> u32 {
    let mut now = world.clone();
    for exchanges in 0.. {
        if now.is_settled() {
            let [one, other] = &now.sides;
            let ((&mine, &theirs), last) = (
                one.bound.last_key_value().expect("bound"),
                other.bound.last_key_value(),
            );
            assert_eq!(last, Some((&theirs, &mine)));
            return exchanges;
        }
        let after = now.exchange();
        assert_ne!(after, now, "stuck");
        now = after;
    }
    unreachable!("it returns or fails")
}

#[test]
fn without_a_break_the_first_queue_pairs_stay() {
    let explored = explore([0, 0]);
    assert_eq!(explored.generation_max, 1);
    assert_eq!(explored.exchanges_max, 1);
}

#[test]
fn every_order_of_greetings_and_breaks_comes_to_a_pair() {
    for breaks in [[1, 0], [2, 0], [1, 1], [2, 1], [2, 2], [3, 3]] {
        let explored = explore(breaks);
        println!(
            "breaks {breaks:?}: {} worlds, generation {} at most, {} exchanges at most",
            explored.worlds, explored.generation_max, explored.exchanges_max
        );
        assert!(explored.worlds > 50);
        // Each break costs each side one queue pair, and no order costs more.
        assert_eq!(explored.generation_max, 1 + breaks[0] + breaks[1]);
        assert!(explored.exchanges_max <= 2);
    }
}
