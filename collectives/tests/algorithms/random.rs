//! Any sizes, roots and counts: groups larger than those that are tried one by one.

use crate::group_run::Matrix;
use crate::{data_movement, fixed_seed, reductions};
use proptest::prelude::*;
use refrain_collectives::Blocks;

/// Group size, root, count and whether in place.
fn shape() -> impl Strategy<Value = (u32, u32, u64, bool)> {
    let count = prop_oneof![0..4_u64, 0..200_u64];
    (1..100_u32, any::<u32>(), count, any::<bool>())
        .prop_map(|(size, root, count, in_place)| (size, root % size, count, in_place))
}

/// As many counts as places: many are zero.
fn counts() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(prop_oneof![Just(0), 0..9_u64], 1..70)
}

proptest! {
    #![proptest_config(fixed_seed::cases(12))]

    #[test]
    fn data_moves((size, root, count, in_place) in shape()) {
        data_movement::bcast_once(size, root, count);
        data_movement::gather(size, root, count, in_place);
        data_movement::scatter(size, root, count, in_place);
        data_movement::allgather_once(size, count, in_place);
        data_movement::alltoall_once(size, count % 5, in_place);
        data_movement::ragged_alltoall_once(size, root, in_place);
    }

    #[test]
    fn operands_combine((size, root, count, in_place) in shape()) {
        reductions::reduce_to::<Matrix>(size, root, count, in_place);
        reductions::allreduce::<u64>(size, count, in_place, true);
        reductions::allreduce::<Matrix>(size, count, in_place, false);
        reductions::scans(size, count, in_place);
    }

    #[test]
    fn blocks_may_have_any_counts(counts in counts(), in_place in any::<bool>()) {
        let size = counts.len() as u32;
        data_movement::ragged_allgather_once(size, &counts, in_place);
        let starts: Vec<u64> = (0..counts.len()).map(|it| counts[..it].iter().sum()).collect();
        let blocks = Blocks::Listed { counts: &counts, starts: &starts };
        reductions::reduce_scatter(size, blocks, in_place);
    }
}
