//! What is told of a failure.

use crate::arguments::Arguments;
use crate::run;
use refrain_sim::plan::Plan;
use refrain_sim::shrink::shrink;
use refrain_sim::world::Failure;

/// Plans that are tried for a smaller one, at most.
const PLANS_MAX: u32 = 600;

/// Tells what failed, a smaller plan that fails in the same way, and how to run it
/// again.
pub fn tell(arguments: &Arguments, plan: &Plan, failed: &Failure) {
    println!("\nFAILED: seed {}, {failed}", plan.seed);
    if !arguments.no_shrink {
        let fails = |plan: &Plan| is_same(arguments, plan, failed);
        let small = shrink(plan, fails, PLANS_MAX);
        if small == *plan {
            println!("no smaller plan fails in this way");
        } else {
            println!("\na smaller plan that fails in the same way:\n{small}");
            if let Err(failed) = run::checked(&small, arguments.twice, false) {
                println!("  {failed}");
            }
        }
    }
    println!("\nagain: {} --trace", arguments.repeat(plan));
}

/// Whether the same oracle complains.
fn is_same(arguments: &Arguments, plan: &Plan, failed: &Failure) -> bool {
    let run = run::checked(plan, arguments.twice, false);
    run.is_err_and(|other| other.breach.oracle == failed.breach.oracle)
}
