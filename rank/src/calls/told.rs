//! Calls of a rank that plays its past again: they end as records say. REC-4,
//! REC-8

use super::several::{all, end, end_all};
use super::{Answer, Handle, Handles};
use refrain_ring::Clock;
use refrain_transport::engine::{Engine, Outcome};
use refrain_transport::protocol::Protocol;

/// The answer to a call whose end depends on timing and that waits: it goes on
/// until it is told something. For a rank that plays its past again it cannot be
/// that it is told nothing: the next progress fails. REC-8
#[inline]
pub fn awaited<T>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    answer: Answer<T>,
) -> Option<T> {
    match answer {
        Answer::Told(told) => Some(told),
        Answer::NotYet => None,
        Answer::Nothing => {
            if engine.is_told(clock) {
                waits_in_vain(engine, clock);
            }
            None
        }
    }
}

/// A wait that found nothing never ended.
#[cold]
fn waits_in_vain(engine: &mut Engine<impl Protocol>, clock: Clock) {
    engine.diverged(
        clock,
        "it found nothing, or could not, and waits until it finds something now".into(),
    );
}

#[cold]
pub(super) fn test(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handle: &mut Handle,
) -> Answer<Outcome> {
    ended(engine, clock, core::slice::from_mut(handle), true).map(|ended| ended[0].1)
}

#[cold]
pub(super) fn test_any<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
) -> Answer<(usize, Outcome)> {
    ended(engine, clock, handles, true).map(|ended| ended[0])
}

#[cold]
pub(super) fn test_some<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
    mut give: impl FnMut(usize, Outcome),
) -> Answer<usize> {
    ended(engine, clock, handles, false).map(|ended| {
        let count = ended.len();
        ended
            .into_iter()
            .for_each(|(index, outcome)| give(index, outcome));
        count
    })
}

#[cold]
pub(super) fn test_all<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
    give: impl FnMut(usize, Outcome),
) -> Answer<()> {
    let indices = match chosen(engine, clock, handles) {
        Answer::Told(indices) => indices,
        Answer::Nothing => return Answer::Nothing,
        Answer::NotYet => return Answer::NotYet,
    };
    let active = (0..handles.count()).filter(|index| !handles.get(*index).is_null());
    if !active.eq(indices.iter().copied()) {
        let what = format!(
            "it ended {} requests, and tests others for their common end now",
            indices.len()
        );
        engine.diverged(clock, what);
        return Answer::NotYet;
    }
    let have_ended = |index: &usize| handles.get(*index).outcome(engine).is_some();
    if !indices.iter().all(have_ended) {
        return Answer::NotYet;
    }
    end_all(engine, handles, give);
    engine.answered(clock);
    Answer::Told(())
}

/// Ends what records say that the call ended, when all of it has ended.
fn ended<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &mut H,
    only_one: bool,
) -> Answer<Vec<(usize, Outcome)>> {
    let indices = match chosen(engine, clock, handles) {
        Answer::Told(indices) => indices,
        Answer::Nothing => return Answer::Nothing,
        Answer::NotYet => return Answer::NotYet,
    };
    if indices.is_empty() || (only_one && indices.len() > 1) {
        let what = format!("it ended {} requests, and ends one now", indices.len());
        engine.diverged(clock, what);
        return Answer::NotYet;
    }
    let outcomes: Option<Vec<(usize, Outcome)>> = indices
        .iter()
        .map(|index| Some((*index, handles.get(*index).outcome(engine)?)))
        .collect();
    let Some(outcomes) = outcomes else {
        return Answer::NotYet;
    };
    indices
        .iter()
        .for_each(|index| end(engine, handles, *index));
    engine.answered(clock);
    Answer::Told(outcomes)
}

/// Which of them records say that the call ended, in their order.
fn chosen<H: Handles + ?Sized>(
    engine: &mut Engine<impl Protocol>,
    clock: Clock,
    handles: &H,
) -> Answer<Vec<usize>> {
    let requests = match engine.told_ends(clock) {
        Answer::Told(requests) => requests,
        Answer::Nothing => return Answer::Nothing,
        Answer::NotYet => return Answer::NotYet,
    };
    let mut indices = Vec::with_capacity(requests.len());
    for request in requests {
        let found = all(handles).position(|handle| handle.posted_at() == Some(request));
        match found {
            Some(index) => indices.push(index),
            None => {
                let what = format!(
                    "it ended the request of operation {request}, which it does not ask for now"
                );
                engine.diverged(clock, what);
                return Answer::NotYet;
            }
        }
    }
    Answer::Told(indices)
}
