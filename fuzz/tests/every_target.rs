//! Checks the same properties without libFuzzer: every regression file, every seed with each bit
//! flipped and cut at every length, then random bytes and random damage to seeds (PROPTEST_CASES
//! and PROPTEST_RNG_SEED control these).

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use refrain_fuzz::{TARGETS, Target};
use std::{fs, path::Path};

#[test]
fn every_seed_is_accepted_by_its_check() {
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty(), "{} has no seeds", target.name);
        seeds.iter().for_each(|seed| (target.check)(seed));
    }
}

#[test]
fn every_found_failure_stays_fixed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("regressions");
    for target in TARGETS {
        let Ok(files) = fs::read_dir(folder.join(target.name)) else {
            continue;
        };
        for file in files {
            let path = file.expect("a readable folder").path();
            println!("{}", path.display());
            (target.check)(&fs::read(path).expect("a readable file"));
        }
    }
}

#[test]
fn one_flipped_bit_and_every_cut() {
    for target in TARGETS {
        for seed in (target.seeds)() {
            for bit in 0..seed.len() * 8 {
                let mut damaged = seed.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                (target.check)(&damaged);
            }
            (0..seed.len()).for_each(|bytes| (target.check)(&seed[..bytes]));
        }
    }
}

fn any_target() -> impl Strategy<Value = Target> {
    (0..TARGETS.len()).prop_map(|index| TARGETS[index])
}

proptest! {
    #[test]
    fn random_bytes(target in any_target(), bytes in vec(any::<u8>(), 0..256)) {
        (target.check)(&bytes);
    }

    #[test]
    fn random_damage(
        target in any_target(),
        seed in any::<Index>(),
        damage in vec((any::<Index>(), any::<u8>()), 1..6),
        tail in vec(any::<u8>(), 0..32),
    ) {
        let seeds = (target.seeds)();
        let mut bytes = seed.get(&seeds).clone();
        for (place, value) in damage {
            *place.get_mut(&mut bytes) = value;
        }
        bytes.extend(tail);
        (target.check)(&bytes);
    }
}
