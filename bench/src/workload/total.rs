//! Collectives on all ranks, as the workloads use them.

use super::error::WorkloadError;
use refrain::World;
use refrain::collective::{InPlace, Operator, allreduce};

/// The wrapping sum of the values of all ranks, on all ranks.
///
/// # Errors
/// Those of the library.
pub fn sum(world: &mut World, value: u64) -> Result<u64, WorkloadError> {
    let mut total = [value];
    world.collective(allreduce(world.all(), Operator::Sum, InPlace, &mut total))?;
    Ok(total[0])
}
