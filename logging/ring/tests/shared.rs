//! Payload that several channels share: readers with good, bad and outdated references; freeing,
//! against a model and with planted bugs; reading back.

#![cfg(not(loom))]

use refrain_ring::read_back::{DiskChunks, Progress, ReadBack, ReadBackError, Writer};
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, ChannelReader, ChunkId, Frontier, HeaderError, Incarnation,
    Position, Rank, ReadError, RecordHeader, RecordKind, Reference, Referred, SharedPayload, Ssn,
};

const SOURCE: Rank = Rank(7);
const LIFE: Incarnation = Incarnation(3);
const CHUNK: u64 = CHUNK_BYTES as u64;

fn header(ssn: Ssn, bytes: u32, flags: u16) -> RecordHeader {
    RecordHeader {
        payload_bytes: 0,
        kind: RecordKind::Eager,
        flags,
        incarnation: Incarnation(0),
        source: Rank(0),
        ssn,
        context: 1,
        tag: 2,
        extent: bytes.into(),
    }
}

/// The bytes of a message.
fn content(message: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64)
        .map(|at| (message.wrapping_mul(0x9e37_79b9).wrapping_add(at * 7) >> 3) as u8)
        .collect()
}

/// Appends and publishes a record that refers to shared payload.
fn append(log: &mut ChannelLog, arena: &mut Arena, ssn: Ssn, reference: &Reference) -> usize {
    let header = header(ssn, reference.bytes, RecordHeader::REFERENCE);
    let fill = |place: &mut [u8]| place.copy_from_slice(&reference.encode());
    let frame = log.append(arena, Reference::BYTES, true, header, fill);
    let frame = frame.expect("room in the log");
    frame.publish(arena.region());
    frame.offset
}

/// One channel with one record, whose reference can be replaced.
struct One {
    arena: Arena,
    shared: SharedPayload,
    log: ChannelLog,
    reference: Reference,
    offset: usize,
}

impl One {
    fn new() -> Self {
        let mut arena = Arena::heap(8 * CHUNK_BYTES);
        let mut shared = SharedPayload::new(SOURCE, LIFE, 4 * CHUNK);
        let mut log = ChannelLog::new(SOURCE, LIFE, Rank(1), 4 * CHUNK);
        let fill = |place: &mut [u8]| place.copy_from_slice(&content(1, 3000));
        let reference = shared.put(&mut arena, 3000, fill).expect("room");
        let offset = append(&mut log, &mut arena, Ssn(0), &reference);
        shared.refer(&reference, Rank(1), log.tail(), Ssn(0));
        Self {
            arena,
            shared,
            log,
            reference,
            offset,
        }
    }

    fn reader(&self) -> ChannelReader {
        let first = self.log.first_chunk().expect("it has begun");
        ChannelReader::new(self.arena.region().clone(), 0, first).expect("a chunk")
    }

    /// The error of a reader of the record with another reference.
    fn error(&self, change: impl FnOnce(&mut Reference)) -> ReadError {
        let mut reference = self.reference;
        change(&mut reference);
        let encoded = reference.encode();
        for (index, word) in encoded.as_chunks::<8>().0.iter().enumerate() {
            let at = self.offset + 48 + 8 * index;
            self.arena
                .region()
                .store_word(at, u64::from_le_bytes(*word));
        }
        let mut reader = self.reader();
        let before = reader.position();
        let error = reader.read().expect_err("a bad reference");
        assert_eq!(reader.position(), before, "the reader stays there");
        error
    }
}

// LOG-6
#[test]
fn a_reader_finds_payload_elsewhere() {
    let one = One::new();
    let mut reader = one.reader();
    let record = reader.read().expect("sound").expect("published");
    let expected = RecordHeader {
        payload_bytes: 3000,
        incarnation: LIFE,
        source: SOURCE,
        ..header(Ssn(0), 3000, 0)
    };
    assert_eq!(record.header, expected);
    assert_eq!(record.payload, content(1, 3000));
    assert_eq!(record.position, Position(64));
    let offset = record.payload_offset;
    assert_eq!(bytes_at(&one.arena, offset, 3000), content(1, 3000));
    assert_eq!(reader.position(), one.log.tail());
    assert!(reader.read().expect("sound").is_none());
}

// LOG-6
#[test]
fn bad_references_are_refused() {
    let one = One::new();
    let extent = |error| matches!(error, ReadError::Header(HeaderError::Extent { .. }));
    assert!(extent(one.error(|it| it.bytes = 0)));
    assert!(
        extent(one.error(|it| it.bytes = 3001)),
        "beyond its message"
    );
    assert!(extent(one.error(|it| it.bytes = u32::MAX)));
    assert!(extent(one.error(|it| it.position.0 -= 1)), "in the header");
    assert!(
        extent(one.error(|it| it.position.0 = CHUNK - 2999)),
        "beyond its chunk"
    );
    assert_eq!(one.error(|it| it.chunk.0 = 8), ReadError::Reference(8));
    assert_eq!(
        one.error(|it| it.chunk.0 = u32::MAX),
        ReadError::Reference(u32::MAX)
    );
    let one = One::new();
    assert!(
        one.reader().read().expect("sound").is_some(),
        "the unchanged one"
    );
}

// LOG-6
#[test]
fn a_reference_to_another_chunk_is_passed() {
    for change in [
        |it: &mut Reference| it.position.0 += CHUNK,
        |it: &mut Reference| it.chunk.0 += 1,
        |it: &mut Reference| it.chunk.0 += 5,
    ] {
        let mut one = One::new();
        let mut reference = one.reference;
        change(&mut reference);
        append(&mut one.log, &mut one.arena, Ssn(1), &reference);
        append(&mut one.log, &mut one.arena, Ssn(2), &one.reference);
        let mut reader = one.reader();
        let mut ssns = Vec::new();
        while let Some(record) = reader.read().expect("sound") {
            ssns.push(record.header.ssn.0);
        }
        assert_eq!(ssns, [0, 2]);
    }
}

/// No header has a reference without room for it, or of a kind without payload.
#[test]
fn only_records_with_payload_refer() {
    let mut bytes = RecordHeader {
        payload_bytes: 16,
        ..header(Ssn(1), 100, RecordHeader::REFERENCE)
    }
    .encode();
    assert!(RecordHeader::decode(&bytes).is_ok());
    for (at, value) in [(0, 15), (0, 17), (4, 2), (4, 4), (6, 8), (6, 10)] {
        let before = core::mem::replace(&mut bytes[at], value);
        let refused = RecordHeader::decode(&bytes);
        assert!(
            matches!(refused, Err(HeaderError::Flags(_))),
            "{at} {value}"
        );
        bytes[at] = before;
    }
    bytes[4] = 3;
    assert!(RecordHeader::decode(&bytes).is_ok(), "a fragment may refer");
}

#[test]
fn the_area_is_bounded_and_goes_round() {
    let mut arena = Arena::heap(8 * CHUNK_BYTES);
    let mut none = SharedPayload::new(SOURCE, LIFE, 2 * CHUNK - 1);
    assert!(!none.is_on() && none.put(&mut arena, 100, |_| {}).is_none());
    let mut shared = SharedPayload::new(SOURCE, LIFE, 2 * CHUNK);
    let put = |arena: &mut Arena, shared: &mut SharedPayload| {
        shared.put(arena, 100_000, |place| place.fill(1))
    };
    let first = put(&mut arena, &mut shared).expect("room");
    let mut last = first;
    while let Some(next) = put(&mut arena, &mut shared) {
        assert!(next.bytes == 100_000 || next.offset() + next.bytes as usize == CHUNK_BYTES);
        last = next;
    }
    assert_eq!(
        (arena.used_bytes(), shared.tail().0),
        (2 * CHUNK, 2 * CHUNK)
    );
    shared.refer(&first, Rank(1), Position(100), Ssn(0));
    shared.trim(&mut arena, |_| false);
    assert!(shared.has(&first));
    shared.trim(&mut arena, |_| true);
    assert!(
        !shared.has(&first) && shared.has(&last),
        "the chunk being filled stays"
    );
    let again = put(&mut arena, &mut shared).expect("room again");
    assert_eq!(again.chunk, first.chunk, "the chunk freed last");
    assert_eq!(again.position.0 / CHUNK, 2);
}

/// No chunks are on disk.
struct NoDisk;

impl DiskChunks for NoDisk {
    fn find(&self, _from: &Frontier) -> Option<u64> {
        None
    }
    fn begin_read(&mut self, _sequence: u64) -> Option<u64> {
        None
    }
    fn place(&self, _sequence: u64) -> Option<String> {
        None
    }
}

// LOG-2 LOG-6
#[test]
fn shared_payload_is_read_back_until_it_is_freed() {
    let mut one = One::new();
    let (free, none) = (Frontier::from(Ssn(1)), Frontier::default());
    let read = |one: &One, horizon: &Frontier| {
        let mut reader = ReadBack::new(&one.log, Ssn(0));
        let mut found = Vec::new();
        let mut step = |horizon| {
            let writer = Writer {
                log: &one.log,
                arena: &one.arena,
                posted: one.log.tail(),
                horizon,
            };
            reader.step(writer, &mut NoDisk, &mut |header, payload| {
                assert_eq!(header.flags & RecordHeader::REFERENCE, 0);
                assert_eq!(header.payload_bytes as usize, payload.len());
                found.push(payload.to_vec());
            })
        };
        // Nothing is passed at the beginning.
        let first = step(horizon);
        (first, found)
    };
    let (progress, found) = read(&one, &none);
    assert_eq!(progress, Ok(Progress::Records(1)));
    assert_eq!(found, [content(1, 3000)]);
    // The chunk is full, freed and taken again.
    while one
        .shared
        .put(&mut one.arena, CHUNK_BYTES, |_| {})
        .is_some()
    {}
    one.shared.trim(&mut one.arena, |_| true);
    while one
        .shared
        .put(&mut one.arena, CHUNK_BYTES, |_| {})
        .is_some()
    {}
    let (progress, found) = read(&one, &none);
    assert!(
        matches!(progress, Err(ReadBackError::Lost { .. })),
        "{progress:?}"
    );
    assert!(found.is_empty());
    assert_eq!(read(&one, &free).0, Ok(Progress::Passed(Ssn(1))));
}

/// How freeing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// What is read is freed, whatever the horizon.
    IgnoresHorizons,
    /// What is below the horizon is freed, or anything without horizons, whatever is read.
    IgnoresReaders,
    /// Only the first receiver counts.
    IgnoresOthers,
}

struct Channel {
    log: ChannelLog,
    /// Of each message its number and length.
    sent: Vec<(u64, usize)>,
    /// Message of the next record.
    next: usize,
    reader: Option<ChannelReader>,
    /// Messages that are kept: message, position, offset.
    kept: Vec<(usize, Position, usize)>,
    horizon: usize,
}

impl Channel {
    fn new(destination: Rank) -> Self {
        Self {
            log: ChannelLog::new(SOURCE, LIFE, destination, u64::MAX),
            sent: Vec::new(),
            next: 0,
            reader: None,
            kept: Vec::new(),
            horizon: 0,
        }
    }

    fn released(&self) -> Position {
        let reader = self.reader.as_ref().map(ChannelReader::position);
        let kept = self.kept.iter().map(|(_, position, _)| *position).min();
        kept.or(reader).unwrap_or(Position(0))
    }

    /// A receiver that begins again reads the log from its first chunk in memory on.
    fn begin_again(&mut self) {
        (self.reader, self.next) = (None, self.horizon);
        self.kept.clear();
    }

    fn read(&mut self, arena: &Arena, keeps: bool) -> Result<(), String> {
        if self.reader.is_none() {
            let Some(first) = self.log.first_chunk() else {
                return Ok(());
            };
            let reader = ChannelReader::new(arena.region().clone(), 0, first);
            self.reader = Some(reader.expect("a chunk"));
        }
        let reader = self.reader.as_mut().expect("opened above");
        let Some(record) = reader.read().expect("a sound log") else {
            return match self.next == self.sent.len() {
                true => Ok(()),
                false => Err("a message is missing at the end".into()),
            };
        };
        let message = record.header.ssn.0 as usize;
        if message > self.next {
            return Err(format!("message {} is missing", self.next));
        }
        let (number, bytes) = self.sent[message];
        if record.payload != content(number, bytes) {
            return Err(format!("message {message} was changed"));
        }
        if message == self.next {
            self.next += 1;
            if keeps {
                self.kept
                    .push((message, record.position, record.payload_offset));
            }
        }
        Ok(())
    }

    /// Lets go of what is kept, if it is as it was.
    fn let_go(&mut self, arena: &Arena) -> Result<(), String> {
        for (message, _, offset) in self.kept.drain(..) {
            let (number, bytes) = self.sent[message];
            if bytes_at(arena, offset, bytes) != content(number, bytes) {
                return Err(format!("kept message {message} was changed"));
            }
        }
        Ok(())
    }
}

/// Bytes in the arena, which may have been written meanwhile.
fn bytes_at(arena: &Arena, offset: usize, bytes: usize) -> Vec<u8> {
    let chunk = ChunkId((offset / CHUNK_BYTES) as u32);
    let begin = offset % CHUNK_BYTES;
    let mut all = vec![0; (begin + bytes).next_multiple_of(8)];
    assert!(arena.region().copy_chunk(0, chunk, &mut all));
    all[begin..begin + bytes].to_vec()
}

/// Random channels of one rank.
struct Model {
    arena: Arena,
    shared: SharedPayload,
    channels: Vec<Channel>,
    messages: u64,
    chance: u64,
    bug: Bug,
    /// Whether payload is kept for receivers that begin again.
    keeps: bool,
    shares: u64,
}

impl Model {
    fn new(seed: u64, bug: Bug) -> Self {
        Self {
            arena: Arena::heap(400 * CHUNK_BYTES),
            shared: SharedPayload::new(SOURCE, LIFE, 3 * CHUNK),
            channels: [1, 2, 4].map(|rank| Channel::new(Rank(rank))).into(),
            messages: 0,
            chance: seed,
            bug,
            keeps: seed.is_multiple_of(2),
            shares: 0,
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.chance = self
            .chance
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.chance >> 33) % end
    }

    fn step(&mut self) -> Result<(), String> {
        let which = self.below(3) as usize;
        match self.below(16) {
            0..4 => self.send(),
            4..11 => {
                let keeps = self.below(6) == 0;
                self.channels[which].read(&self.arena, keeps)?;
            }
            11 | 12 => self.channels[which].let_go(&self.arena)?,
            13 => {
                let channel = &mut self.channels[which];
                let kept = channel.kept.iter().map(|(message, ..)| *message).min();
                channel.horizon = kept.unwrap_or(channel.next).max(channel.horizon);
            }
            14 => self.trim(),
            _ if self.keeps && self.below(12) == 0 => self.channels[which].begin_again(),
            _ => {}
        }
        Ok(())
    }

    /// Sends a message to some of the receivers, by reference if there is room.
    fn send(&mut self) {
        let bytes = 40 + self.below(60_000) as usize;
        let (number, to) = (self.messages, 1 + self.below(7));
        self.messages += 1;
        let fill = |place: &mut [u8]| {
            let all = content(number, bytes);
            place.copy_from_slice(&all[..place.len()]);
        };
        let reference = self.shared.put(&mut self.arena, bytes, fill);
        self.shares += u64::from(reference.is_some());
        for (index, channel) in self.channels.iter_mut().enumerate() {
            if to >> index & 1 == 0 {
                continue;
            }
            let ssn = Ssn(channel.sent.len() as u64);
            let Some(reference) = reference else {
                let header = header(ssn, bytes as u32, 0);
                let frame = (channel.log).append(&mut self.arena, bytes, true, header, fill);
                frame.expect("room").publish(self.arena.region());
                channel.sent.push((number, bytes));
                continue;
            };
            append(&mut channel.log, &mut self.arena, ssn, &reference);
            let destination = Rank([1, 2, 4][index]);
            (self.shared).refer(&reference, destination, channel.log.tail(), ssn);
            channel.sent.push((number, reference.bytes as usize));
        }
    }

    fn trim(&mut self) {
        let (channels, bug, keeps) = (&self.channels, self.bug, self.keeps);
        self.shared.trim(&mut self.arena, |referred: &Referred| {
            let index = [1, 2, 4]
                .iter()
                .position(|it| Rank(*it) == referred.destination);
            let index = index.expect("a receiver");
            let channel = &channels[index];
            let is_read = referred.until <= channel.released();
            let is_free = !keeps || referred.ends.program.0 as usize <= channel.horizon;
            match bug {
                Bug::None => is_read && is_free,
                Bug::IgnoresHorizons => is_read,
                Bug::IgnoresReaders => is_free,
                Bug::IgnoresOthers => index > 0 || is_read && is_free,
            }
        });
        for channel in &mut self.channels {
            let horizon = Frontier::from(Ssn(channel.horizon as u64));
            let released = channel.released();
            match keeps {
                true => (channel.log).trim_below(&mut self.arena, &horizon, released),
                false => channel.log.trim_released(&mut self.arena, released),
            }
        }
    }
}

fn run(seed: u64, bug: Bug) -> Result<u64, String> {
    let mut model = Model::new(seed, bug);
    for _ in 0..1500 {
        model.step()?;
    }
    for index in 0..3 {
        while model.channels[index].next < model.channels[index].sent.len() {
            let channel = &mut model.channels[index];
            channel.read(&model.arena, false)?;
        }
    }
    assert!(model.shared.tail().0 > 6 * CHUNK, "the area went round");
    assert!(model.messages > model.shares, "the area was full at times");
    Ok(model.shares)
}

// LOG-4 LOG-6
#[test]
fn every_receiver_reads_what_it_needs_until_it_is_freed() {
    for seed in 0..25 {
        run(seed, Bug::None).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
    }
}

// LOG-6
#[test]
fn payload_that_is_freed_too_early_is_found() {
    for bug in [
        Bug::IgnoresHorizons,
        Bug::IgnoresReaders,
        Bug::IgnoresOthers,
    ] {
        let found = (0..25).any(|seed| run(seed, bug).is_err());
        assert!(found, "{bug:?}");
    }
}

/// A chunk of the arena that no one has taken is no shared payload.
#[test]
fn memory_that_was_never_used_is_not_read() {
    let mut one = One::new();
    let reference = Reference {
        chunk: ChunkId(7),
        ..one.reference
    };
    append(&mut one.log, &mut one.arena, Ssn(1), &reference);
    let mut reader = one.reader();
    assert!(reader.read().expect("sound").is_some());
    assert!(reader.read().expect("sound").is_none());
    assert_eq!(reader.position(), one.log.tail());
}
