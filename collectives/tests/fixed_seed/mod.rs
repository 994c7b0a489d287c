//! Random tests take the same cases each time, unless asked for others:
//! `PROPTEST_RNG_SEED=7 PROPTEST_CASES=5000 cargo test -p refrain-collectives`.

use proptest::test_runner::{Config, RngSeed};

/// A configuration with `cases` cases, and the seed printed for when they fail.
pub fn cases(cases: u32) -> Config {
    let mut config = Config {
        failure_persistence: None,
        ..Config::default()
    };
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(0x5eed);
    }
    eprintln!(
        "again with: PROPTEST_RNG_SEED={} PROPTEST_CASES={}",
        config.rng_seed, config.cases
    );
    config
}
