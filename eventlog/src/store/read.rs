//! Reads a rank's batches from the files, in order and complete. EL-5

#[cfg(test)]
mod tests;

use super::contents::{Contents, End, Part, Tracked};
use super::folder::Folder;
use super::format::{Entries, Entry};
use super::walk::{GroupPosition, Walk, read_header};
use super::{ReadError, StoreError};
use core::ops::{ControlFlow, Range};
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Rank};

/// A request for a rank's batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub job: u64,
    pub rank: Rank,
    pub from: EventIndex,
    pub after_clock: Option<Clock>,
}

/// Reads the contents from the files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a> {
    pub files: &'a Folder,
    pub contents: &'a Contents,
}

type Each<'a> = &'a mut dyn FnMut(&BatchHeader, &[u8]) -> ControlFlow<()>;

impl Reader<'_> {
    /// Gives each requested batch; see
    /// [`Logbook::read`](crate::logbook::Logbook::read). `position`: where the last piece
    /// of the same log ended, if it is read in pieces.
    pub fn read(
        &self,
        question: &Question,
        position: &mut GroupPosition,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let number = self.contents.find(question.job, question.rank);
        let tracked = number.map(|number| &self.contents.rows[number]);
        let tracked = tracked.ok_or(ReadError::Unknown {
            job: question.job,
            rank: question.rank.0,
        })?;
        let row = &tracked.row;
        let covered = question
            .after_clock
            .is_some_and(|after| after >= row.trimmed);
        if question.from < row.first && !covered {
            return Err(ReadError::Trimmed {
                rank: question.rank.0,
                first: row.first.0,
                trimmed: row.trimmed.0,
            });
        }
        self.read_log(tracked, question, position, each)
    }

    fn read_log(
        &self,
        tracked: &Tracked,
        question: &Question,
        position: &mut GroupPosition,
        each: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let (end, _) = tracked.written;
        let asked = |to: EventIndex, clock: Clock| {
            to > question.from && question.after_clock.is_none_or(|after| clock > after)
        };
        // The first part that is requested; all later ones are, too.
        let is_before = |part: &&Part| !asked(part.to, part.last_clock);
        let mut parts = tracked.parts.iter().skip_while(is_before);
        let Some(first) = parts.next() else {
            return Ok(());
        };
        // Earlier batches of it were given already; it may begin before the question.
        let mut is_given = position.is_within(first.file, &self.places(first));
        let mut next = match is_given {
            true => question.from,
            false => first.from,
        };
        let is_written = |part: &&Part| part.from < end;
        for part in core::iter::once(first).chain(parts).take_while(is_written) {
            let mut gap = None;
            let walked = self.walk(tracked, part, position, &mut |header, batch| {
                // Given already; or a second copy: the log was cut before it and followed another.
                if header.end() <= next {
                    return ControlFlow::Continue(());
                }
                if core::mem::take(&mut is_given) {
                    next = header.first.min(question.from);
                }
                if header.first != next {
                    gap = Some(header.first);
                    return ControlFlow::Break(());
                }
                next = header.end();
                match asked(header.end(), header.last_clock) {
                    true => each(batch),
                    false => ControlFlow::Continue(()),
                }
            })?;
            if gap.is_none() && walked.is_continue() && next < part.to.min(end) {
                gap = Some(part.to);
            }
            if let Some(to) = gap {
                return Err(ReadError::Gap {
                    rank: question.rank.0,
                    from: next.0,
                    to: to.0,
                    folder: self.files.folder(),
                });
            }
            if walked.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// The range of a file in which a part may lie.
    fn places(&self, part: &Part) -> Range<u64> {
        let file = self.contents.files.get(&part.file);
        part.place..file.map_or(0, |file| file.written_end)
    }

    /// Gives each batch of a part that the log has, in the order of the file; from the
    /// position on, if that is in the part. Sets the position to where the walk stops.
    fn walk(
        &self,
        tracked: &Tracked,
        part: &Part,
        position: &mut GroupPosition,
        each: Each<'_>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let (file, files) = (part.file, self.files);
        let damaged = |place: u64, reason: &str| files.damaged(file, place, reason);
        let header = files.io("reading", file, read_header(files, file))?;
        let header = header.map_err(|_| damaged(0, "its header cannot be read"))?;
        let places = self.places(part);
        let end = places.end;
        let resumed = core::mem::take(position);
        let mut walk = match resumed.is_within(file, &places) {
            true => Walk::resume(files, &header, resumed, end),
            false => Walk::new(files, &header, part.place, end),
        };
        while walk.place() < end {
            let place = walk.place();
            let group = files.io("reading", file, walk.next())?;
            let group = group.ok_or_else(|| damaged(place, "a group that was here is missing"))?;
            for entry in Entries::new(group.content) {
                let entry = entry.map_err(|reason| damaged(place, reason))?;
                let Entry::Batch { job, header, bytes } = entry else {
                    continue;
                };
                let is_asked = (job, header.rank) == (tracked.job, tracked.rank);
                // The part's first group may begin with what was given up.
                let is_within = part.from <= header.first && header.end() <= part.to;
                if !is_asked || !is_within || !tracked.row.has(&header) {
                    continue;
                }
                if each(&header, bytes).is_break() {
                    *position = walk.stop_at(place);
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Clock of the last determinant before `at`, if a batch of the log ends there.
    pub fn clock_before(&self, number: usize, at: EventIndex) -> Result<Option<Clock>, StoreError> {
        let tracked = &self.contents.rows[number];
        if at == tracked.row.first {
            return Ok(Some(tracked.row.clock_before));
        }
        let holds = |part: &&Part| part.from < at && at <= part.to;
        let Some(part) = tracked.parts.iter().find(holds) else {
            return Ok(None);
        };
        let mut clock = None;
        let mut position = GroupPosition::default();
        let _ = self.walk(tracked, part, &mut position, &mut |header, _| {
            if header.end() == at {
                clock = Some(header.last_clock);
            }
            match header.end() >= at {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        Ok(clock)
    }
}

/// The lower of both: `end`, or the log's end if the log was cut since.
pub(crate) fn within(end: End, row: End) -> End {
    match end.0 <= row.0 {
        true => end,
        false => row,
    }
}
