//! The spilling log against an oracle: lists of records beside logs, an arena, a
//! [`refrain_logging::spill::SpillLog`] and a disk that does what it was asked
//! in any order, late, or not at all. LOG-2, LOG-3, LOG-4

mod channel;
mod disk;
mod fixed_seed;
mod planted_bugs;
mod rank;
mod reader;
mod scenarios;

use disk::Outcome;
use proptest::prelude::*;
use rank::{CHANNELS, RankUnderTest, Step};
use refrain_ring::{CHUNK_BYTES, ChannelLog};

fn message_bytes() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 0..200_u64,
        3 => 1000..40_000_u64,
        3 => Just(ChannelLog::PAYLOAD_BYTES_MAX as u64),
        4 => 100_000..4 * CHUNK_BYTES as u64,
    ]
}

/// Outcomes of disks that work, that fail sometimes, and that fail often.
fn outcome(failures: u32) -> impl Strategy<Value = Outcome> {
    prop_oneof![
        30 => Just(Outcome::Success),
        failures => Just(Outcome::InputOutputError),
        failures => Just(Outcome::NoSpace),
    ]
}

fn step(failures: u32) -> impl Strategy<Value = Step> {
    let channel = || 0..CHANNELS;
    let part = || prop_oneof![1 => any::<u8>(), 2 => Just(255)];
    prop_oneof![
        8 => (channel(), message_bytes(), prop::bool::weighted(0.3))
            .prop_map(|(channel, bytes, is_rendezvous)| Step::Send { channel, bytes, is_rendezvous }),
        8 => (channel(), 0..9_usize, 1..12_usize)
            .prop_map(|(channel, which, fragments)| Step::PackOn { channel, which, fragments }),
        8 => (channel(), prop_oneof![1 => 0..4_usize, 3 => Just(usize::MAX)])
            .prop_map(|(channel, records)| Step::Publish { channel, records }),
        6 => (channel(), part()).prop_map(|(channel, part)| Step::Release { channel, part }),
        8 => (channel(), 1..6_usize).prop_map(|(channel, chunks)| Step::Lend { channel, chunks }),
        16 => (0..9_usize, outcome(failures)).prop_map(|(which, outcome)| Step::Act { which, outcome }),
        8 => Just(Step::Poll),
        2 => (channel(), part(), any::<bool>())
            .prop_map(|(channel, part, is_told)| Step::Checkpoint { channel, part, is_told }),
        6 => channel().prop_map(|channel| Step::Trim { channel }),
        4 => (channel(), 0..90_usize).prop_map(|(channel, which)| Step::Read { channel, which }),
        2 => (channel(), any::<u8>()).prop_map(|(channel, part)| Step::ReadBack { channel, part }),
        8 => (0..9_usize, 1..20_usize).prop_map(|(reader, steps)| Step::ReadOn { reader, steps }),
        3 => prop_oneof![0..150_u64, Just(5000)]
            .prop_map(|milliseconds| Step::Wait { milliseconds }),
        1 => Just(Step::CheckAll),
    ]
}

/// Files that the disk has room for, and what happens.
pub fn runs() -> impl Strategy<Value = (u64, Vec<Step>)> {
    let steps = prop_oneof![Just(0), Just(1), Just(6)]
        .prop_flat_map(|failures| prop::collection::vec(step(failures), 50..900));
    (1..12_u64, steps)
}

proptest! {
    #![proptest_config(fixed_seed::cases(100))]

    #[test]
    fn everything_that_is_needed_can_be_read_and_nothing_else_stays((disk_files, steps) in runs()) {
        RankUnderTest::new(disk_files, None, None).run(&steps);
    }
}
