//! The networks that tests run over.

use refrain_transport::fabric::sim::Options;

/// Seeds of the rough networks.
pub fn seeds(usual: core::ops::RangeInclusive<u64>) -> Vec<u64> {
    match std::env::var("REFRAIN_SEED") {
        Ok(seed) => vec![seed.parse().expect("REFRAIN_SEED is a number")],
        Err(_) => usual.collect(),
    }
}

pub fn in_both_modes(options: &Options) -> [Options; 2] {
    [false, true].map(|in_place| options.clone().reading_in_place(in_place))
}

/// A calm network and rough ones; receivers read in place, or not.
pub fn all() -> Vec<Options> {
    let calm = std::iter::once(Options::calm(1));
    let rough = seeds(1..=3).into_iter().map(Options::rough);
    calm.chain(rough)
        .flat_map(|options| in_both_modes(&options))
        .map(|options| Options {
            keeps_trace: true,
            ..options
        })
        .collect()
}

/// The calm one, read in place.
pub fn calm() -> Options {
    Options {
        keeps_trace: true,
        ..Options::calm(1).reading_in_place(true)
    }
}
