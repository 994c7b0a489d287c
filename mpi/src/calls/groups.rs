//! Groups (MPI-5.0, section 7.3).

#![allow(unsafe_code, reason = "reads and writes lists of the program")]

use crate::abi::{Group, list, list_mut, put};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::group::{self, Members};
use crate::request::count_of;
use crate::state::mpi;
use core::ffi::c_int;

fn get(group: Group) -> Result<Members> {
    mpi().groups.borrow().get(group)
}

fn give(members: Members, place: *mut Group) -> Result {
    put(place, mpi().groups.borrow_mut().add(members)?);
    Ok(())
}

pub fn group_size(group: Group, size: *mut c_int) -> Result {
    put(size, get(group)?.len() as c_int);
    Ok(())
}

pub fn group_rank(group: Group, rank: *mut c_int) -> Result {
    let me = mpi().world()?.rank();
    let place = group::place(&get(group)?, me);
    put(rank, place.map_or(abi::UNDEFINED, |place| place as c_int));
    Ok(())
}

pub fn group_translate_ranks(
    from: Group,
    number: c_int,
    ranks: *const c_int,
    to: Group,
    places: *mut c_int,
) -> Result {
    let number = count_of(number, ranks)?;
    if places.is_null() && number > 0 {
        return Err(crate::border::no_place("ranks2"));
    }
    let (from, to) = (get(from)?, get(to)?);
    // SAFETY: the standard asks the program for lists of this length.
    let (ranks, places) = unsafe { (list(ranks, number), list_mut(places, number)) };
    for (rank, place) in ranks.iter().zip(places) {
        *place = match (*rank, from.get(*rank as usize)) {
            (abi::PROC_NULL, _) => abi::PROC_NULL,
            (_, Some(member)) => {
                group::place(&to, *member).map_or(abi::UNDEFINED, |place| place as c_int)
            }
            (wrong, None) => {
                return Err(Failure::new(
                    abi::ERR_RANK,
                    format_args!("rank {wrong} is not in the group"),
                ));
            }
        };
    }
    Ok(())
}

pub fn group_compare(first: Group, second: Group, result: *mut c_int) -> Result {
    put(result, group::compare(&get(first)?, &get(second)?));
    Ok(())
}

pub fn group_union(first: Group, second: Group, place: *mut Group) -> Result {
    give(group::union(&get(first)?, &get(second)?), place)
}

pub fn group_intersection(first: Group, second: Group, place: *mut Group) -> Result {
    give(group::intersection(&get(first)?, &get(second)?), place)
}

pub fn group_difference(first: Group, second: Group, place: *mut Group) -> Result {
    give(group::difference(&get(first)?, &get(second)?), place)
}

pub fn group_incl(of: Group, number: c_int, ranks: *const c_int, place: *mut Group) -> Result {
    // SAFETY: the standard asks the program for a list of this length.
    let ranks = unsafe { list(ranks, count_of(number, ranks)?) };
    give(group::incl(&get(of)?, ranks)?, place)
}

pub fn group_excl(of: Group, number: c_int, ranks: *const c_int, place: *mut Group) -> Result {
    // SAFETY: as above.
    let ranks = unsafe { list(ranks, count_of(number, ranks)?) };
    give(group::excl(&get(of)?, ranks)?, place)
}

pub fn group_range_incl(
    of: Group,
    number: c_int,
    ranges: *mut [c_int; 3],
    place: *mut Group,
) -> Result {
    // SAFETY: as above.
    let ranges = unsafe { list(ranges, count_of(number, ranges)?) };
    give(group::incl(&get(of)?, &group::places(ranges)?)?, place)
}

pub fn group_range_excl(
    of: Group,
    number: c_int,
    ranges: *mut [c_int; 3],
    place: *mut Group,
) -> Result {
    // SAFETY: as above.
    let ranges = unsafe { list(ranges, count_of(number, ranges)?) };
    give(group::excl(&get(of)?, &group::places(ranges)?)?, place)
}

pub fn group_free(place: *mut Group) -> Result {
    // SAFETY: the standard asks the program for a handle.
    mpi().groups.borrow_mut().remove(unsafe { *place })?;
    put(place, abi::GROUP_NULL);
    Ok(())
}
