//! A model in one thread executes plans; in it every send is synchronous and messages arrive at
//! random times.

mod coverage;
mod model;
mod oracle;

use super::generate::{self, Parameters};
use super::plan::Round;

/// The first rounds of a seed.
fn epoch(seed: u64, ranks: u32) -> Vec<Round> {
    let parameters = Parameters {
        seed,
        ranks,
        bytes_max: 1 << 20,
    };
    (0..generate::EPOCH_ROUNDS)
        .map(|number| generate::round(parameters, number))
        .collect()
}
