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
) -> Option<Vec<(usize, Outcome)>> {
    let answer = test_some(engine, clock, handles);
    told::awaited(engine, clock, answer)
}

/// A test for some: all that have ended, by index, if any has. They are null
/// then. If it is told nothing, the caller says that it
/// [found nothing](super::found_nothing).
pub fn test_some<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
) -> Answer<Vec<(usize, Outcome)>> {
    if engine.is_told(clock) {
        return told::test_some(engine, clock, handles);
    }
    if first_ended(engine, handles).is_none() {
        return Answer::Nothing;
    }
    let ended: Vec<(usize, Outcome)> = all(handles)
        .enumerate()
        .filter_map(|(index, handle)| Some((index, handle.outcome(engine)?)))
        .collect();
    let indices: Vec<usize> = ended.iter().map(|(index, _)| *index).collect();
    note(engine, clock, handles, &indices);
    indices
        .iter()
        .for_each(|index| end(engine, handles, *index));
    Answer::Told(ended)
}

/// A wait for all: how they ended, in their order, `None` of null ones; only when
/// all have. They are null then.
#[inline]
pub fn try_all<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    handles: &mut H,
) -> Option<Vec<Option<Outcome>>> {
    has_all_ended(engine, handles).then(|| end_all(engine, handles))
}

/// A test of all, as [`try_all`]. If it is told nothing, the caller says that it
/// [found nothing](super::found_nothing).
pub fn test_all<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
) -> Answer<Vec<Option<Outcome>>> {
    if engine.is_told(clock) && !are_null(handles) {
        return told::test_all(engine, clock, handles);
    }
    if !has_all_ended(engine, handles) {
        return Answer::Nothing;
    }
    let indices: Vec<usize> = (0..handles.count())
        .filter(|index| !handles.get(*index).is_null())
        .collect();
    // Of null requests only: deterministic.
    if !indices.is_empty() {
        note(engine, clock, handles, &indices);
    }
    Answer::Told(end_all(engine, handles))
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
) -> Vec<Option<Outcome>> {
    let outcomes = all(handles).map(|handle| handle.outcome(engine)).collect();
    (0..handles.count()).for_each(|index| end(engine, handles, index));
    outcomes
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

/// Tells the protocol that a timing-dependent call ended these requests, all of
/// them: a replay has to end the same ones.
fn note<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &H,
    ended: &[usize],
) {
    if let [index] = ended {
        return note_one(engine, clock, handles.get(*index));
    }
    let posted: Vec<Clock> = ended
        .iter()
        .filter_map(|index| handles.get(*index).posted_at())
        .collect();
    engine.note_completion(clock, &posted);
    engine.operation_ended();
}
