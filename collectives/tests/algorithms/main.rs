//! Every algorithm for 1 to 33 places against a reference written the plainest way.

mod data_movement;
#[path = "../fixed_seed/mod.rs"]
mod fixed_seed;
mod group_run;
mod order;
mod random;
mod reductions;
mod volume;

use refrain_collectives::{Arguments, Call, Group};

const SIZES: std::ops::RangeInclusive<u32> = 1..=33;

fn call<'a>(size: u32, me: u32, in_place: bool, arguments: Arguments<'a>) -> Call<'a> {
    Call {
        group: Group { size, me },
        arguments,
        in_place,
        element_bytes: 8,
    }
}

/// Counts that divide well and badly, and none.
fn counts(size: u32) -> [u64; 4] {
    [0, 1, 5, u64::from(size) * 2 + 1]
}
