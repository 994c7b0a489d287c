//! A log is given again, from any message on, while it grows, is spilled
//! and is freed. A model knows every record, and each record on a lane must be
//! equal to it, whichever streams are mixed in the log. LOG-2, REC-3, STREAM-3

#![cfg(not(loom))]

#[path = "../fixed_seed/mod.rs"]
mod fixed_seed;
mod lane;
mod scenarios;
mod writer;

use fixed_seed::cases;
use lane::{Kind, Lane};
use proptest::prelude::*;
use refrain_ring::Stream;
use refrain_ring::read_back::ReadBackError;
use writer::Writer;

/// One step of a test.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A message is packed; a long one is announced, its payload packed later.
    Send {
        stream: Stream,
        bytes: usize,
        announced: bool,
    },
    /// The rest of the oldest announced message is packed.
    Rest,
    /// This number of records is published.
    Publish(usize),
    /// A chunk is lent to the disk.
    Lend,
    /// The disk returns the oldest chunk, written or not.
    TakeBack { on_disk: bool },
    /// A checkpoint covers this number of further messages of a stream.
    Horizon(Stream, u64),
    /// The log frees memory.
    Trim,
    /// Other users take chunks of the arena.
    Hog(usize),
    /// They return the chunks.
    Unhog,
    /// The receiver begins a new life, and misses all messages from here on.
    Connect { from: u64, kind: Kind },
    /// The receiver is dead.
    Disconnect,
    /// This number of records is sent again.
    Resend(usize),
    /// The receiver takes this number of records.
    Read(usize),
    /// A read of the disk ends.
    DiskRead { which: usize, fails: bool },
}

fn streams() -> impl Strategy<Value = Stream> {
    (0u16..4).prop_map(|stream| Stream(stream.saturating_sub(1)))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        10 => (streams(), prop_oneof![0usize..200, 30_000usize..120_000], any::<bool>())
            .prop_map(|(stream, bytes, announced)| Step::Send { stream, bytes, announced }),
        3 => Just(Step::Rest),
        8 => (1usize..8).prop_map(Step::Publish),
        6 => Just(Step::Lend),
        6 => prop::bool::weighted(0.9).prop_map(|on_disk| Step::TakeBack { on_disk }),
        2 => (streams(), 0u64..6).prop_map(|(stream, messages)| Step::Horizon(stream, messages)),
        4 => Just(Step::Trim),
        1 => (1usize..5).prop_map(Step::Hog),
        1 => Just(Step::Unhog),
        3 => (0u64..100, prop_oneof![Just(Kind::InPlace), Just(Kind::Copying)])
            .prop_map(|(from, kind)| Step::Connect { from, kind }),
        1 => Just(Step::Disconnect),
        8 => (1usize..30).prop_map(Step::Resend),
        8 => (1usize..30).prop_map(Step::Read),
        6 => (0usize..4, prop::bool::weighted(0.1))
            .prop_map(|(which, fails)| Step::DiskRead { which, fails }),
    ];
    prop::collection::vec(step, 20..160)
}

/// The writer of a log, and the lane on which it is sent, if any.
struct World {
    writer: Writer,
    lane: Option<Lane>,
}

impl World {
    fn new(arena_chunks: usize, window_chunks: u64) -> Self {
        Self {
            writer: Writer::new(arena_chunks, window_chunks),
            lane: None,
        }
    }

    /// Trims the log as far as the lane allows.
    fn trim(&mut self) {
        let free = self.lane.as_ref().map(Lane::trimmable);
        self.writer.trim(free);
    }

    fn connect(&mut self, from: u64, kind: Kind) {
        self.lane = None;
        let from = self.writer.from(from);
        self.lane = Some(Lane::new(&self.writer, from, kind));
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Send {
                stream,
                bytes,
                announced,
            } => self.writer.send(stream, bytes, announced),
            Step::Rest => self.writer.send_rest(),
            Step::Publish(records) => self.writer.publish(records),
            Step::Lend => self.writer.lend(),
            Step::TakeBack { on_disk } => self.writer.take_back(on_disk),
            Step::Horizon(stream, messages) => self.writer.move_horizon(stream, messages),
            Step::Trim => self.trim(),
            Step::Hog(chunks) => self.writer.hog(chunks),
            Step::Unhog => self.writer.unhog(),
            Step::Connect { from, kind } => self.connect(from, kind),
            Step::Disconnect => self.lane = None,
            Step::Resend(records) => {
                if let Some(lane) = &mut self.lane {
                    lane.resend(&mut self.writer, records);
                    let error = lane.error.take();
                    let is_told = matches!(error, None | Some(ReadBackError::Disk { .. }));
                    assert!(is_told, "{error:?}");
                }
            }
            Step::Read(records) => {
                if let Some(lane) = &mut self.lane {
                    lane.read(&self.writer, records);
                }
            }
            Step::DiskRead { which, fails } => {
                if let Some(lane) = &mut self.lane {
                    lane.disk_read_ends(&self.writer, which, fails);
                }
            }
        }
    }

    /// Completes everything that is under way: the lane reaches the end
    /// of the published records, and has delivered them all.
    fn come_to_rest(&mut self) {
        self.writer.unhog();
        self.writer.publish(usize::MAX);
        let Some(kind) = self.lane.as_ref().map(Lane::kind) else {
            return;
        };
        for _ in 0..2000 {
            self.step(Step::Lend);
            self.step(Step::TakeBack { on_disk: true });
            self.trim();
            self.step(Step::Resend(1000));
            self.step(Step::Read(1000));
            self.step(Step::DiskRead {
                which: 0,
                fails: false,
            });
            let lane = self.lane.as_ref().expect("it is connected");
            if lane.has_all(&self.writer) {
                return;
            }
        }
        panic!(
            "the lane ({kind:?}) never comes to the end: {:?}",
            self.lane
        );
    }
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn a_lane_brings_all_from_any_message_on(
        arena_chunks in 5usize..10,
        window_chunks in 3u64..8,
        steps in steps(),
    ) {
        let mut world = World::new(arena_chunks, window_chunks);
        for step in steps {
            world.step(step);
        }
        world.come_to_rest();
        drop(world.lane.take());
        world.writer.verify_nothing_leaks();
    }
}
