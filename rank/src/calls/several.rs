//! Calls on several requests at once.

use super::{Answer, Handle, Handles, note_one, told};
use refrain_ring::Clock;
use refrain_transport::engine::{Engine, Outcome};
use refrain_transport::protocol::Protocol;

/// Whether there is nothing to wait for.
#[inline]
pub fn are_null<H: Handles + ?Sized>(handles: &H) -> bool {
    all(handles).all(Handle::is_null)
}

/// A wait for any: as [`test_any`].
#[inline]
pub fn try_any<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
) -> Option<(usize, Outcome)> {
    let answer = test_any(engine, clock, handles);
    told::awaited(engine, clock, answer)
}

/// A test for any: the first that has ended, by index, if one has. It is null
/// then. If it is told nothing, the caller says that it
/// [found nothing](super::found_nothing).
#[inline]
pub fn test_any<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
) -> Answer<(usize, Outcome)> {
    if engine.is_told(clock) {
        return told::test_any(engine, clock, handles);
    }
    let Some((index, outcome)) = first_ended(engine, handles) else {
        return Answer::Nothing;
    };
    note_one(engine, clock, handles.get(index));
    end(engine, handles, index);
    Answer::Told((index, outcome))
}

/// A wait for some: as [`test_some`].
pub fn try_some<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
    ended: impl FnMut(usize, Outcome),
) -> Option<usize> {
    let answer = test_some(engine, clock, handles, ended);
    told::awaited(engine, clock, answer)
}

/// A test for some: gives all that have ended, by index, to `ended`, and returns how
/// many there are, if any. They are null then. If it is told nothing, the caller says
/// that it [found nothing](super::found_nothing).
pub fn test_some<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
    mut ended: impl FnMut(usize, Outcome),
) -> Answer<usize> {
    if engine.is_told(clock) {
        return told::test_some(engine, clock, handles, ended);
    }
    if first_ended(engine, handles).is_none() {
        return Answer::Nothing;
    }
    note(engine, clock, handles);
    let mut count = 0;
    for index in 0..handles.count() {
        if let Some(outcome) = handles.get(index).outcome(engine) {
            end(engine, handles, index);
            ended(index, outcome);
            count += 1;
        }
    }
    Answer::Told(count)
}

/// A wait for all: gives to `ended` how each has ended, by index, but for null ones;
/// only when all have. They are null then.
#[inline]
pub fn try_all<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    handles: &mut H,
    ended: impl FnMut(usize, Outcome),
) -> Option<()> {
    has_all_ended(engine, handles).then(|| end_all(engine, handles, ended))
}

/// A test of all, as [`try_all`]. If it is told nothing, the caller says that it
/// [found nothing](super::found_nothing).
pub fn test_all<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
    ended: impl FnMut(usize, Outcome),
) -> Answer<()> {
    let are_null = are_null(handles);
    if engine.is_told(clock) && !are_null {
        return told::test_all(engine, clock, handles, ended);
    }
    if !has_all_ended(engine, handles) {
        return Answer::Nothing;
    }
    // Of null requests only: deterministic.
    if !are_null {
        note(engine, clock, handles);
    }
    Answer::Told(end_all(engine, handles, ended))
}

#[inline]
pub(super) fn all<H: Handles + ?Sized>(handles: &H) -> impl Iterator<Item = &Handle> {
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

pub(super) fn end_all<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    handles: &mut H,
    mut ended: impl FnMut(usize, Outcome),
) {
    for index in 0..handles.count() {
        if let Some(outcome) = handles.get(index).outcome(engine) {
            end(engine, handles, index);
            ended(index, outcome);
        }
    }
}

#[inline]
pub(super) fn end<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    handles: &mut H,
    index: usize,
) {
    let mut handle = *handles.get(index);
    handle.end(engine);
    handles.clear(index);
}

/// Tells the protocol that a timing-dependent call ends the requests that have ended,
/// all of them: a replay has to end the same ones.
fn note<H: Handles + ?Sized>(engine: &mut Engine<impl Protocol>, clock: Clock, handles: &H) {
    engine.note_completions(clock, |engine, requests| {
        let ended = all(handles).filter(|handle| handle.outcome(engine).is_some());
        requests.extend(ended.filter_map(Handle::posted_at));
    });
    engine.operation_ended();
}
