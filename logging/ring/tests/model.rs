//! Writer, reader and arena against an oracle of lists ([`oracle`]): random
//! steps on several channels that share one arena, in memory that is full of
//! sound headers of a former log.

#![cfg(not(loom))]
#![allow(
    unsafe_code,
    reason = "the oracle reads records again later, and looks at memory as it is"
)]

mod fixed_seed;
mod oracle;

use oracle::{Channel, Kind, Memory, Message, Trim};
use proptest::prelude::*;
use refrain_ring::{CHUNK_BYTES, ChannelLog};

const LONGEST: usize = ChannelLog::PAYLOAD_BYTES_MAX;

/// One step on one channel.
#[derive(Clone, Debug)]
enum Step {
    Pack(Message),
    PackOn,
    /// Leaves that many lines of the chunk to further records.
    PackToEnd {
        lines: usize,
    },
    ClearAhead,
    /// Whether lines are also cleared while records are being packed.
    ClearAfterPacking(bool),
    Abandon {
        bytes: usize,
    },
    Publish {
        records: usize,
    },
    Read {
        records: usize,
    },
    Release {
        part: u8,
    },
    Checkpoint {
        part: u8,
    },
    Trim,
    /// Gives back the chunk that is being filled.
    Rest,
    /// The system has no memory to give from now on, or has again.
    Short(bool),
}

#[derive(Clone, Debug)]
struct Setup {
    chunks: u32,
    channels: Vec<(u32, u64, Trim)>,
}

struct World {
    memory: Memory,
    channels: Vec<Channel>,
}

impl World {
    fn new(setup: &Setup) -> Self {
        let channels = setup.channels.iter().enumerate();
        Self {
            memory: Memory::new(setup.chunks),
            channels: channels
                .map(|(number, &(window_chunks, first_ssn, trim))| {
                    Channel::new(number, window_chunks, first_ssn, trim)
                })
                .collect(),
        }
    }

    fn step(&mut self, channel: usize, step: &Step) {
        let memory = &mut self.memory;
        let index = channel % self.channels.len();
        let channel = &mut self.channels[index];
        match *step {
            Step::Pack(message) => channel.pack(memory, message),
            Step::PackOn => channel.pack_on(memory),
            Step::PackToEnd { lines } => channel.pack_to_end(memory, lines),
            Step::ClearAhead => channel.clear_ahead(memory),
            Step::ClearAfterPacking(clears) => channel.set_clears_after_packing(clears),
            Step::Abandon { bytes } => channel.abandon(memory, bytes),
            Step::Publish { records } => channel.publish(memory, records),
            Step::Read { records } => channel.read(memory, records),
            Step::Release { part } => channel.release(part),
            Step::Checkpoint { part } => channel.checkpoint(part),
            Step::Trim => channel.trim(memory),
            Step::Rest => channel.rest(memory),
            Step::Short(short) => memory.set_short(short),
        }
    }

    /// With readers that keep up and checkpoints that follow, every refusal
    /// ends and every record arrives.
    fn finish(&mut self) {
        self.memory.set_short(false);
        for _ in 0..1000 {
            for channel in &mut self.channels {
                channel.assert_kept();
                channel.publish(&self.memory, usize::MAX);
                channel.read(&self.memory, usize::MAX);
                channel.release(255);
                channel.checkpoint(255);
                channel.trim(&mut self.memory);
                channel.pack_on(&mut self.memory);
            }
            if self.channels.iter().all(Channel::is_idle) {
                // A drained channel holds the chunk that it fills, no more.
                let used = self.memory.used_bytes();
                assert!(used <= (self.channels.len() * CHUNK_BYTES) as u64);
                return self.rest_all();
            }
        }
        panic!("no end: records are held back although all was released");
    }

    /// Drained channels need no memory.
    fn rest_all(&mut self) {
        for channel in &mut self.channels {
            channel.pack(
                &mut self.memory,
                Message {
                    kind: Kind::Whole,
                    bytes: 1,
                },
            );
            channel.publish(&self.memory, usize::MAX);
            channel.read(&self.memory, usize::MAX);
            channel.release(255);
            channel.checkpoint(255);
            channel.rest(&self.memory);
            channel.read(&self.memory, usize::MAX);
            channel.trim(&mut self.memory);
        }
        assert_eq!(self.memory.used_bytes(), 0);
    }
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![
        2 => 0..=17usize,
        3 => 0..400usize,
        3 => 1000..70_000usize,
        // About a chunk.
        1 => LONGEST - 200..=LONGEST,
        1 => LONGEST + 1..LONGEST + 200,
        1 => 0..3 * CHUNK_BYTES,
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let kind = prop_oneof![
        2 => Just(Kind::Whole),
        3 => Just(Kind::Eager),
        1 => Just(Kind::Rendezvous),
    ];
    (kind, bytes()).prop_map(|(kind, bytes)| {
        let bytes = if kind == Kind::Whole {
            bytes.min(LONGEST)
        } else {
            bytes
        };
        Message { kind, bytes }
    })
}

fn step() -> impl Strategy<Value = Step> {
    let records = prop_oneof![3 => 1..4usize, 1 => Just(usize::MAX)];
    let part = prop_oneof![2 => any::<u8>(), 1 => Just(255)];
    prop_oneof![
        10 => message().prop_map(Step::Pack),
        2 => Just(Step::PackOn),
        // Lines are cleared 16 to 64 ahead.
        1 => (0..80usize).prop_map(|lines| Step::PackToEnd { lines }),
        6 => Just(Step::ClearAhead),
        1 => any::<bool>().prop_map(Step::ClearAfterPacking),
        3 => bytes().prop_map(|bytes| Step::Abandon { bytes }),
        8 => records.clone().prop_map(|records| Step::Publish { records }),
        8 => records.prop_map(|records| Step::Read { records }),
        5 => part.clone().prop_map(|part| Step::Release { part }),
        3 => part.prop_map(|part| Step::Checkpoint { part }),
        6 => Just(Step::Trim),
        4 => Just(Step::Rest),
        1 => prop_oneof![1 => Just(true), 2 => Just(false)].prop_map(Step::Short),
    ]
}

/// One to three channels, and at least a chunk more than there are channels:
/// each holds the one that it fills.
fn setup(trim: impl Strategy<Value = Trim> + Clone) -> impl Strategy<Value = Setup> {
    let first_ssn = prop_oneof![
        Just(0),
        Just(u64::from(u32::MAX) - 2),
        Just(u64::MAX - 1_000_000)
    ];
    let channel = (2..7u32, first_ssn, trim);
    (prop::collection::vec(channel, 1..=3), 1..12u32).prop_map(|(channels, spare)| Setup {
        chunks: channels.len() as u32 + spare,
        channels,
    })
}

fn run(setup: &Setup, steps: &[(usize, Step)]) {
    let mut world = World::new(setup);
    for (channel, step) in steps {
        world.step(*channel, step);
    }
    world.finish();
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    prop::collection::vec((0..3usize, step()), 1..200)
}

proptest! {
    #![proptest_config(fixed_seed::cases(150))]

    #[test]
    fn trimmed_when_released(setup in setup(Just(Trim::Released)), steps in steps()) {
        run(&setup, &steps);
    }

    // LOG-4
    #[test]
    fn trimmed_below_the_horizon(setup in setup(Just(Trim::Horizon)), steps in steps()) {
        run(&setup, &steps);
    }

    #[test]
    fn both_in_one_arena(
        setup in setup(prop_oneof![Just(Trim::Released), Just(Trim::Horizon)]),
        steps in steps(),
    ) {
        run(&setup, &steps);
    }
}
