//! FENCE-1

use super::super::fence::Fence;
use super::*;

fn stage() -> Stage<Fence> {
    Stage::new(Fence::new(2))
}

/// The old life is heard until the next has begun and the receiver knows.
// FENCE-1, known trap: late one-sided writes of a dead incarnation
#[test]
fn a_life_is_not_heard_after_its_receiver_knows_of_the_next() {
    let mut stage = stage();
    let heard = |from, to| Happening::Heard { from, to };
    stage.see(heard(life(0), life(1))).unwrap();
    stage.see(Happening::Began(next_life())).unwrap();
    stage.see(heard(life(0), life(1))).unwrap();
    stage.world.told = Incarnation(1);
    stage.see(heard(next_life(), life(1))).unwrap();
    let late = stage.see(heard(life(0), life(1)));
    assert_breach(late, "fence", "told of incarnation 1");
}

/// People see nothing of a life that was replaced; what it hears does no harm.
// FENCE-1
#[test]
fn a_life_that_was_replaced_shows_nothing() {
    let mut stage = stage();
    stage.see(Happening::Seen(life(0), 1)).unwrap();
    stage.see(Happening::Began(next_life())).unwrap();
    stage.world.told = Incarnation(1);
    let heard = Happening::Heard {
        from: life(0),
        to: life(0),
    };
    stage.see(heard).unwrap();
    let seen = stage.see(Happening::Seen(life(0), 1));
    assert_breach(seen, "fence", "though it was replaced");
    stage.see(Happening::Seen(next_life(), 1)).unwrap();
}

/// No life comes twice, or late; one that died early need not have been seen.
// REC-6
#[test]
fn no_incarnation_comes_twice() {
    let mut stage = stage();
    let again = stage.see(Happening::Began(life(0)));
    assert_breach(again, "fence", "begins after");
    let third = Life {
        incarnation: Incarnation(2),
        ..life(0)
    };
    stage.see(Happening::Began(third)).unwrap();
    let second = stage.see(Happening::Began(next_life()));
    assert_breach(second, "fence", "begins after");
}
