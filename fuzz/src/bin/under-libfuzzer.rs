//! Runs the target named by `REFRAIN_FUZZ_TARGET` under libFuzzer. One program serves all targets,
//! so that `ci/fuzz` links once.
#![no_main]

use refrain_fuzz::{TARGETS, Target};
use std::{env, process, sync::OnceLock};

static TARGET: OnceLock<Target> = OnceLock::new();

fn named() -> Target {
    let name = env::var("REFRAIN_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        eprintln!("REFRAIN_FUZZ_TARGET names no target: {name:?}");
        process::exit(2);
    };
    *target
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| (TARGET.get_or_init(named).check)(bytes));
