//! The table is compared with a model that keeps every key it has returned.

use super::*;
use proptest::prelude::*;
use refrain_ring::{Clock, Rank};

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert {
        persistent: bool,
    },
    /// Ends the key with this number, in any state.
    End(prop::sample::Index),
    Start(prop::sample::Index),
    Remove(prop::sample::Index),
    Check(prop::sample::Index, prop::sample::Index),
}

/// The state of a request in the model.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Known {
    Active { persistent: bool },
    Inactive,
    Gone,
}

fn step() -> impl Strategy<Value = Step> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        3 => any::<bool>().prop_map(|persistent| Step::Insert { persistent }),
        2 => index().prop_map(Step::End),
        1 => index().prop_map(Step::Start),
        1 => index().prop_map(Step::Remove),
        2 => (index(), index()).prop_map(|(one, other)| Step::Check(one, other)),
    ]
}

fn template() -> Template {
    #[expect(unsafe_code, reason = "no bytes are lent")]
    // SAFETY: no bytes are lent.
    let data = unsafe { SendBuffer::bytes(core::ptr::NonNull::dangling().as_ptr(), 0) };
    let to = SendTo {
        rank: Rank(0),
        context: 0,
        tag: 0,
        synchronous: false,
    };
    Template::Send { data, to }
}

/// An operation that was complete when it was begun.
fn operation() -> Handle {
    Handle::send(Clock(1), Outcome::from(Status::default()), None)
}

fn assert_is(table: &Table<Entry>, request: Request, known: Known) {
    let is_active = matches!(known, Known::Active { .. });
    assert_eq!(table.is_active(request), is_active);
    match table.operation(request) {
        Ok(operation) => assert!(known != Known::Gone && operation.is_null() != is_active),
        Err(_) => assert_eq!(known, Known::Gone, "refused"),
    }
}

proptest! {
    #[test]
    fn every_key_names_its_own_request_until_its_end(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let mut table = Table::after(5);
        let mut model: Vec<(Request, Known)> = Vec::new();
        for step in steps {
            let count = model.len();
            let place = |index: prop::sample::Index| index.index(count);
            match step {
                Step::Insert { persistent } => {
                    let mut entry = match persistent {
                        true => Operation::persistent(template()),
                        false => Operation::once(operation()),
                    };
                    entry.handle = operation();
                    let request = Request(table.insert(entry.into()));
                    prop_assert!(model.iter().all(|(known, _)| *known != request));
                    model.push((request, Known::Active { persistent }));
                }
                _ if model.is_empty() => {}
                Step::End(index) => {
                    let (request, known) = &mut model[place(index)];
                    let mut named = *request;
                    table.end(&mut named);
                    let ends = *known == Known::Active { persistent: false };
                    prop_assert_eq!(named.is_null(), ends);
                    *known = match *known {
                        Known::Active { persistent: false } => Known::Gone,
                        Known::Active { .. } => Known::Inactive,
                        other => other,
                    };
                }
                Step::Start(index) => {
                    let (request, known) = &mut model[place(index)];
                    let entry = table.get_mut(request.0);
                    prop_assert_eq!(entry.is_none(), *known == Known::Gone);
                    if let Some(entry) = entry && *known == Known::Inactive {
                        entry.operation.handle = operation();
                        *known = Known::Active { persistent: true };
                    }
                }
                Step::Remove(index) => {
                    let (request, known) = &mut model[place(index)];
                    let removed = table.remove(request.0);
                    prop_assert_eq!(removed.is_none(), *known == Known::Gone);
                    *known = Known::Gone;
                }
                Step::Check(one, other) => {
                    let chosen = [model[place(one)], (Request::NULL, Known::Gone), model[place(other)]];
                    let is_twice = chosen[0].0 == chosen[2].0;
                    let wrong = match (chosen[0].1, chosen[2].1) {
                        (Known::Gone, _) => Some(0),
                        (_, Known::Gone) => Some(2),
                        _ => is_twice.then_some(2),
                    };
                    for _ in 0..2 {
                        let checked = table.check(&chosen.map(|(request, _)| request));
                        let refused = checked.err().map(|error| match error {
                            Error::Request { index } => index,
                            other => panic!("{other}"),
                        });
                        prop_assert_eq!(refused, wrong);
                    }
                }
            }
            let there = model.iter().filter(|(_, known)| *known != Known::Gone);
            prop_assert_eq!(table.count(), there.count());
            prop_assert_eq!(table.made(), 5 + model.len() as u64);
            model.iter().for_each(|(request, known)| assert_is(&table, *request, *known));
        }
    }
}

#[test]
fn null_and_invented_keys_name_nothing() {
    let mut table = Table::<Entry>::after(0);
    assert!(table.get(Key::default()).is_none());
    let only = table.insert(Operation::once(operation()).into());
    assert!(table.remove(only).is_some());
    assert!(table.get(Key::default()).is_none(), "of a free slot");
    let slot = u64::MAX;
    assert!(table.get(Key { serial: 1, slot }).is_none());
}
