//! Groups.

#![allow(unsafe_code, reason = "functions for C, which lends its memory")]

use super::super::border;
use super::super::collective::size_and_place;
use super::super::failure::Failure;
use super::super::memory::{Array, Out};
use super::super::present::{self, WorldHandle};
use super::super::program::Program;
use core::ffi::c_int;
use refrain::{Error, Group, World};

/// `REFRAIN_NO_COLOR`
const NO_COLOR: c_int = -1;

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_group_all(world: *const WorldHandle) -> Group {
    let mut all = Group::default();
    border::call(|| {
        all = present::with(world, |program| Ok(program.world().all()))?;
        Ok(())
    });
    all
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_group_size(world: *const WorldHandle, group: Group) -> c_int {
    about(world, group, |(size, _)| size)
}

// SAFETY: the name is the library's own.
#[unsafe(no_mangle)]
extern "C" fn refrain_group_place(world: *const WorldHandle, group: Group) -> c_int {
    about(world, group, |(_, place)| place)
}

fn about(world: *const WorldHandle, group: Group, ask: impl FnOnce((u32, u32)) -> u32) -> c_int {
    let number = border::number(|| with(world, group, |_, about| Ok(ask(about).into())));
    number as c_int
}

/// Calls `act` with the size and place of the group.
fn with<T>(
    world: *const WorldHandle,
    group: Group,
    act: impl FnOnce(&mut Program, (u32, u32)) -> Result<T, Failure>,
) -> Result<T, Failure> {
    present::with(world, |program| {
        let about = size_and_place(program.world(), group)?;
        act(program, about)
    })
}

/// Runs an operation on a group.
fn operate<T>(
    world: *const WorldHandle,
    group: Group,
    operation: impl FnOnce(&mut World) -> Result<T, Error>,
) -> Result<T, Failure> {
    with(world, group, |program, _| Ok(operation(program.ready()?)?))
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_group_members(
    world: *const WorldHandle,
    group: Group,
    ranks: *mut c_int,
) -> c_int {
    border::call(|| {
        with(world, group, |program, (size, _)| {
            // SAFETY: as the header asks of the caller.
            let mut out = unsafe { Array::required("ranks", ranks, size as usize) }?;
            for (place, rank) in program.world().members(group)?.iter().enumerate() {
                out.set(place, rank.0 as c_int);
            }
            Ok(())
        })
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_group_split(
    world: *mut WorldHandle,
    group: Group,
    color: c_int,
    key: i64,
    part: *mut Group,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut out = unsafe { Out::required("part", part) }?;
        let refused = |_| Failure::argument(format_args!("color {color} is negative"));
        let color = match color {
            NO_COLOR => None,
            color => Some(u32::try_from(color).map_err(refused)?),
        };
        let part = operate(world, group, |world| world.split(group, color, key))?;
        out.set(part.unwrap_or_default());
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_group_duplicate(
    world: *mut WorldHandle,
    group: Group,
    copy: *mut Group,
) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut out = unsafe { Out::required("copy", copy) }?;
        out.set(operate(world, group, |world| world.duplicate(group))?);
        Ok(())
    })
}

// SAFETY: the name is the library's own; callers keep to what `refrain.h` asks.
#[unsafe(no_mangle)]
unsafe extern "C" fn refrain_group_release(world: *mut WorldHandle, group: *mut Group) -> c_int {
    border::call(|| {
        // SAFETY: as the header asks of the caller.
        let mut place = unsafe { Array::required("group", group, 1) }?;
        let group = place.values()[0];
        operate(world, group, |world| world.release(group))?;
        place.set(0, Group::default());
        Ok(())
    })
}
