//! Single scenarios that random runs reach rarely.

use crate::channel::{INCARNATION, SOURCE};
use crate::disk::{Disk, DiskBug, JOB, Outcome};
use crate::reader::OneChannel;
use core::time::Duration;
use refrain_logging::spill::{Event, Refused, Report, SpillLog, SpillOptions};
use refrain_logging::store::{FileNumber, Operation};
use refrain_ring::chunk::ChunkReader;
use refrain_ring::read_back::{ChunkBytes, Progress, ReadBack, ReadBackError, Writer};
use refrain_ring::{
    Arena, CHUNK_BYTES, ChannelLog, Frontier, LentChunk, LoanEnd, Rank, RecordHeader, RecordKind,
    Ssn,
};

struct Story {
    arena: Arena,
    logs: Vec<ChannelLog>,
    spill: SpillLog<Disk>,
    disk: Disk,
    now: Duration,
}

fn append(log: &mut ChannelLog, arena: &mut Arena, ssn: u64, bytes: usize) -> usize {
    let header = RecordHeader {
        payload_bytes: 0,
        kind: RecordKind::Fragment,
        flags: 0,
        incarnation: INCARNATION,
        source: SOURCE,
        ssn: Ssn(ssn),
        context: 0,
        tag: 0,
        extent: 0,
    };
    let frame = log.append(arena, bytes, bytes == 0, header, |_| {});
    let frame = frame.expect("room");
    frame.publish(arena.region());
    frame.payload_bytes()
}

impl Story {
    /// Two channels with 12 complete chunks each, message n in chunk n, and a
    /// disk that has room for `files`.
    fn new(files: u64) -> Self {
        Self::with_channels(2, 12, files)
    }

    /// The same with other numbers of channels and chunks.
    fn with_channels(channels: u32, chunks: u64, files: u64) -> Self {
        let mut arena = Arena::heap(channels as usize * (chunks + 1) as usize * CHUNK_BYTES);
        let mut options = SpillOptions {
            job: JOB,
            rank: SOURCE,
            incarnation: INCARNATION,
            size: channels,
            disk_bytes: SpillOptions::DISK_BYTES_MIN,
            writes_max: 8,
        };
        options.disk_bytes = files * options.file_bytes();
        let disk = Disk::new(options.disk_bytes, channels as usize, None);
        let log = |to| {
            let mut log = ChannelLog::new(SOURCE, INCARNATION, Rank(to), u64::MAX);
            for ssn in 0..=chunks {
                append(&mut log, &mut arena, ssn, ChannelLog::PAYLOAD_BYTES_MAX);
            }
            log
        };
        Self {
            logs: (0..channels).map(log).collect(),
            arena,
            spill: SpillLog::new(options, disk.clone()),
            disk,
            now: Duration::ZERO,
        }
    }

    fn put(&mut self, channel: usize) -> u64 {
        let log = &mut self.logs[channel];
        let chunk = log.lend(&self.arena, log.tail()).expect("a chunk is left");
        let sequence = chunk.sequence();
        let taken = self.spill.takes(Rank(channel as u32), sequence, self.now);
        assert_eq!(taken, Ok(()));
        self.spill.put(chunk);
        sequence
    }

    /// The disk performs the oldest requested operation.
    fn act(&mut self, outcome: Outcome) -> Vec<Report> {
        let mut platter = self.disk.platter();
        // What is left is in order, but for the last, which takes the place of
        // what was done: one or two operations are under way in these stories.
        platter.act(0, outcome);
        drop(platter);
        let mut reports = Vec::new();
        while let Some(event) = self.spill.poll(|| self.now) {
            match event {
                Event::Returned(chunk, end) => self.take_back(&chunk, end),
                Event::Report(report) => reports.push(report),
                Event::Read { result, .. } => {
                    let buffer = result.expect("it is there");
                    let mut reader = ChunkReader::sealed(buffer.bytes()).expect("sealed");
                    while reader.next_record().expect("whole").is_some() {}
                }
            }
        }
        reports
    }

    fn step(&mut self, reader: &mut ReadBack) -> Result<Progress, ReadBackError> {
        let writer = Writer {
            log: &self.logs[0],
            arena: &self.arena,
            posted: self.logs[0].tail(),
            horizon: &Frontier::default(),
        };
        let mut disk = OneChannel {
            spill: &mut self.spill,
            destination: Rank(0),
        };
        let mut give = |header: &RecordHeader, _: &[u8]| panic!("{header:?} was given");
        reader.step(writer, &mut disk, &mut give)
    }

    fn take_back(&mut self, chunk: &LentChunk, end: LoanEnd) {
        self.logs[chunk.destination().index()].take_back(chunk, end);
    }
}

#[test]
fn a_full_disk_is_tried_again_for_ever_and_told_once() {
    let mut story = Story::new(9);
    let mut told = Vec::new();
    for _ in 0..50 {
        assert_eq!(story.put(0), 0, "what came back is put again first");
        told.extend(story.act(Outcome::NoSpace));
        let taken = story.spill.takes(Rank(0), 0, story.now);
        assert_eq!(taken, Err(Refused::Paused));
        story.now += Duration::from_secs(5);
    }
    assert!(matches!(told[..], [Report::Paused { .. }]), "{told:?}");
    story.put(0);
    assert!(story.act(Outcome::Success).is_empty());
    let told = story.act(Outcome::Success);
    assert!(matches!(told[..], [Report::Resumed]), "{told:?}");
    assert_eq!(story.spill.statistics().failures, 50);
}

#[test]
fn a_pause_doubles_from_100_ms_to_5_s() {
    let mut story = Story::new(9);
    for pause_ms in [100, 200, 400, 800, 1600, 3200, 5000, 5000] {
        story.put(0);
        story.act(Outcome::NoSpace);
        story.now += Duration::from_millis(pause_ms - 1);
        let taken = story.spill.takes(Rank(0), 0, story.now);
        assert_eq!(taken, Err(Refused::Paused));
        story.now += Duration::from_millis(1);
        assert_eq!(story.spill.takes(Rank(0), 0, story.now), Ok(()));
    }
}

#[test]
fn the_third_error_in_a_row_stops_and_one_success_forgives() {
    let mut story = Story::new(9);
    for _ in 0..3 {
        for _ in 0..2 {
            story.put(0);
            story.act(Outcome::InputOutputError);
            story.now += Duration::from_secs(5);
        }
        story.put(0);
        story.act(Outcome::Success);
        story.act(Outcome::Success);
    }
    let mut told = Vec::new();
    for _ in 0..3 {
        story.put(0);
        told.extend(story.act(Outcome::InputOutputError));
        story.now += Duration::from_secs(5);
    }
    assert!(
        matches!(told[..], [Report::Paused { .. }, Report::Stopped { .. }]),
        "{told:?}"
    );
    story.now += Duration::from_secs(1000);
    let taken = story.spill.takes(Rank(0), 3, story.now);
    assert_eq!(taken, Err(Refused::Stopped));
    // Written chunks can still be read, and freed.
    for sequence in 0..3 {
        assert!(story.spill.read(Rank(0), sequence).is_some());
        story.act(Outcome::Success);
    }
}

#[test]
fn a_file_whose_chunks_got_free_while_they_were_written_keeps_no_room_from_others() {
    let mut story = Story::new(1);
    story.put(0);
    story.act(Outcome::Success);
    let refused = story.spill.takes(Rank(1), 0, story.now);
    assert_eq!(refused, Err(Refused::Full));
    story.disk.platter().horizons[0] = Ssn(1);
    story.spill.trim(Rank(0), &Ssn(1).into());
    story.act(Outcome::Success);
    story.put(1);
}

/// A file that is left when all in it is free, and not full, must not stay with
/// an empty place for the chunk that comes next: to readers it would be missing.
#[test]
fn a_channel_goes_on_in_the_file_that_it_left() {
    let mut story = Story::new(9);
    for channel in [0, 1] {
        story.put(channel);
        story.act(Outcome::Success);
        story.act(Outcome::Success);
    }
    let open = |story: &Story| match story.disk.platter().asked[0] {
        Operation::Open { file, reuse, .. } => (file, reuse),
        ref other => panic!("{other:?}"),
    };
    for channel in [0, 1] {
        story.disk.platter().horizons[channel] = Ssn(1);
        story.spill.trim(Rank(channel as u32), &Ssn(1).into());
    }
    story.put(0);
    assert_eq!(open(&story), (FileNumber(2), Some(FileNumber(0))));
}

/// Files that cannot be removed do not stop writing; they still take room.
#[test]
fn what_cannot_be_removed_ends_nothing_and_keeps_its_place() {
    // Number of free files that are kept for reuse.
    const KEPT: usize = 8;
    const FILES: usize = KEPT + 4;
    let mut story = Story::with_channels(FILES as u32, 2, FILES as u64);
    for channel in 0..FILES {
        story.put(channel);
        story.act(Outcome::Success);
        story.act(Outcome::Success);
    }
    for channel in 0..FILES {
        story.disk.platter().horizons[channel] = Ssn(1);
        story.spill.trim(Rank(channel as u32), &Ssn(1).into());
    }
    let mut told = Vec::new();
    while !story.disk.platter().asked.is_empty() {
        told.extend(story.act(Outcome::InputOutputError));
    }
    assert_eq!(told.len(), FILES - KEPT);
    for report in &told {
        assert!(matches!(report, Report::Undeleted { .. }), "{report:?}");
    }
    let statistics = story.spill.statistics();
    let file_bytes = story.spill.options().file_bytes();
    assert_eq!(statistics.disk_bytes, FILES as u64 * file_bytes);
    assert_eq!(statistics.failures, 0);
    for channel in 0..KEPT {
        story.put(channel);
        story.act(Outcome::Success);
        assert!(story.act(Outcome::Success).is_empty());
    }
    assert_eq!(story.spill.statistics().files_reused, KEPT as u64);
    let refused = story.spill.takes(Rank(KEPT as u32), 1, story.now);
    assert_eq!(refused, Err(Refused::Full), "LOG-3: the budget holds");
}

/// After an error a fresh file is taken. It begins with the same chunk as the
/// file before, in which others were written well: stores must tell them apart.
#[test]
fn two_files_may_begin_with_the_same_chunk() {
    let mut story = Story::new(9);
    assert_eq!((story.put(0), story.put(0)), (0, 1));
    story.act(Outcome::Success);
    story.act(Outcome::InputOutputError);
    story.act(Outcome::Success);
    story.now += Duration::from_secs(5);
    assert_eq!(story.put(0), 0);
    let asked = &story.disk.platter().asked[0];
    assert!(
        matches!(asked, Operation::Open { header, reuse: None, .. } if header.first_sequence == 0)
    );
    let file_bytes = story.spill.options().file_bytes();
    assert_eq!(story.spill.statistics().disk_bytes, 2 * file_bytes);
}

/// LOG-2: no record of a chunk is given before the whole chunk was checked.
#[test]
fn a_damaged_chunk_gives_no_record_and_is_asked_for_again() {
    let mut story = Story::new(9);
    story.disk.platter().bug = Some(DiskBug::FlipsABit);
    story.put(0);
    story.act(Outcome::Success);
    story.act(Outcome::Success);
    let log = &mut story.logs[0];
    log.trim_below(&mut story.arena, &Ssn(0).into(), log.tail());
    assert_eq!(log.trimmed().0, CHUNK_BYTES as u64);
    let mut reader = ReadBack::new(log, Ssn(0));
    for _ in 0..3 {
        assert_eq!(story.step(&mut reader), Ok(Progress::Waiting));
        story.disk.platter().act(0, Outcome::Success);
        let event = story.spill.poll(|| story.now);
        let Some(Event::Read { token, result }) = event else {
            panic!("{event:?}");
        };
        let bytes = result.expect("it is there").bytes().to_vec();
        assert!(reader.arrived(token.0, Ok(ChunkBytes::new(bytes))));
        let refused = story.step(&mut reader);
        assert!(
            matches!(refused, Err(ReadBackError::Damaged { sequence: 0, .. })),
            "{refused:?}"
        );
        let error = refused.expect_err("it is damaged").to_string();
        assert!(error.contains("is damaged in slot 0 of file 0"), "{error}");
    }
}

/// LOG-2: a valid chunk is not enough, it must be the requested one.
#[test]
fn another_chunk_than_was_asked_for_is_refused() {
    let mut story = Story::new(9);
    story.put(0);
    story.put(0);
    for _ in 0..3 {
        story.act(Outcome::Success);
    }
    let log = &mut story.logs[0];
    log.trim_below(&mut story.arena, &Ssn(0).into(), log.tail());
    let mut reader = ReadBack::new(log, Ssn(0));
    assert_eq!(story.step(&mut reader), Ok(Progress::Waiting));
    let mut reads = Vec::new();
    for _ in 0..2 {
        story.disk.platter().act(0, Outcome::Success);
        let Some(Event::Read { token, result }) = story.spill.poll(|| story.now) else {
            panic!("two reads are under way");
        };
        reads.push((token.0, result.expect("it is there").bytes().to_vec()));
    }
    reads.sort();
    let (first, second) = (reads[0].0, reads[1].1.clone());
    assert!(reader.arrived(first, Ok(ChunkBytes::new(second))));
    let refused = story.step(&mut reader);
    assert!(
        matches!(refused, Err(ReadBackError::Another { sequence: 0, .. })),
        "{refused:?}"
    );
}

/// Without a disk, and before any horizon, a freed chunk is reported as lost.
#[test]
fn what_is_gone_is_not_passed_over_in_silence() {
    let mut story = Story::new(9);
    let log = &mut story.logs[0];
    log.trim_released(&mut story.arena, log.tail());
    let mut reader = ReadBack::new(&story.logs[0], Ssn(3));
    let lost = ReadBackError::Lost {
        destination: Rank(0),
        sequence: 11,
    };
    assert_eq!(story.step(&mut reader), Err(lost));
}

#[test]
fn log_and_files_are_hardly_longer_than_their_payload() {
    for payload_bytes in [4096, 5000, 8192, 60_000, 130_000, 262_000, 1 << 20] {
        let mut arena = Arena::heap(42 * CHUNK_BYTES);
        let mut log = ChannelLog::new(SOURCE, INCARNATION, Rank(0), u64::MAX);
        let mut sum = 0;
        for ssn in 0.. {
            if sum > 40 * CHUNK_BYTES - (2 << 20) {
                break;
            }
            let mut rest = payload_bytes;
            while rest > 0 {
                rest -= append(&mut log, &mut arena, ssn, rest);
            }
            sum += payload_bytes;
        }
        let ratio = log.tail().0 as f64 / sum as f64;
        assert!(ratio <= 1.05, "{payload_bytes}: {ratio}");
        let complete_bytes = log.tail().0 / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
        let mut block_bytes = 0;
        while let Some(chunk) = log.lend(&arena, log.tail()) {
            block_bytes += chunk.used_bytes().next_multiple_of(4096) as u64;
        }
        assert!(
            block_bytes <= complete_bytes,
            "no more is written than is held"
        );
    }
}

#[test]
fn a_message_costs_a_header_of_a_line() {
    let mut arena = Arena::heap(2 * CHUNK_BYTES);
    let mut log = ChannelLog::new(SOURCE, INCARNATION, Rank(0), u64::MAX);
    append(&mut log, &mut arena, 0, 0);
    for ssn in 1..300 {
        let before = log.tail();
        let payload_bytes = append(&mut log, &mut arena, ssn, ssn as usize) as u64;
        let taken = log.tail().0 - before.0;
        assert!(taken <= payload_bytes.next_multiple_of(64) + 64);
    }
}
