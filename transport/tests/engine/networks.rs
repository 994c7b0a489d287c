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

/// Minimum payload bytes of distant frames, if any are distant: nearly all frames that are not
/// empty, or the long ones of a message.
pub const DISTANT: [Option<usize>; 3] = [None, Some(1), Some(4096)];

/// A calm network and rough ones; receivers read in place, or not; without and
/// with distant frames; with frames that leave before they are in the log.
pub fn all() -> Vec<Options> {
    let mut networks = with_and_without_distant();
    networks.extend(staging());
    networks
}

/// Payload lengths of frames that leave before they are in the log, shorter than with any real
/// fabric.
pub const STAGED_BYTES: core::ops::Range<usize> = 4..6000;

/// The networks that take frames of some lengths before they are in the log.
pub fn staging() -> Vec<Options> {
    [Options::calm(1), Options::rough(4)]
        .map(|mut options| {
            options.keeps_trace = true;
            options.attributes.staged_bytes = STAGED_BYTES;
            options
        })
        .into()
}

fn with_and_without_distant() -> Vec<Options> {
    let calm = std::iter::once(Options::calm(1));
    let rough = seeds(1..=3).into_iter().map(Options::rough);
    calm.chain(rough)
        .flat_map(|options| in_both_modes(&options))
        .flat_map(|options| {
            DISTANT.map(|distant_bytes_min| Options {
                keeps_trace: true,
                distant_bytes_min,
                ..options.clone()
            })
        })
        .collect()
}

/// The networks with distant frames.
pub fn distant() -> Vec<Options> {
    let mut networks = with_and_without_distant();
    networks.retain(|network| network.distant_bytes_min.is_some());
    networks
}

/// The calm network, with frames that are read in place.
pub fn calm() -> Options {
    Options {
        keeps_trace: true,
        ..Options::calm(1).reading_in_place(true)
    }
}
