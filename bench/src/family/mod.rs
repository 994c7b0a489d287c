//! `refrain bench family`: what the protocols cost at job sizes that no machine here has, from a
//! [`model`] of an iteration with the bytes of the real [`encoder`]; after Meneses,
//! Bronevetsky and Kalé, figures 6 to 11.
//!
//! Deterministic: each run gives the same figures. `cli/tests/suite/family.rs` compares the model
//! with counters of real jobs of 4 and 8 ranks.

mod arguments;
pub mod encoder;
pub mod model;
mod report;

pub use arguments::Arguments;

use crate::error::BenchError;
use encoder::Encoder;
use model::Load;
use report::Run;

/// Dimensions of the stencil's grid.
const DIMENSIONS: usize = 3;

/// Computes everything and prints the tables.
///
/// # Errors
/// When an option is wrong, or a file cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), BenchError> {
    let members = arguments.members()?;
    arguments.reporting.check()?;
    let costs = arguments.costs();
    let mut encoder = Encoder::default();
    let mut runs = Vec::new();
    for &pattern in &arguments.patterns {
        for &ranks in &arguments.ranks {
            let roles = pattern.roles(ranks, DIMENSIONS);
            for &member in &members {
                runs.push(Run {
                    pattern,
                    ranks,
                    protocol: member.name(),
                    load: Load::of(member, &roles, &costs, &mut encoder),
                });
            }
        }
    }
    let chart = || report::chart(arguments, &runs);
    arguments
        .reporting
        .write("family", arguments, &runs, chart)?;
    report::show(arguments, &runs)
}
