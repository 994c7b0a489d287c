//! Random tests are the same in every run; `PROPTEST_RNG_SEED=n` changes the seed,
//! `PROPTEST_CASES=n` the number of cases.

use proptest::test_runner::{Config, RngSeed};

pub fn config(cases: u32) -> Config {
    let mut config = Config::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = cases;
    }
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(2004);
    }
    config.failure_persistence = None;
    println!("seed: {}", config.rng_seed);
    config
}
