//! The receiver's lane, and the records that it must deliver.

use crate::writer::{Record, Writer};
use refrain_ring::read_back::{ChunkBytes, ReadBackError};
use refrain_ring::resend::{Lane as Given, Resend, Resent};
use refrain_ring::{CHUNK_BYTES, ChannelReader, ChunkId, Frame, Frontier, Position};

/// The way in which frames come to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The receiver reads the log in place, and advances by itself.
    InPlace,
    /// The receiver gets each posted frame.
    Copying,
}

#[derive(Debug)]
pub struct Lane {
    kind: Kind,
    resend: Resend,
    reader: Option<ChannelReader>,
    /// Position behind the last record that the receiver has taken.
    read_to: Option<Position>,
    /// Position behind the last frame that was given.
    given_to: Option<Position>,
    /// Frames that are posted and not yet received (copying).
    posted: Vec<Frame>,
    released: Position,
    is_at_end: bool,
    /// Reads that the disk has answered.
    answered: Vec<u64>,
    /// The error that stops reading the log.
    pub error: Option<ReadBackError>,
}

impl Lane {
    pub fn new(writer: &Writer, from: Frontier, kind: Kind) -> Self {
        Self {
            kind,
            resend: Resend::new(&writer.log, from),
            reader: None,
            read_to: None,
            given_to: None,
            posted: Vec::new(),
            released: Position(0),
            is_at_end: false,
            answered: Vec::new(),
            error: None,
        }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn from(&self) -> &Frontier {
        self.resend.from()
    }

    pub fn has_begun(&self) -> bool {
        self.given_to.is_some()
    }

    pub fn trimmable(&self) -> Position {
        self.resend.trimmable(self.released)
    }

    /// Whether the receiver has all records, and needs no more memory of the log.
    pub fn has_all(&self, writer: &Writer) -> bool {
        let mut missing = writer.published_from(self.resend.from());
        self.is_at_end && missing.all(|record| Some(record.position) < self.read_to)
    }

    pub fn resend(&mut self, writer: &mut Writer, records: usize) {
        for _ in 0..records {
            let posted = writer.posted();
            let given = Given {
                log: &writer.log,
                arena: &mut writer.arena,
                posted,
                horizon: &writer.horizon,
                released: self.released,
            };
            self.is_at_end = false;
            match self.resend.step(given, &mut writer.disk) {
                Ok(Resent::Frame(frame)) => self.post(writer, frame),
                Ok(Resent::End) => {
                    self.is_at_end = true;
                    return;
                }
                Ok(Resent::Waiting) => return,
                Err(error) => {
                    self.error = Some(error);
                    return;
                }
            }
        }
    }

    fn post(&mut self, writer: &Writer, frame: Frame) {
        let from = self.resend.from();
        let begin = self.given_to.max(Some(self.released));
        let mut expected = writer.published_from(from);
        let next = expected.find(|record| Some(record.position) >= begin);
        let next = next.expect("nothing more is published");
        assert_eq!(
            frame.position, next.position,
            "from {from:?} a frame is left out"
        );
        assert_eq!(frame.header(writer.arena.region()), Ok(next.header));
        self.given_to = Some(next.end());
        frame.publish(writer.arena.region());
        match self.kind {
            Kind::Copying => self.posted.push(frame),
            Kind::InPlace if self.reader.is_none() => {
                self.reader = Some(reader_at(writer, &frame));
            }
            Kind::InPlace => {}
        }
    }

    pub fn read(&mut self, writer: &Writer, records: usize) {
        match self.kind {
            Kind::InPlace => self.read_in_place(writer, records),
            Kind::Copying => self.take_posted(writer, records),
        }
    }

    fn read_in_place(&mut self, writer: &Writer, records: usize) {
        let Some(mut reader) = self.reader.take() else {
            return;
        };
        for _ in 0..records {
            let Some(record) = reader.read().expect("the log is whole") else {
                break;
            };
            let found = Record {
                header: record.header,
                payload: record.payload.to_vec(),
                position: record.position,
            };
            self.take(writer, &found);
        }
        self.released = reader.position();
        self.reader = Some(reader);
    }

    /// Posted frames are read in place, at any time before they are released.
    fn take_posted(&mut self, writer: &Writer, records: usize) {
        let records = records.min(self.posted.len());
        for frame in self.posted.drain(..records).collect::<Vec<_>>() {
            let mut reader = reader_at(writer, &frame);
            let found = loop {
                let record = reader.read().expect("the log is whole");
                let record = record.expect("what was posted is published");
                if record.position == frame.position {
                    break Record {
                        header: record.header,
                        payload: record.payload.to_vec(),
                        position: record.position,
                    };
                }
            };
            self.take(writer, &found);
            self.released = found.end();
        }
    }

    /// The receiver takes a record: the next one that it misses, or one before it
    /// in the first chunk, or of an earlier message.
    fn take(&mut self, writer: &Writer, found: &Record) {
        let from = self.resend.from();
        let mut expected = writer.published_from(from);
        let next = expected.find(|record| Some(record.position) >= self.read_to);
        if from.is_beyond(found.header.ssn)
            || next.is_some_and(|next| found.position < next.position)
        {
            let mut known = writer.records.iter();
            let known = known.find(|record| record.position == found.position);
            verify(found, known.expect("it was packed"));
            return;
        }
        verify(found, next.expect("it is published"));
        self.read_to = Some(found.end());
    }

    /// The disk answers one read.
    pub fn disk_read_ends(&mut self, writer: &Writer, which: usize, fails: bool) {
        let Some((token, sequence)) = self.next_answer(writer, which) else {
            return;
        };
        let bytes = match writer.disk.bytes(sequence) {
            _ if fails => Err("the disk is out of order".to_owned()),
            // A horizon has passed it meanwhile.
            None => Err("it is gone".to_owned()),
            Some(bytes) => Ok(ChunkBytes::new(bytes)),
        };
        assert!(self.resend.arrived(token, bytes));
    }

    /// The disk answers with one wrong bit.
    pub fn disk_read_is_damaged(&mut self, writer: &Writer) {
        let (token, sequence) = self.next_answer(writer, 0).expect("a read is under way");
        let mut bytes = writer.disk.bytes(sequence).expect("it is on disk");
        bytes[100_000] ^= 1;
        assert!(self.resend.arrived(token, Ok(ChunkBytes::new(bytes))));
    }

    fn next_answer(&mut self, writer: &Writer, which: usize) -> Option<(u64, u64)> {
        let mine: Vec<(u64, u64)> = (writer.disk.reads.iter().copied())
            .filter(|(token, _)| self.resend.waits_for(*token))
            .filter(|(token, _)| !self.answered.contains(token))
            .collect();
        let next = mine.get(which % mine.len().max(1)).copied()?;
        self.answered.push(next.0);
        Some(next)
    }
}

fn verify(found: &Record, expected: &Record) {
    assert_eq!(found.position, expected.position, "positions are the log's");
    assert_eq!(found.header, expected.header);
    assert!(found.payload == expected.payload, "{:?}", expected.header);
}

/// A reader at the head of a frame's chunk.
fn reader_at(writer: &Writer, frame: &Frame) -> ChannelReader {
    let chunk = ChunkId((frame.offset / CHUNK_BYTES) as u32);
    let region = writer.arena.region().clone();
    let reader = ChannelReader::new(region, 0, chunk).expect("the frame lies in a chunk");
    assert_eq!(
        reader.position().0 / CHUNK_BYTES as u64,
        frame.position.0 / CHUNK_BYTES as u64,
        "a chunk says where in the log it belongs"
    );
    reader
}
