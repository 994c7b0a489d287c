//! The functions of `refrain.h`, in its order. Each does what the header says, and
//! trusts its caller in what the header asks of it.

mod blocking;
mod checkpoints;
mod life;
mod probing;
mod requests;
mod several;

use super::failure::Failure;
use core::ffi::c_int;
use refrain::{SendTo, Source, from, from_any, to};

/// `REFRAIN_ANY_SOURCE`
const ANY_SOURCE: c_int = -1;
/// `REFRAIN_ANY_TAG`
const ANY_TAG: c_int = c_int::MIN;

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

/// Whether the job has so many is asked later.
fn existing(rank: c_int) -> Result<u32, Failure> {
    u32::try_from(rank).map_err(|_| {
        Failure::new(
            super::failure::Code::Rank,
            format_args!("rank {rank} does not exist"),
        )
    })
}
