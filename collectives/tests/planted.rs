//! The checker finds what is wrong: each wrong schedule is one change away from a right one.

use refrain_collectives::check::{Fault, Outcome, Place, Sends, execute};
use refrain_collectives::choice::Table;
use refrain_collectives::{
    Action, Algorithm, Arguments, Blocks, Buffer, Call, Group, Hosts, Part, Schedule, Side, Step,
};

const COUNT: u64 = 6;

fn right(size: u32, algorithm: Algorithm, arguments: Arguments, in_place: bool) -> Vec<Vec<Step>> {
    let schedule = |me| {
        let call = Call {
            group: Group { size, me },
            hosts: Hosts::APART,
            arguments,
            in_place,
            element_bytes: 8,
        };
        let mut schedule = Schedule::default();
        Table::default().schedule(algorithm, &call, &mut schedule);
        schedule.steps().to_vec()
    };
    (0..size).map(schedule).collect()
}

/// Executes steps, with 64 elements of each buffer.
fn run(places: &[Vec<Step>], sends: Sends) -> Result<Outcome<u64>, Fault> {
    let place = |steps: &Vec<Step>| {
        let mut schedule = Schedule::default();
        schedule.take_scratch(64);
        for step in steps {
            schedule.after(step.after);
            schedule.push(step.action);
        }
        Place {
            schedule,
            input: vec![1; 64],
            output: vec![1; 64],
        }
    };
    let places = places.iter().map(place).collect();
    execute(places, &|left, right| left + right, &0, sends, 0x5eed)
}

fn allreduce(size: u32, algorithm: Algorithm) -> Vec<Vec<Step>> {
    let arguments = Arguments::Allreduce {
        count: COUNT,
        commutative: true,
    };
    let places = right(size, algorithm, arguments, false);
    run(&places, Sends::Blocking).expect("right as it is");
    places
}

/// The number of the first step with such an action.
fn find(steps: &[Step], wanted: fn(&Action) -> bool) -> usize {
    steps
        .iter()
        .position(|step| wanted(&step.action))
        .expect("there is one")
}

fn is_send(action: &Action) -> bool {
    matches!(action, Action::Send { .. })
}

#[test]
fn a_lost_receive() {
    let mut places = allreduce(4, Algorithm::Ring);
    let last = places[2].len() - 1;
    assert!(matches!(
        places[2].remove(last).action,
        Action::Receive { .. }
    ));
    let fault = run(&places, Sends::Buffered).unwrap_err();
    assert_eq!(
        fault,
        Fault::NotReceived {
            source_place: 1,
            to: 2,
            messages: 1
        }
    );
    assert!(matches!(
        run(&places, Sends::Blocking),
        Err(Fault::Deadlock { .. })
    ));
}

#[test]
fn a_lost_send() {
    let mut places = allreduce(4, Algorithm::Ring);
    let last = places[3].len() - 1;
    assert!(is_send(&places[3].remove(last - 1).action));
    let waiting = vec![(0, last as u32)];
    let fault = run(&places, Sends::Buffered).unwrap_err();
    assert_eq!(fault, Fault::Deadlock { waiting });
}

#[test]
fn sends_that_need_a_buffer() {
    let mut places = allreduce(2, Algorithm::RecursiveDoubling);
    for steps in &mut places {
        assert!(is_send(&steps[0].action));
        steps[1].after = 1;
    }
    run(&places, Sends::Buffered).expect("the network buffers");
    let waiting = vec![(0, 0), (1, 0)];
    assert_eq!(
        run(&places, Sends::Blocking).unwrap_err(),
        Fault::Deadlock { waiting }
    );
}

#[test]
fn a_lost_fence() {
    let mut places = allreduce(4, Algorithm::RecursiveDoubling);
    places[0].iter_mut().for_each(|step| step.after = 0);
    // The second round sends what the first one receives.
    let expected = Fault::Race {
        place: 0,
        first: 1,
        second: 2,
    };
    assert_eq!(run(&places, Sends::Blocking).unwrap_err(), expected);
}

#[test]
fn a_result_over_what_is_being_sent() {
    let mut places = allreduce(4, Algorithm::RecursiveDoubling);
    let second = find(&places[1][2..], |it| {
        matches!(it, Action::ReceiveReduce { .. })
    }) + 2;
    let Action::ReceiveReduce { with, into, .. } = &mut places[1][second].action else {
        unreachable!("found as one");
    };
    *into = *with;
    assert!(matches!(
        run(&places, Sends::Buffered),
        Err(Fault::Race { place: 1, .. })
    ));
}

#[test]
fn a_wrong_partner() {
    let mut places = allreduce(4, Algorithm::RecursiveDoubling);
    for to in [0, 4] {
        let from = Buffer::Input.first(COUNT);
        places[0][0].action = Action::Send { to, from };
        let expected = Fault::Partner { place: 0, step: 0 };
        assert_eq!(run(&places, Sends::Buffered).unwrap_err(), expected);
    }
    let from = Buffer::Input.first(COUNT);
    places[0][0].action = Action::Send { to: 3, from };
    assert!(matches!(
        run(&places, Sends::Buffered),
        Err(Fault::Deadlock { .. })
    ));
}

#[test]
fn lengths_that_differ() {
    let mut places = allreduce(2, Algorithm::RecursiveDoubling);
    let from = Buffer::Input.first(COUNT - 1);
    places[0][0].action = Action::Send { to: 1, from };
    let expected = Fault::Length {
        source_place: 0,
        to: 1,
        step: 1,
        expected: COUNT,
        sent: COUNT - 1,
    };
    assert_eq!(run(&places, Sends::Buffered).unwrap_err(), expected);
}

#[test]
fn ranges_and_order() {
    let part = |buffer, start, count| Part {
        buffer,
        start,
        count,
    };
    let step = |action, after| Step { action, after };
    let alone = |steps: &[Step]| run(&[steps.to_vec()], Sends::Buffered).unwrap_err();
    let (inside, outside) = (part(Buffer::Output, 0, 8), part(Buffer::Scratch, 60, 8));
    let copy = |from, into| Action::Copy { from, into };
    let range = Fault::Range { place: 0, step: 0 };
    assert_eq!(alone(&[step(copy(inside, outside), 0)]), range);
    assert_eq!(alone(&[step(copy(outside, inside), 0)]), range);
    assert_eq!(
        alone(&[step(copy(inside, part(Buffer::Input, 0, 8)), 0)]),
        range
    );
    let endless = part(Buffer::Output, u64::MAX, 8);
    assert_eq!(alone(&[step(copy(endless, inside), 0)]), range);
    let operands = Fault::Operands { place: 0, step: 0 };
    let moved = part(Buffer::Output, 4, 8);
    assert_eq!(alone(&[step(copy(inside, moved), 0)]), operands);
    let right = part(Buffer::Input, 0, 8);
    let reduce = Action::Reduce {
        left: inside,
        right,
        into: moved,
    };
    assert_eq!(alone(&[step(reduce, 0)]), operands);
    let early = copy(right, inside);
    assert_eq!(alone(&[step(early, 1)]), Fault::Order { place: 0, step: 0 });
}

#[test]
fn a_wrong_result_is_only_seen_by_comparing() {
    let mut places = allreduce(2, Algorithm::RecursiveDoubling);
    let Action::ReceiveReduce { message, .. } = &mut places[1][1].action else {
        unreachable!("the second step combines");
    };
    assert_eq!(*message, Side::Left);
    *message = Side::Right;
    run(&places, Sends::Blocking).expect("matches and does not race");
}

/// Alltoall in place, one fence too few: a block is overwritten before it has been sent.
#[test]
fn blocks_in_place() {
    let blocks = Blocks::Even(2);
    let arguments = Arguments::Alltoall {
        send: blocks,
        receive: blocks,
    };
    let mut places = right(5, Algorithm::Pairwise, arguments, true);
    run(&places, Sends::Blocking).expect("right as it is");
    let copy = find(&places[3], |it| matches!(it, Action::Copy { .. }));
    places[3][copy].after = 0;
    let rest = &mut places[3][copy + 1..];
    assert!(rest[0].after > 0);
    let fault = run(&places, Sends::Blocking).unwrap_err();
    assert!(matches!(fault, Fault::Race { place: 3, .. }), "{fault}");
}
