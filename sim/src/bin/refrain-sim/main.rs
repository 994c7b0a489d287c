//! `refrain-sim`: whole jobs in one process, seed after seed.

mod arguments;
mod campaign;
mod planting;
mod progress;
mod run;
mod story;
mod tally;

use arguments::{Arguments, Task};
use campaign::{Campaign, Seeds};
use clap::Parser;
use refrain_sim::planted::Planted;
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    run::remember_panics();
    let is_well = match arguments.task() {
        Ok(Task::ListPlanted) => {
            for known in Planted::ALL {
                println!("{:24} within {:4} seeds", known.name, known.seeds);
            }
            true
        }
        Ok(Task::ListSizes) => {
            for name in arguments::names() {
                println!("{name}");
            }
            true
        }
        Ok(Task::Explore(size)) => {
            let exploration = refrain_sim::model::run(&size);
            println!("{exploration}");
            exploration.counterexample.is_none()
        }
        Ok(Task::ExploreRestarts(sizes)) => sizes.iter().fold(true, |all, (name, size)| {
            let began = Instant::now();
            let exploration = refrain_sim::world::explored::run(size);
            let seconds = began.elapsed().as_secs_f64();
            println!("restart-{name}: {exploration} ({seconds:.1} s)");
            all & exploration.counterexample.is_none()
        }),
        Ok(Task::FindAll) => Planted::ALL
            .iter()
            .map(|known| planting::find(&arguments, known))
            .fold(true, |all, found| all & found),
        Ok(Task::Find(known)) => planting::find(&arguments, known),
        Ok(Task::One(seed)) => one(&arguments, seed),
        Ok(Task::Many(seeds)) => many(&arguments, seeds),
        Err(why) => {
            eprintln!("refrain-sim: {why}");
            return ExitCode::from(2);
        }
    };
    if is_well {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs one seed and tells its story. Whether all was well.
fn one(arguments: &Arguments, seed: u64) -> bool {
    let plan = arguments.plan(seed);
    print!("{plan}");
    let began = Instant::now();
    match run::checked(&plan, arguments.twice, arguments.trace) {
        Ok(totals) => {
            let mut tally = tally::Tally::default();
            tally.add(&totals);
            println!("{tally}");
            println!("digest {:016x}, {:?}", totals.digest, began.elapsed());
            true
        }
        Err(failed) => {
            story::tell(arguments, &plan, &failed);
            false
        }
    }
}

/// Runs many seeds up to the first failure. Whether there was none.
fn many(arguments: &Arguments, seeds: Seeds) -> bool {
    let campaign = Campaign {
        arguments,
        seeds,
        planted: None,
    };
    let report = campaign.run();
    println!("{}", report.tally);
    println!("{}", pace(report.tally.seeds, report.elapsed));
    match report.failed {
        None => true,
        Some((seed, failed)) => {
            story::tell(arguments, &arguments.plan(seed), &failed);
            false
        }
    }
}

fn pace(seeds: u64, elapsed: Duration) -> String {
    let per_minute = seeds as f64 * 60.0 / elapsed.as_secs_f64().max(1e-9);
    format!(
        "{seeds} seeds in {:.1} s: {per_minute:.0} a minute",
        elapsed.as_secs_f64()
    )
}
