//! Planted bugs have to be found.

use crate::arguments::Arguments;
use crate::campaign::{Campaign, Seeds};
use refrain_sim::planted::Known;

/// Looks for a planted bug in as many seeds as are said, or as it may take.
/// Whether it was found.
pub fn find(arguments: &Arguments, known: &Known) -> bool {
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
            println!(
                "{:24} NOT FOUND in {} seeds",
                known.name, report.tally.seeds
            );
            false
        }
    }
}
