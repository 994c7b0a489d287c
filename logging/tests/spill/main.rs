//! The spilling log against an oracle: lists of records beside logs, an arena, a
//! [`refrain_logging::spill::SpillLog`] and a disk that does what it was asked
//! in any order, late, or not at all. LOG-2, LOG-3, LOG-4

mod channel;
mod disk;
mod fixed_seed;
mod planted_bugs;
mod rank;
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

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        12 => Just(Outcome::Success),
        1 => Just(Outcome::InputOutputError),
        2 => Just(Outcome::NoSpace),
    ]
}

pub fn step() -> impl Strategy<Value = Step> {
    let channel = || 0..CHANNELS;
    prop_oneof![
        8 => (channel(), message_bytes(), prop::bool::weighted(0.3))
            .prop_map(|(channel, bytes, is_rendezvous)| Step::Send { channel, bytes, is_rendezvous }),
        6 => (channel(), 0..9_usize, 1..6_usize)
            .prop_map(|(channel, which, fragments)| Step::PackOn { channel, which, fragments }),
        6 => (channel(), prop_oneof![1 => 0..4_usize, 3 => Just(usize::MAX)])
            .prop_map(|(channel, records)| Step::Publish { channel, records }),
        5 => (channel(), prop_oneof![any::<u8>(), Just(255)])
            .prop_map(|(channel, part)| Step::Release { channel, part }),
        8 => (channel(), 1..6_usize).prop_map(|(channel, chunks)| Step::Lend { channel, chunks }),
        14 => (0..9_usize, outcome()).prop_map(|(which, outcome)| Step::Act { which, outcome }),
        6 => Just(Step::Poll),
        2 => (channel(), any::<u8>(), any::<bool>())
            .prop_map(|(channel, part, is_told)| Step::Checkpoint { channel, part, is_told }),
        6 => channel().prop_map(|channel| Step::Trim { channel }),
        4 => (channel(), 0..40_usize).prop_map(|(channel, which)| Step::Read { channel, which }),
        3 => prop_oneof![0..150_u64, Just(5000)]
            .prop_map(|milliseconds| Step::Wait { milliseconds }),
        1 => Just(Step::CheckAll),
    ]
}

proptest! {
    #![proptest_config(fixed_seed::cases(120))]

    #[test]
    fn everything_that_is_needed_can_be_read_and_nothing_else_stays(
        disk_files in 1..9_u64,
        steps in prop::collection::vec(step(), 20..250),
    ) {
        RankUnderTest::new(disk_files, None, None).run(&steps);
    }
}
