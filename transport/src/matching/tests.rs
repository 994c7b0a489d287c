//! One test for each of MPI's ordering rules, and for the further promises of the structure.

use super::*;
use refrain_ring::Rank;

const ANY: Pattern = Pattern {
    context: 0,
    source: None,
    tag: None,
};

fn message(source: u32, tag: i32) -> Envelope {
    Envelope {
        context: 0,
        source: Rank(source),
        tag,
    }
}

fn exact(source: u32, tag: i32) -> Pattern {
    message(source, tag).into()
}

fn any_source(tag: i32) -> Pattern {
    Pattern {
        tag: Some(tag),
        ..ANY
    }
}

fn any_tag(source: u32) -> Pattern {
    Pattern {
        source: Some(Rank(source)),
        ..ANY
    }
}

/// Every pattern that accepts `message(source, tag)`.
fn accepting(source: u32, tag: i32) -> [Pattern; 4] {
    [exact(source, tag), any_source(tag), any_tag(source), ANY]
}

fn posted(patterns: &[Pattern]) -> Matcher<usize, usize> {
    let mut matcher = Matcher::new();
    for (number, pattern) in patterns.iter().enumerate() {
        matcher.post(*pattern, number);
    }
    matcher
}

fn arrived(messages: &[Envelope]) -> Matcher<usize, usize> {
    let mut matcher = Matcher::new();
    for (number, envelope) in messages.iter().enumerate() {
        matcher.push_unexpected(*envelope, number);
    }
    matcher
}

#[test]
fn patterns_accept_what_they_name() {
    for pattern in accepting(1, 2) {
        assert!(pattern.accepts(&message(1, 2)));
        let other_context = Envelope {
            context: 1,
            ..message(1, 2)
        };
        assert!(!pattern.accepts(&other_context));
        assert_eq!(pattern.accepts(&message(0, 2)), pattern.source.is_none());
        assert_eq!(pattern.accepts(&message(1, 0)), pattern.tag.is_none());
        assert_eq!(
            pattern.exact().is_some(),
            pattern.source.is_some() && pattern.tag.is_some()
        );
    }
}

#[test]
fn of_two_receives_the_first_posted_gets_the_message() {
    for first in accepting(1, 2) {
        for second in accepting(1, 2) {
            let mut matcher = posted(&[first, second]);
            assert_eq!(matcher.take_posted(message(1, 2)), Some((first, 0)));
            assert_eq!(matcher.take_posted(message(1, 2)), Some((second, 1)));
            assert_eq!(matcher.take_posted(message(1, 2)), None);
        }
    }
}

#[test]
fn receives_for_other_messages_stand_in_nobodys_way() {
    let other_context = Pattern { context: 1, ..ANY };
    for wanted in accepting(1, 2) {
        let others = [
            exact(0, 2),
            exact(1, 0),
            any_source(0),
            any_tag(0),
            other_context,
        ];
        let mut matcher = posted(&others);
        matcher.post(wanted, 99);
        assert_eq!(matcher.take_posted(message(1, 2)), Some((wanted, 99)));
        assert_eq!(matcher.posted_count(), others.len());
    }
}

#[test]
fn of_two_messages_the_first_sent_is_received() {
    for pattern in accepting(1, 2) {
        let mut matcher = arrived(&[message(1, 2), message(1, 2)]);
        assert_eq!(matcher.take_unexpected(&pattern), Some((message(1, 2), 0)));
        assert_eq!(matcher.take_unexpected(&pattern), Some((message(1, 2), 1)));
        assert_eq!(matcher.take_unexpected(&pattern), None);
    }
}

#[test]
fn a_wildcard_takes_messages_in_arrival_order_across_sources_and_tags() {
    let messages = [message(2, 5), message(1, 5), message(2, 4), message(1, 4)];
    let taken = |pattern: Pattern| {
        let mut matcher = arrived(&messages);
        let taken = core::iter::from_fn(|| matcher.take_unexpected(&pattern));
        taken.map(|(_, number)| number).collect::<Vec<_>>()
    };
    assert_eq!(taken(ANY), [0, 1, 2, 3]);
    assert_eq!(taken(any_source(4)), [2, 3]);
    assert_eq!(taken(any_tag(1)), [1, 3]);
}

#[test]
fn a_receive_by_tag_passes_earlier_messages_of_other_tags() {
    let mut matcher = arrived(&[message(1, 1), message(1, 2)]);
    assert_eq!(
        matcher.take_unexpected(&exact(1, 2)),
        Some((message(1, 2), 1))
    );
    assert_eq!(matcher.take_unexpected(&ANY), Some((message(1, 1), 0)));
}

#[test]
fn an_exact_and_a_wildcard_receive_share_one_order_of_messages() {
    let mut matcher = arrived(&[message(1, 1), message(1, 1), message(1, 1)]);
    assert_eq!(matcher.take_unexpected(&exact(1, 1)).map(|m| m.1), Some(0));
    assert_eq!(matcher.take_unexpected(&ANY).map(|m| m.1), Some(1));
    assert_eq!(matcher.take_unexpected(&exact(1, 1)).map(|m| m.1), Some(2));
}

#[test]
fn contexts_do_not_mix() {
    let elsewhere = Envelope {
        context: 1,
        ..message(1, 1)
    };
    let mut matcher = arrived(&[elsewhere]);
    for pattern in accepting(1, 1) {
        assert_eq!(matcher.take_unexpected(&pattern), None);
        matcher.post(pattern, 0);
    }
    assert_eq!(matcher.take_posted(elsewhere), None);
    let there = Pattern { context: 1, ..ANY };
    assert_eq!(matcher.take_unexpected(&there), Some((elsewhere, 0)));
}

#[test]
fn a_probe_finds_what_a_receive_would_take_and_leaves_it() {
    for pattern in accepting(1, 2) {
        let mut matcher = arrived(&[message(0, 0), message(1, 2), message(1, 2)]);
        let (id, envelope, value) = matcher.find_unexpected(&pattern).expect("is there");
        let probed = (*envelope, *value);
        assert_eq!(matcher.unexpected_count(), 3);
        assert_eq!(matcher.remove_unexpected(id), Some(probed));
        assert_ne!(matcher.take_unexpected(&pattern), Some(probed));
    }
}

#[test]
fn a_matched_probe_hides_its_message_from_all_receives() {
    let mut matcher = arrived(&[message(1, 2), message(1, 2)]);
    let (id, ..) = matcher.find_unexpected(&ANY).expect("is there");
    matcher.remove_unexpected(id);
    assert_eq!(
        matcher.take_unexpected(&exact(1, 2)),
        Some((message(1, 2), 1))
    );
    assert_eq!(matcher.take_unexpected(&exact(1, 2)), None);
}

#[test]
fn a_cancelled_receive_leaves_its_message_to_the_next() {
    for first in accepting(1, 2) {
        for second in accepting(1, 2) {
            let mut matcher = Matcher::<_, ()>::new();
            let id = matcher.post(first, "first");
            matcher.post(second, "second");
            assert_eq!(matcher.cancel(id), Some("first"));
            assert_eq!(matcher.take_posted(message(1, 2)), Some((second, "second")));
        }
    }
}

#[test]
fn ids_of_gone_entries_find_nothing_although_their_slots_are_used_again() {
    let mut matcher = Matcher::new();
    let cancelled = matcher.post(ANY, 0);
    matcher.cancel(cancelled);
    let matched = matcher.post(exact(1, 1), 1);
    matcher.take_posted(message(1, 1));
    let taken = matcher.push_unexpected(message(1, 1), 0);
    matcher.take_unexpected(&ANY);
    for _ in 0..3 {
        assert_eq!(matcher.cancel(cancelled), None);
        assert_eq!(matcher.cancel(matched), None);
        assert_eq!(matcher.unexpected_value(taken), None);
        assert_eq!(matcher.remove_unexpected(taken), None);
        matcher.post(exact(1, 1), 2);
        matcher.push_unexpected(message(1, 1), 1);
    }
    assert_eq!((matcher.posted_count(), matcher.unexpected_count()), (3, 3));
}

#[test]
fn order_holds_while_the_tables_grow() {
    const SOURCES: u32 = 64;
    const TAGS: i32 = 64;
    let mut matcher = Matcher::new();
    let envelopes = || (0..TAGS).flat_map(|tag| (0..SOURCES).map(move |s| message(s, tag)));
    for round in 0..3 {
        for envelope in envelopes() {
            matcher.post(envelope.into(), (round, envelope));
            matcher.push_unexpected(envelope, (round, envelope));
        }
    }
    matcher.post(ANY, (9, message(0, 0)));
    for round in 0..3 {
        for envelope in envelopes() {
            let value = (round, envelope);
            assert_eq!(
                matcher.take_posted(envelope),
                Some((envelope.into(), value))
            );
            assert_eq!(
                matcher.take_unexpected(&envelope.into()),
                Some((envelope, value))
            );
        }
    }
    assert_eq!(
        matcher.take_posted(message(5, 5)),
        Some((ANY, (9, message(0, 0))))
    );
    assert_eq!((matcher.posted_count(), matcher.unexpected_count()), (0, 0));
}

#[test]
fn warm_queues_take_no_more_memory() {
    let mut matcher = Matcher::<u64, u64>::new();
    for round in 0..10_000u64 {
        // Always new tags, as in programs that count messages with them.
        let envelope = message(round as u32 % 7, round as i32);
        matcher.post(envelope.into(), round);
        matcher.post(any_tag(99), round);
        matcher.push_unexpected(envelope, round);
        assert!(matcher.take_posted(envelope).is_some());
        assert!(matcher.take_posted(message(99, 0)).is_some());
        assert!(matcher.take_unexpected(&ANY).is_some());
    }
    assert_eq!(matcher.posted_slots_and_places(), (4, 4, 64));
    assert_eq!(matcher.unexpected_slots_and_places(), (1, 64));
}

#[test]
fn receives_keep_ids_and_order_when_they_leave_the_row() {
    let mut matcher = Matcher::<usize, usize>::new();
    let patterns = [exact(1, 1), exact(1, 2), exact(1, 1), exact(2, 1)];
    for _ in 0..2 {
        let ids: Vec<PostedId> = (patterns.iter().enumerate())
            .map(|(number, pattern)| matcher.post(*pattern, number))
            .collect();
        let mut taken = |source, tag| matcher.take_posted(message(source, tag)).map(|it| it.1);
        assert_eq!(taken(1, 1), Some(0), "the oldest one on the row");
        assert_eq!(taken(2, 1), Some(3), "not the oldest one: the row is left");
        assert_eq!(taken(2, 1), None);
        assert_eq!(matcher.cancel(ids[0]), None);
        assert_eq!(matcher.cancel(ids[2]), Some(2));
        // On the lists, since an older one is there.
        matcher.post(exact(1, 2), 4);
        assert_eq!(matcher.take_posted(message(1, 2)), Some((exact(1, 2), 1)));
        assert_eq!(matcher.take_posted(message(1, 2)), Some((exact(1, 2), 4)));
        // On the row again; one in its middle is cancelled.
        let ids = [5, 6, 7].map(|number| matcher.post(exact(1, number), number as usize));
        assert_eq!(matcher.cancel(ids[1]), Some(6));
        assert_eq!(matcher.find_posted(&message(1, 7)), Some(&7));
        assert_eq!(matcher.take_posted(message(1, 5)), Some((exact(1, 5), 5)));
        assert_eq!(matcher.take_posted(message(1, 7)), Some((exact(1, 7), 7)));
        assert_eq!(matcher.posted_count(), 0);
    }
}
