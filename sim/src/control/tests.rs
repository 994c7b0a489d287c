//! The figures of small jobs, by hand and by comparison.

use super::*;

fn shape(ranks: u32, fan_out: Option<u32>) -> Shape {
    Shape {
        ranks,
        ranks_per_host: 16,
        fan_out,
    }
}

#[test]
fn a_run_is_repeated_exactly() {
    for fan_out in [None, Some(4)] {
        let costs = Costs::default();
        let first = run(shape(1000, fan_out), costs);
        assert_eq!(first, run(shape(1000, fan_out), costs));
    }
}

/// A death concerns the peers of the rank and no other, whatever the size of the job. REC-3
#[test]
fn only_peers_are_told_of_a_death() {
    for fan_out in [None, Some(4)] {
        for ranks in [1000, 8000] {
            let shape = shape(ranks, fan_out);
            let figures = run(shape, Costs::default());
            let victim = ranks / 2;
            let is_peer = |rank: &u32| {
                let others = shape.peers_of(*rank);
                others.contains(&victim) || shape.peers_of(victim).contains(rank)
            };
            let peers = (0..ranks).filter(|rank| *rank != victim).filter(is_peer);
            let peers = peers.count() as u64;
            assert_eq!(figures.death.ranks_told, peers);
            // The next life is told of each, and each of the next life.
            assert_eq!(figures.restart.ranks_told, 2 * peers);
        }
    }
}

/// With the launcher in the middle of all, its messages grow with the job; in a tree they do not.
#[test]
fn a_tree_takes_the_load_from_the_launcher() {
    let costs = Costs::default();
    let [flat, tree] = [None, Some(8)].map(|fan_out| run(shape(8000, fan_out), costs));
    assert!(flat.start.messages_launcher > 8000);
    assert!(tree.start.messages_launcher < flat.start.messages_launcher / 2);
    assert!(tree.memory_launcher < flat.memory_launcher);
    assert_eq!((flat.depth, tree.depth), (1, 3));
}

#[test]
fn the_ranks_of_the_last_host_may_be_fewer() {
    let shape = shape(17, None);
    assert_eq!(
        (shape.agents(), shape.ranks_of(1), shape.ranks_of(2)),
        (2, 16, 1)
    );
    let figures = run(shape, Costs::default());
    assert_eq!(figures.agents, 2);
    let alone = run(Shape { ranks: 1, ..shape }, Costs::default());
    assert_eq!(alone.death.ranks_told, 0);
}
