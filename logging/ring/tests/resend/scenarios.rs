//! Cases that random tests may not reach.

use crate::World;
use crate::lane::Kind;
use refrain_ring::read_back::ReadBackError;
use refrain_ring::{CHUNK_BYTES, Position, Ssn, Stream};

/// Two payloads of this length fill a chunk.
const HALF_CHUNK: usize = 120_000;

const BOTH: [Kind; 2] = [Kind::InPlace, Kind::Copying];

impl World {
    /// Fills that many chunks, and publishes them.
    fn send_chunks(&mut self, chunks: usize) {
        for _ in 0..2 * chunks {
            let before = self.writer.records.len();
            self.writer.send(Stream::PROGRAM, HALF_CHUNK, false);
            assert_eq!(self.writer.records.len(), before + 1, "there is room");
        }
        self.writer.publish(usize::MAX);
    }

    /// Writes all complete chunks to disk. Their memory is free when it is trimmed.
    fn spill(&mut self) {
        for _ in 0..100 {
            self.writer.lend();
            self.writer.take_back(true);
        }
    }

    /// A log of that many chunks, of which only the last one is in memory.
    fn with_chunks_on_disk(arena_chunks: usize, chunks: usize) -> Self {
        let mut world = Self::new(arena_chunks, 64);
        for _ in 0..chunks {
            world.send_chunks(1);
            world.spill();
            world.trim();
        }
        assert_eq!(world.writer.log.held_bytes(), CHUNK_BYTES as u64);
        world
    }

    fn resend(&mut self) -> Option<ReadBackError> {
        let lane = self.lane.as_mut().expect("it is connected");
        lane.resend(&mut self.writer, 1000);
        lane.error.take()
    }

    fn read(&mut self) {
        let lane = self.lane.as_mut().expect("it is connected");
        lane.read(&self.writer, 1000);
    }

    /// The disk answers all reads.
    fn disk_answers(&mut self) {
        let lane = self.lane.as_mut().expect("it is connected");
        for _ in 0..16 {
            lane.disk_read_ends(&self.writer, 0, false);
        }
    }

    /// Only the lane makes progress, until it has all records.
    fn lane_comes_to_the_end(&mut self) {
        for _ in 0..500 {
            let error = self.resend();
            // After an error the chunk is requested again, and is then there or free.
            let is_told = matches!(error, None | Some(ReadBackError::Disk { .. }));
            assert!(is_told, "{error:?}");
            self.read();
            self.disk_answers();
            let lane = self.lane.as_ref().expect("it is connected");
            if lane.has_all(&self.writer) {
                return;
            }
        }
        panic!("the lane is stuck: {:?}", self.lane);
    }
}

/// More than can be recalled at once, through little memory. REC-3
#[test]
fn a_long_log_goes_through_little_memory() {
    for kind in BOTH {
        let mut world = World::with_chunks_on_disk(4, 40);
        world.connect(0, kind);
        world.lane_comes_to_the_end();
    }
}

/// All memory is full of chunks that are also on disk, and the lane has released nothing:
/// that memory is used for recalled chunks.
#[test]
fn a_full_arena_makes_room_for_recalled_chunks() {
    for kind in BOTH {
        let mut world = World::with_chunks_on_disk(6, 8);
        world.send_chunks(5);
        world.connect(0, kind);
        assert_eq!(world.resend(), None);
        world.disk_answers();
        assert_eq!(world.resend(), None);
        assert!(world.writer.arena.used_bytes() == world.writer.arena.budget_bytes());
        world.spill();
        world.trim();
        world.lane_comes_to_the_end();
    }
}

/// One chunk alone would be read and never be given back: it is left to others.
#[test]
fn the_first_chunk_waits_for_memory_for_the_second() {
    for kind in BOTH {
        let mut world = World::with_chunks_on_disk(6, 8);
        world.connect(0, kind);
        world.writer.hog(4);
        assert_eq!(world.resend(), None);
        world.disk_answers();
        let used_bytes = world.writer.arena.used_bytes();
        assert_eq!(used_bytes, 5 * CHUNK_BYTES as u64, "one is free");
        assert_eq!(world.resend(), None);
        assert_eq!(world.writer.arena.used_bytes(), used_bytes);
        world.writer.unhog();
        world.lane_comes_to_the_end();
    }
}

/// With memory for two chunks a lane reaches its end, whatever other users take.
#[test]
fn a_lane_keeps_the_memory_that_it_needs() {
    for kind in BOTH {
        let mut world = World::with_chunks_on_disk(6, 30);
        world.connect(0, kind);
        world.writer.hog(3);
        assert_eq!(world.resend(), None);
        world.disk_answers();
        assert_eq!(world.resend(), None);
        // What comes free is gone before the disk answers.
        for _ in 0..100 {
            for _ in 0..2 {
                world.read();
                assert_eq!(world.resend(), None);
                world.writer.hog(1);
            }
            let lane = world.lane.as_mut().expect("it is connected");
            lane.disk_read_ends(&world.writer, 0, false);
        }
        world.lane_comes_to_the_end();
    }
}

/// LOG-4: messages below a horizon are gone, and the receiver does not need them.
#[test]
fn a_horizon_passes_chunks_that_were_to_come() {
    for kind in BOTH {
        let mut world = World::with_chunks_on_disk(6, 10);
        world.connect(0, kind);
        // The first two are recalled, the reads of others are under way.
        world.writer.hog(3);
        assert_eq!(world.resend(), None);
        world.disk_answers();
        assert_eq!(world.resend(), None);
        world.writer.move_horizon(Stream::PROGRAM, 15);
        world.lane_comes_to_the_end();
        let lane = world.lane.as_ref().expect("it is connected");
        assert_eq!(lane.from().program, Ssn(15));
    }
}

/// LOG-4
#[test]
fn a_horizon_passes_all_that_is_on_disk() {
    for kind in BOTH {
        let mut world = World::with_chunks_on_disk(6, 5);
        world.connect(0, kind);
        assert_eq!(world.resend(), None);
        world.writer.move_horizon(Stream::PROGRAM, 1000);
        world.disk_answers();
        world.resend();
        world.send_chunks(1);
        world.lane_comes_to_the_end();
    }
}

/// A chunk that a recalled one leads to is not trimmed before it is released.
#[test]
fn what_a_recalled_chunk_leads_to_stays() {
    for kind in BOTH {
        let mut world = World::with_chunks_on_disk(6, 3);
        world.connect(2, kind);
        let lane = world.lane.as_ref().expect("it is connected");
        assert_eq!(lane.trimmable(), Position(u64::MAX), "nothing is read yet");
        assert_eq!(world.resend(), None);
        world.disk_answers();
        let lane = world.lane.as_mut().expect("it is connected");
        lane.resend(&mut world.writer, 1);
        assert_eq!(lane.trimmable(), Position(0));
        world.send_chunks(3);
        world.spill();
        world.trim();
        world.lane_comes_to_the_end();
    }
}

/// The end is not final, also not of a log in which nothing was.
#[test]
fn what_comes_later_is_given_later() {
    for kind in BOTH {
        let mut world = World::new(8, 64);
        world.connect(0, kind);
        world.lane_comes_to_the_end();
        let lane = world.lane.as_ref().expect("it is connected");
        assert_eq!(lane.trimmable(), Position(0), "the lane reads what comes");
        for _ in 0..4 {
            world.send_chunks(1);
            world.lane_comes_to_the_end();
            world.spill();
            world.trim();
        }
    }
}

/// No record of a damaged chunk is given; the chunk is read once more. LOG-2
#[test]
fn a_damaged_chunk_is_an_error_and_read_again() {
    for kind in BOTH {
        let mut world = World::with_chunks_on_disk(6, 3);
        world.connect(0, kind);
        assert_eq!(world.resend(), None);
        let lane = world.lane.as_mut().expect("it is connected");
        lane.disk_read_is_damaged(&world.writer);
        let error = world.resend();
        assert!(
            matches!(error, Some(ReadBackError::Damaged { sequence: 0, .. })),
            "{error:?}"
        );
        assert!(world.lane.as_ref().is_some_and(|lane| !lane.has_begun()));
        world.lane_comes_to_the_end();
    }
}

/// A chunk that is neither in memory nor on disk nor free is reported as lost.
#[test]
fn a_lost_chunk_is_an_error() {
    let mut world = World::with_chunks_on_disk(6, 4);
    world.writer.disk.lose(1);
    world.connect(0, Kind::InPlace);
    let mut errors = (0..8).filter_map(|_| {
        world.disk_answers();
        world.resend()
    });
    assert_eq!(
        errors.next(),
        Some(ReadBackError::Lost {
            destination: refrain_ring::Rank(5),
            sequence: 1
        })
    );
}
