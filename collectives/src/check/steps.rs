//! The steps of one place, by themselves.

use super::fault::Fault;
use crate::group::Group;
use crate::schedule::{Action, Buffer, Part, Schedule, Step};

/// Checks dependencies, partners and ranges of `schedule`, whose input and output have `input`
/// and `output` elements, and that no two concurrent steps race.
pub fn check_steps(
    schedule: &Schedule,
    group: Group,
    input: u64,
    output: u64,
) -> Result<(), Fault> {
    let place = group.me;
    let length = |buffer| match buffer {
        Buffer::Input => input,
        Buffer::Output => output,
        Buffer::Scratch => schedule.scratch(),
    };
    let mut after = 0;
    for (step, it) in (0..).zip(schedule.steps()) {
        if it.after > step || it.after < after {
            return Err(Fault::Order { place, step });
        }
        after = it.after;
        if partner(it.action).is_some_and(|other| other == place || other >= group.size) {
            return Err(Fault::Partner { place, step });
        }
        let fits = |part: &Part| {
            let end = part.start.checked_add(part.count);
            end.is_some_and(|end| end <= length(part.buffer))
        };
        let (reads, writes) = (it.action.reads(), it.action.writes());
        let writes_input =
            writes.is_some_and(|part| part.buffer == Buffer::Input && part.count > 0);
        if writes_input || !reads.iter().flatten().chain(&writes).all(fits) {
            return Err(Fault::Range { place, step });
        }
        if !operands_fit(it.action) {
            return Err(Fault::Operands { place, step });
        }
        let under_way = schedule.steps()[after as usize..step as usize].iter();
        for (first, other) in (after..).zip(under_way) {
            if !is_local(other.action) && race(other, it) {
                let second = step;
                return Err(Fault::Race {
                    place,
                    first,
                    second,
                });
            }
        }
    }
    Ok(())
}

/// Whether a step is complete when it has begun.
fn is_local(action: Action) -> bool {
    matches!(action, Action::Copy { .. } | Action::Reduce { .. })
}

fn partner(action: Action) -> Option<u32> {
    match action {
        Action::Send { to, .. } => Some(to),
        Action::Receive { source, .. } | Action::ReceiveReduce { source, .. } => Some(source),
        Action::Publish { .. } | Action::Reduce { .. } | Action::Copy { .. } => None,
    }
}

fn operands_fit(action: Action) -> bool {
    let one = |operand: Part, into: Part| {
        operand.count == into.count && (operand == into || !operand.overlaps(into))
    };
    match action {
        Action::ReceiveReduce { with, into, .. } => one(with, into),
        Action::Reduce { left, right, into } => {
            one(left, into) && one(right, into) && !left.overlaps(right)
        }
        Action::Copy { from, into } => from.count == into.count && !from.overlaps(into),
        _ => true,
    }
}

fn race(first: &Step, second: &Step) -> bool {
    let meet = |write: Option<Part>, parts: [Option<Part>; 3]| {
        let parts = parts.iter().flatten();
        write.is_some_and(|write| parts.into_iter().any(|part| part.overlaps(write)))
    };
    let touched = |step: &Step| {
        let [one, two] = step.action.reads();
        [one, two, step.action.writes()]
    };
    meet(first.action.writes(), touched(second)) || meet(second.action.writes(), touched(first))
}
