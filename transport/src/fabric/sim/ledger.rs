//! The [`Ledger`]: the frames that a sender's log has to hold for one receiver.
//!
//! The ledger reads each frame when it is posted, and again when it is released: the engine must
//! not have changed or freed it in between. A real device may read the log at any time until then,
//! so breaking this promise is a panic that names the frame.

use super::lane::Bytes;
use super::trace::Route;
use refrain_ring::{
    CHUNK_BYTES, ChannelReader, ChunkId, Frame, Position, ReadError, RecordHeader, Region,
};
use std::collections::VecDeque;
use std::rc::Rc;

#[derive(Debug)]
struct Posted {
    position: Position,
    end: Position,
    bytes: Bytes,
    done: bool,
}

#[derive(Debug)]
pub(super) struct Ledger {
    route: Route,
    region: Region,
    /// One reader at the last posted frame, one at the last released frame.
    readers: Option<[ChannelReader; 2]>,
    unreleased: VecDeque<Posted>,
    /// Releases in flight to the sender: due tick and position.
    notices: VecDeque<(u64, Position)>,
    pub(super) released: Position,
    /// End of the last frame whose release is in flight.
    done_to: Position,
    broken: bool,
    /// Whether the sender is dead or has disconnected: then the log is not checked any more.
    closed: bool,
}

impl Ledger {
    pub(super) fn new(route: Route, region: Region) -> Self {
        Self {
            route,
            region,
            readers: None,
            unreleased: VecDeque::new(),
            notices: VecDeque::new(),
            released: Position(0),
            done_to: Position(0),
            broken: false,
            closed: false,
        }
    }

    /// Publishes a frame and reads it out of the log. `None` once the log is broken: later records
    /// cannot be found.
    pub(super) fn post(&mut self, frame: &Frame) -> Option<Result<Bytes, ReadError>> {
        frame.publish(&self.region);
        if self.broken {
            return None;
        }
        let posted = self.read_posted(frame);
        self.broken = posted.is_err();
        Some(posted)
    }

    fn read_posted(&mut self, frame: &Frame) -> Result<Bytes, ReadError> {
        if self.readers.is_none() {
            // The lane begins here.
            self.readers = Some([open(&self.region, frame)?, open(&self.region, frame)?]);
            self.done_to = frame.position;
        }
        let [posting, _] = self.readers.as_mut().expect("opened above");
        let copied = copy_at(posting, frame.position)?;
        let (end, bytes) = copied.unwrap_or_else(|| {
            panic!(
                "{:?} posted the frame at {:?} out of order: a lane begins with any record of its log, and goes on in order over published ones",
                self.route, frame.position
            )
        });
        self.unreleased.push_back(Posted {
            position: frame.position,
            end,
            bytes: Rc::clone(&bytes),
            done: false,
        });
        Ok(bytes)
    }

    /// Notes that the receiver does not need the frame at `position` any more. Returns the position
    /// up to which the log is free now, if that moved.
    pub(super) fn done(&mut self, position: Position) -> Option<Position> {
        let unreleased = &mut self.unreleased;
        let index = unreleased.binary_search_by_key(&position, |posted| posted.position);
        unreleased[index.ok()?].done = true;
        let before = self.done_to;
        while let Some(posted) = self.unreleased.pop_front_if(|posted| posted.done) {
            self.prove_unchanged(&posted);
            self.done_to = posted.end;
        }
        (self.done_to != before).then_some(self.done_to)
    }

    /// The sender leaves the chunk of the last frame: the next one is looked for anew.
    pub(super) fn leave_chunk(&mut self) {
        assert!(
            self.unreleased.is_empty(),
            "{:?}: the chunk is left while its frames are needed",
            self.route
        );
        self.readers = None;
    }

    fn prove_unchanged(&mut self, posted: &Posted) {
        if self.closed {
            return;
        }
        let [_, releasing] = self.readers.as_mut().expect("the frame was posted");
        let found = copy_at(releasing, posted.position);
        let same = matches!(&found, Ok(Some((_, bytes))) if *bytes == posted.bytes);
        assert!(
            same,
            "{:?}: the frame at {:?} was changed or freed before it was released",
            self.route, posted.position
        );
    }

    /// Informs the sender of a release at tick `due`, or with the notice before it if that is
    /// later.
    pub(super) fn notify(&mut self, due: u64, position: Position) {
        let due = self.notices.back().map_or(due, |(last, _)| due.max(*last));
        self.notices.push_back((due, position));
    }

    pub(super) fn next_due(&self) -> Option<u64> {
        self.notices.front().map(|(due, _)| *due)
    }

    /// Applies the releases that are due; returns whether the position moved.
    pub(super) fn take_due(&mut self, now: u64) -> bool {
        let mut moved = false;
        while let Some((_, position)) = self.notices.pop_front_if(|(due, _)| *due <= now) {
            self.released = position;
            moved = true;
        }
        moved
    }

    /// Bytes of log from the oldest frame that is not done up to `position`.
    pub(super) fn pinned_bytes(&self, position: Position) -> u64 {
        position.0.saturating_sub(self.done_to.0)
    }

    /// Whether there is a frame that is not done and for whose payload length `of` holds.
    pub(super) fn owes(&self, of: impl Fn(usize) -> bool) -> bool {
        let open = self.unreleased.iter().filter(|posted| !posted.done);
        let payloads = open.map(|posted| posted.bytes.len() - RecordHeader::BYTES);
        !self.closed && payloads.into_iter().any(of)
    }

    /// Ends the checks: the sender may change its log from now on.
    pub(super) fn close(&mut self) {
        self.closed = true;
        self.notices.clear();
    }
}

/// Opens a reader at the first frame of a lane.
fn open(region: &Region, first: &Frame) -> Result<ChannelReader, ReadError> {
    let chunk = u32::try_from(first.offset / CHUNK_BYTES).unwrap_or(u32::MAX);
    let mut reader = ChannelReader::new(region.clone(), 0, ChunkId(chunk))?;
    while reader.position() < first.position && reader.read()?.is_some() {}
    Ok(reader)
}

/// Copies the record at a position, if the reader reaches it over published records. Returns the
/// position behind the record, and its header and payload.
fn copy_at(
    reader: &mut ChannelReader,
    position: Position,
) -> Result<Option<(Position, Bytes)>, ReadError> {
    while reader.position() <= position
        && let Some(record) = reader.read()?
    {
        if record.position == position {
            let bytes = [&record.header.encode()[..], record.payload].concat();
            return Ok(Some((reader.position(), bytes.into())));
        }
    }
    Ok(None)
}
