//! Writes the seeds of every target to `DIR/<target>/seed-<n>` and prints the
//! names of the targets, for `ci/fuzz`.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let corpus = PathBuf::from(env::args_os().nth(1).ok_or("usage: seeds DIR")?);
    for target in refrain_fuzz::TARGETS {
        let folder = corpus.join(target.name);
        fs::create_dir_all(&folder)?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{number}")), seed)?;
        }
        println!("{}", target.name);
    }
    Ok(())
}
