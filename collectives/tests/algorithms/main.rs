//! Every algorithm for 1 to 33 places against a reference written the plainest way.

mod data_movement;
#[path = "../fixed_seed/mod.rs"]
mod fixed_seed;
mod group_run;
mod order;
mod random;
mod reductions;
mod stages;
mod volume;

use refrain_collectives::{Arguments, Call, Group, Hosts};

const SIZES: std::ops::RangeInclusive<u32> = 1..=33;

fn call<'a>(size: u32, me: u32, in_place: bool, arguments: Arguments<'a>) -> Call<'a> {
    Call {
        group: Group { size, me },
        hosts: hosts(size),
        arguments,
        in_place,
        element_bytes: 8,
    }
}

/// Hosts with 1, 3, 4 … places, others for each size.
fn hosts(size: u32) -> Hosts<'static> {
    const STARTS: [[u32; 7]; 3] = [
        [0, 1, 4, 8, 9, 16, 27],
        [0, 2, 4, 6, 8, 10, 12],
        [0, 8, 16, 19, 20, 21, 22],
    ];
    let starts = &STARTS[size as usize % 3];
    let number = starts.iter().filter(|start| **start < size).count();
    Hosts::new(&starts[..number])
}

/// Counts that divide well and badly, and none.
fn counts(size: u32) -> [u64; 4] {
    [0, 1, 5, u64::from(size) * 2 + 1]
}
