//! The functions of `refrain.h`, in its order. Each does what the header says, and relies on what
//! the header requires of the caller.

mod blocking;
mod checkpoints;
mod collectives;
mod groups;
mod life;
mod probing;
mod requests;
mod several;

use super::failure::{Code, Failure};
use super::present::{self, WorldHandle};
use core::ffi::c_int;
use refrain::{Error, SendTo, Source, World, from, from_any, to};

/// `REFRAIN_ANY_SOURCE`
const ANY_SOURCE: c_int = -1;
/// `REFRAIN_ANY_TAG`
const ANY_TAG: c_int = c_int::MIN;

/// Runs an operation on the world of this thread.
#[inline]
fn operate<T>(
    world: *mut WorldHandle,
    operation: impl FnOnce(&mut World) -> Result<T, Error>,
) -> Result<T, Failure> {
    present::with(world, |program| Ok(operation(program.ready()?)?))
}

fn destination(rank: c_int, tag: c_int) -> Result<SendTo, Failure> {
    if tag == ANY_TAG {
        return Err(Failure::argument("a message cannot be sent with any tag"));
    }
    Ok(to(existing(rank)?).tag(tag))
}

fn source(rank: c_int, tag: c_int) -> Result<Source, Failure> {
    let source = match rank {
        ANY_SOURCE => from_any(),
        rank => from(existing(rank)?),
    };
    Ok(match tag {
        ANY_TAG => source.any_tag(),
        tag => source.tag(tag),
    })
}

/// Checks only that `rank` is not negative; later calls check that the job has this rank.
fn existing(rank: c_int) -> Result<u32, Failure> {
    let refused = |_| Failure::new(Code::Rank, format_args!("rank {rank} does not exist"));
    u32::try_from(rank).map_err(refused)
}
