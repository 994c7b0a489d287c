//! When a side sends greetings, and when it waits.

use super::network::{contact, first, identity};
use core::time::Duration;
use refrain_verbs::greeting::{
    CALM, Connecting, Effect, Greeting, Offer, REPEAT_MAX, REPEAT_MIN, SILENT_AFTER, Stage,
};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn side() -> Connecting {
    Connecting::new(ms(0), identity(0), contact(0), identity(1), first(0))
}

fn offer(generation: u32) -> Offer {
    Offer {
        generation,
        qpn: 200 + generation,
        psn: 5,
    }
}

fn greeting(offer: Offer, stage: Stage) -> Greeting {
    Greeting {
        from: identity(1),
        to: identity(0),
        offer,
        stage,
        contact: contact(1),
    }
}

fn hear(side: &mut Connecting, now: Duration, offer: Offer, stage: Stage) -> Vec<Effect> {
    let mut effects = Vec::new();
    side.heard(now, &greeting(offer, stage), &mut effects);
    effects
}

fn tick(side: &mut Connecting, now: Duration) -> Vec<Effect> {
    let mut effects = Vec::new();
    side.tick(now, &mut effects);
    effects
}

fn stages(effects: &[Effect]) -> Vec<Stage> {
    let stage = |effect: &Effect| match effect {
        Effect::Send(greeting) => Some(greeting.stage),
        _ => None,
    };
    effects.iter().filter_map(stage).collect()
}

#[test]
fn greetings_are_repeated_at_doubling_gaps() {
    let mut side = side();
    let mut times = Vec::new();
    while let Some(at) = side.next_tick_at().filter(|&at| at < ms(900)) {
        assert!(
            at == ms(0) || tick(&mut side, at - ms(1)).is_empty(),
            "early"
        );
        assert_eq!(stages(&tick(&mut side, at)), [Stage::Fresh]);
        times.push(at.as_millis());
    }
    assert_eq!(times, [0, 5, 15, 35, 75, 155, 315, 565, 815]);
    assert_eq!((REPEAT_MIN, REPEAT_MAX), (ms(5), ms(250)));
}

#[test]
fn whoever_does_not_know_yet_is_answered_once() {
    let mut side = side();
    tick(&mut side, ms(0));
    let effects = hear(&mut side, ms(1), offer(1), Stage::Fresh);
    assert!(matches!(effects[0], Effect::Bind { theirs, .. } if theirs == offer(1)));
    assert_eq!(stages(&effects), [Stage::Bound]);
    assert_eq!(effects.len(), 2, "it is bound before it says so");
    let effects = hear(&mut side, ms(2), offer(1), Stage::Bound);
    assert_eq!(effects[0], Effect::Established { generation: 1 });
    assert_eq!(stages(&effects), [Stage::Established]);
    assert_eq!(side.next_tick_at(), None);
    let again = hear(&mut side, ms(3), offer(1), Stage::Bound);
    assert_eq!(stages(&again), [Stage::Established]);
    assert_eq!(again.len(), 1);
    assert!(hear(&mut side, ms(4), offer(1), Stage::Established).is_empty());
    // A late greeting: the peer has been bound since.
    assert!(hear(&mut side, ms(5), offer(1), Stage::Fresh).is_empty());
}

#[test]
fn data_is_as_good_as_a_greeting() {
    let mut side = side();
    let mut effects = Vec::new();
    side.data_arrived(ms(0), 1, &mut effects);
    assert_eq!(effects, [], "not bound yet");
    hear(&mut side, ms(1), offer(1), Stage::Fresh);
    side.data_arrived(ms(2), 2, &mut effects);
    assert_eq!(effects, [], "of another queue pair");
    side.data_arrived(ms(2), 1, &mut effects);
    assert_eq!(effects, [Effect::Established { generation: 1 }]);
    assert_eq!(side.next_tick_at(), None);
}

#[test]
fn a_queue_pair_that_cannot_be_made_is_asked_for_again() {
    let mut side = side();
    let mut effects = Vec::new();
    side.broke(ms(5), 1, &mut effects);
    assert_eq!(effects, [Effect::Replace { generation: 2 }]);
    let again = side.next_tick_at().expect("a time");
    assert!(again > ms(5));
    assert_eq!(tick(&mut side, again), [Effect::Replace { generation: 2 }]);
    // Meanwhile the peer has a later generation.
    let effects = hear(&mut side, again, offer(5), Stage::Fresh);
    assert_eq!(effects, [Effect::Replace { generation: 5 }]);
    let mut effects = Vec::new();
    assert!(!side.offered(again, first(0), &mut effects));
    assert!(!side.offered(again, offer(2), &mut effects));
    assert_eq!(effects, []);
    assert!(side.offered(again, offer(5), &mut effects));
    assert!(matches!(effects[0], Effect::Bind { theirs, .. } if theirs == offer(5)));
    assert_eq!(stages(&effects), [Stage::Bound]);
}

#[test]
fn what_breaks_again_and_again_is_replaced_at_growing_gaps() {
    let mut side = side();
    let (mut now, mut gaps) = (ms(0), Vec::new());
    for generation in 1..10 {
        let mut effects = Vec::new();
        side.broke(now, generation, &mut effects);
        let broke_at = now;
        while effects.is_empty() {
            now = side.next_tick_at().expect("a time");
            side.tick(now, &mut effects);
        }
        let generation = generation + 1;
        assert_eq!(effects, [Effect::Replace { generation }]);
        gaps.push((now - broke_at).as_millis());
        assert!(side.offered(now, offer(generation), &mut effects));
    }
    assert_eq!(gaps, [0, 5, 10, 20, 40, 80, 160, 250, 250]);
    let mut effects = Vec::new();
    side.broke(now + CALM, 10, &mut effects);
    assert_eq!(
        effects,
        [Effect::Replace { generation: 11 }],
        "it held for long"
    );
}

#[test]
fn a_break_of_an_older_one_is_none() {
    let mut side = side();
    let mut effects = Vec::new();
    side.broke(ms(0), 1, &mut effects);
    assert!(side.offered(ms(0), offer(2), &mut effects));
    effects.clear();
    side.broke(ms(1), 1, &mut effects);
    side.broke(ms(1), 3, &mut effects);
    assert_eq!(effects, []);
    assert_eq!(side.generation(), Some(2));
}

#[test]
fn silence_is_told_once_and_ends_with_a_greeting() {
    let mut side = side();
    let silences = |side: &mut Connecting, from: Duration| {
        let mut told = Vec::new();
        while let Some(at) = side
            .next_tick_at()
            .filter(|&at| at < from + SILENT_AFTER * 4)
        {
            let effects = tick(side, at);
            told.extend(effects.into_iter().filter_map(|effect| match effect {
                Effect::Silent { since } => Some((at, since)),
                _ => None,
            }));
        }
        told
    };
    let told = silences(&mut side, ms(0));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].0 >= SILENT_AFTER && told[0].1 == ms(0));
    hear(&mut side, ms(5000), offer(1), Stage::Fresh);
    let told = silences(&mut side, ms(5000));
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].0 >= ms(5000) + SILENT_AFTER && told[0].1 == ms(5000));
}
