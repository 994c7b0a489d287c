//! `refrain-sim`: whole jobs in one process, seed after seed.

mod arguments;
mod campaign;
mod control;

use arguments::{Arguments, Command, Task};
use campaign::{Campaign, Seeds};
use clap::Parser;
use refrain_sim::happening::Breach;
use refrain_sim::plan::Plan;
use refrain_sim::planted::{Known, Planted};
use refrain_sim::shrink::shrink;
use refrain_sim::world::{Failure, Totals};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(Command::Control(options)) = &arguments.command {
        control::print(options);
        return ExitCode::SUCCESS;
    }
    remember_panics();
    let is_well = match arguments.task() {
        Ok(Task::ListPlanted) => {
            for known in Planted::ALL {
                println!("{:24} within {:4} seeds", known.name, known.seeds);
            }
            true
        }
        Ok(Task::ListExplorations) => {
            for (name, _) in arguments::explorations() {
                println!("{name}");
            }
            true
        }
        Ok(Task::Explore(all)) => all.iter().fold(true, |all, (name, explore)| {
            let began = Instant::now();
            let exploration = explore();
            let seconds = began.elapsed().as_secs_f64();
            println!("{name}: {exploration} ({seconds:.1} s)");
            all & exploration.counterexample.is_none()
        }),
        Ok(Task::FindAll) => Planted::ALL
            .iter()
            .map(|known| find(&arguments, known))
            .fold(true, |all, found| all & found),
        Ok(Task::Find(known)) => find(&arguments, known),
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

/// Runs one seed and prints its plan and result. Returns whether it succeeded.
fn one(arguments: &Arguments, seed: u64) -> bool {
    let plan = arguments.plan(seed);
    print!("{plan}");
    let began = Instant::now();
    match checked(&plan, arguments.twice, arguments.trace) {
        Ok(totals) => {
            println!("counted:{}", totals.counts);
            println!("digest {:016x}, {:?}", totals.digest, began.elapsed());
            true
        }
        Err(failed) => {
            tell(arguments, &plan, &failed);
            false
        }
    }
}

/// Runs many seeds up to the first failure. Returns whether there was none.
fn many(arguments: &Arguments, seeds: Seeds) -> bool {
    let campaign = Campaign {
        arguments,
        seeds,
        planted: None,
    };
    let report = campaign.run();
    println!("counted:{}", report.counts);
    println!("{}", pace(report.seeds, report.elapsed));
    match report.failed {
        None => true,
        Some((seed, failed)) => {
            tell(arguments, &arguments.plan(seed), &failed);
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

thread_local! {
    /// Place and message of the latest panic of this thread.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics are reported with their seeds, not when they occur.
fn remember_panics() {
    std::panic::set_hook(Box::new(|panic| {
        PANIC.with(|last| *last.borrow_mut() = panic.to_string());
    }));
}

/// Runs a plan, two times if `twice`. A panic is a failure like others.
///
/// # Errors
/// The violated rule.
fn checked(plan: &Plan, twice: bool, is_loud: bool) -> Result<Totals, Box<Failure>> {
    let totals = once(plan, is_loud)?;
    if twice {
        let again = once(plan, false)?;
        if again != totals {
            return Err(failure(
                "simulator",
                format!("a second run of the same plan has {again:?}, the first had {totals:?}"),
            ));
        }
    }
    Ok(totals)
}

fn once(plan: &Plan, is_loud: bool) -> Result<Totals, Box<Failure>> {
    // Nothing of a run is used after a panic.
    let run = AssertUnwindSafe(|| refrain_sim::world::run(plan, is_loud));
    catch_unwind(run).unwrap_or_else(|_| {
        let what = PANIC.with(|last| last.borrow().clone());
        Err(failure("panic", what))
    })
}

fn failure(oracle: &'static str, what: String) -> Box<Failure> {
    Box::new(Failure {
        step: 0,
        breach: Breach { oracle, what },
    })
}

/// Maximum number of plans that are tried for a smaller one.
const PLANS_MAX: u32 = 600;

/// Prints the failure, a smaller plan that fails in the same way, and the command that runs the
/// seed again.
fn tell(arguments: &Arguments, plan: &Plan, failed: &Failure) {
    println!("\nFAILED: seed {}, {failed}", plan.seed);
    if !arguments.no_shrink {
        let fails = |plan: &Plan| is_same(arguments, plan, failed);
        let small = shrink(plan, fails, PLANS_MAX);
        if small == *plan {
            println!("no smaller plan fails in this way");
        } else {
            println!("\na smaller plan that fails in the same way:\n{small}");
            if let Err(failed) = checked(&small, arguments.twice, false) {
                println!("  {failed}");
            }
        }
    }
    println!("\nagain: {} --trace", arguments.repeat(plan));
}

/// Whether a plan fails by the same oracle.
fn is_same(arguments: &Arguments, plan: &Plan, failed: &Failure) -> bool {
    let run = checked(plan, arguments.twice, false);
    run.is_err_and(|other| other.breach.oracle == failed.breach.oracle)
}

/// Searches a planted bug in the given seeds, or in the number of seeds within which it must be
/// found. Returns whether it was found.
fn find(arguments: &Arguments, known: &Known) -> bool {
    let stated = Seeds::Count(arguments.first(), known.seeds);
    let campaign = Campaign {
        arguments,
        seeds: arguments.many().unwrap_or(stated),
        planted: Some(known.planted),
    };
    let report = campaign.run();
    let seconds = report.elapsed.as_secs_f64();
    match report.failed {
        Some((seed, failed)) => {
            let tried = seed - arguments.first() + 1;
            println!(
                "{:24} found by seed {seed}, {tried} tried, {seconds:.1} s: {failed}",
                known.name
            );
            true
        }
        None => {
            println!("{:24} NOT FOUND in {} seeds", known.name, report.seeds);
            false
        }
    }
}
