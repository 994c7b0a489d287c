//! Calls on several requests. In a replay they end as the records say. REC-4, REC-8

use super::handle::{Handle, Handles};
use refrain_ring::Clock;
use refrain_transport::engine::{Engine, Outcome};
use refrain_transport::protocol::Protocol;
use refrain_transport::recorded::{Answer, NoAnswer};

/// Whether all handles are null.
#[inline]
pub fn are_null<H: Handles + ?Sized>(handles: &H) -> bool {
    all(handles).all(Handle::is_null)
}

/// The answer to a call that waits and whose result depends on timing: `None` until there is a
/// result. In a replay, a record that the call found nothing makes the next progress fail, since
/// the call would never end. REC-8
#[inline]
pub fn awaited<T>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    answer: Answer<T>,
) -> Option<T> {
    if matches!(answer, Err(NoAnswer::Nothing)) && engine.is_recorded(clock) {
        let what = "it found no result, and waits for a result now";
        engine.diverged(clock, what.into());
    }
    answer.ok()
}

/// A wait for any; else as [`test_any`].
#[inline]
pub fn try_any<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
) -> Option<(usize, Outcome)> {
    let answer = test_any(engine, clock, handles);
    awaited(engine, clock, answer)
}

/// A test for any: returns the index and outcome of the first request that has ended, and makes its
/// handle null. After [`NoAnswer::Nothing`] the caller calls
/// [`found_nothing`](super::found_nothing).
#[inline]
pub fn test_any<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
) -> Answer<(usize, Outcome)> {
    if engine.is_recorded(clock) {
        return recorded(engine, clock, handles, true).map(|ended| ended[0]);
    }
    let (index, outcome) = first_ended(engine, handles).ok_or(NoAnswer::Nothing)?;
    note_one(engine, clock, handles.get(index));
    end(engine, handles, index);
    Ok((index, outcome))
}

/// A wait for some; else as [`test_some`].
pub fn try_some<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
    give: impl FnMut(usize, Outcome),
) -> Option<usize> {
    let answer = test_some(engine, clock, handles, give);
    awaited(engine, clock, answer)
}

/// A test for some: gives the index and outcome of each request that has ended to `give`, makes the
/// handles null, and returns their number. After [`NoAnswer::Nothing`] the caller calls
/// [`found_nothing`](super::found_nothing).
pub fn test_some<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
    mut give: impl FnMut(usize, Outcome),
) -> Answer<usize> {
    if engine.is_recorded(clock) {
        let ended = recorded(engine, clock, handles, false)?;
        for &(index, outcome) in &ended {
            give(index, outcome);
        }
        return Ok(ended.len());
    }
    first_ended(engine, handles).ok_or(NoAnswer::Nothing)?;
    note(engine, clock, handles);
    Ok(end_all(engine, handles, give))
}

/// A wait for all: when all requests have ended, gives the index and outcome of each to `give`,
/// except null ones, and makes the handles null.
#[inline]
pub fn try_all<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    handles: &mut H,
    give: impl FnMut(usize, Outcome),
) -> Option<()> {
    has_all_ended(engine, handles).then(|| _ = end_all(engine, handles, give))
}

/// A test of all; else as [`try_all`]. After [`NoAnswer::Nothing`] the caller calls
/// [`found_nothing`](super::found_nothing).
pub fn test_all<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
    give: impl FnMut(usize, Outcome),
) -> Answer<()> {
    let are_null = are_null(handles);
    if engine.is_recorded(clock) && !are_null {
        return test_all_recorded(engine, clock, handles, give);
    }
    if !has_all_ended(engine, handles) {
        return Err(NoAnswer::Nothing);
    }
    // With null requests only, the result is deterministic.
    if !are_null {
        note(engine, clock, handles);
    }
    end_all(engine, handles, give);
    Ok(())
}

#[inline]
fn all<H: Handles + ?Sized>(handles: &H) -> impl Iterator<Item = &Handle> {
    (0..handles.count()).map(|index| handles.get(index))
}

#[inline]
fn first_ended<H: Handles + ?Sized>(
    engine: &Engine<impl Protocol>,
    handles: &H,
) -> Option<(usize, Outcome)> {
    all(handles)
        .enumerate()
        .find_map(|(index, handle)| Some((index, handle.outcome(engine)?)))
}

#[inline]
fn has_all_ended<H: Handles + ?Sized>(engine: &Engine<impl Protocol>, handles: &H) -> bool {
    all(handles).all(|handle| handle.is_null() || handle.outcome(engine).is_some())
}

/// Ends all requests that have ended; returns their number.
fn end_all<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    handles: &mut H,
    mut give: impl FnMut(usize, Outcome),
) -> usize {
    let mut count = 0;
    for index in 0..handles.count() {
        if let Some(outcome) = handles.get(index).outcome(engine) {
            end(engine, handles, index);
            give(index, outcome);
            count += 1;
        }
    }
    count
}

#[inline]
fn end<H: Handles + ?Sized>(engine: &mut Engine<impl Protocol>, handles: &mut H, index: usize) {
    let mut handle = *handles.get(index);
    handle.end(engine);
    handles.clear(index);
}

/// Records the event that a timing-dependent call ends this request.
#[inline]
pub(super) fn note_one(engine: &mut Engine<impl Protocol>, clock: Clock, handle: &Handle) {
    let posted_at = handle.posted_at().unwrap_or_default();
    engine.note_completion(clock, &[posted_at]);
    engine.operation_ended();
}

/// Records the event that a timing-dependent call ends all requests that have ended: a replay must
/// end the same ones.
fn note<H: Handles + ?Sized>(engine: &mut Engine<impl Protocol>, clock: Clock, handles: &H) {
    engine.note_completions(clock, |engine, requests| {
        let ended = all(handles).filter(|handle| handle.outcome(engine).is_some());
        requests.extend(ended.filter_map(Handle::posted_at));
    });
    engine.operation_ended();
}

#[cold]
fn test_all_recorded<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
    give: impl FnMut(usize, Outcome),
) -> Answer<()> {
    let indices = chosen(engine, clock, handles)?;
    let active = (0..handles.count()).filter(|index| !handles.get(*index).is_null());
    if !active.eq(indices.iter().copied()) {
        let count = indices.len();
        let what = format!("it ended {count} requests, and tests other requests now");
        engine.diverged(clock, what);
        return Err(NoAnswer::NotYet);
    }
    if !has_all_ended(engine, handles) {
        return Err(NoAnswer::NotYet);
    }
    end_all(engine, handles, give);
    engine.answered(clock);
    Ok(())
}

/// Ends the requests that the recorded call ended, when all of them have ended.
#[cold]
pub(super) fn recorded<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
    only_one: bool,
) -> Answer<Vec<(usize, Outcome)>> {
    let indices = chosen(engine, clock, handles)?;
    if indices.is_empty() || (only_one && indices.len() > 1) {
        let what = format!("it ended {} requests; now it ends one", indices.len());
        engine.diverged(clock, what);
        return Err(NoAnswer::NotYet);
    }
    let outcomes = indices
        .iter()
        .map(|index| Some((*index, handles.get(*index).outcome(engine)?)))
        .collect::<Option<Vec<_>>>()
        .ok_or(NoAnswer::NotYet)?;
    for index in indices {
        end(engine, handles, index);
    }
    engine.answered(clock);
    Ok(outcomes)
}

/// The indices of the requests that the recorded call ended, in the order of the record.
fn chosen<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &H,
) -> Answer<Vec<usize>> {
    let mut indices = Vec::new();
    for request in engine.recorded_ends(clock)? {
        match all(handles).position(|handle| handle.posted_at() == Some(request)) {
            Some(index) => indices.push(index),
            None => {
                let what = format!(
                    "it ended the request of operation {request}, which is not among its requests now"
                );
                engine.diverged(clock, what);
                return Err(NoAnswer::NotYet);
            }
        }
    }
    Ok(indices)
}
