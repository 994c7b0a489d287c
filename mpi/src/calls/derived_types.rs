//! Constructors of datatypes (MPI-5.0, sections 5.1 and 19.1.9).

#![allow(unsafe_code, reason = "reads the program's lists")]
#![allow(
    clippy::too_many_arguments,
    reason = "parameters are those of the standard"
)]

use super::types::negative;
use crate::abi::{Datatype, Numbers, list, put};
use crate::attribute::copied;
use crate::datatype::Known;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::request::no_list;
use crate::state::mpi;
use core::ffi::c_int;
use refrain_datatypes::{
    Datatype as Type, Dimension, Distribution, Field, Named, Order, Slice, TypeError,
};

fn known(datatype: Datatype) -> Result<Type> {
    Ok(mpi().types.borrow().get(datatype)?.of.clone())
}

/// Gives a type that the program makes to it.
fn give(place: *mut Datatype, made: Type) -> Result {
    put(place, mpi().types.borrow_mut().add(Known::made(made))?);
    Ok(())
}

/// As [`give`], with the width of the counts that it was made with.
fn make(
    place: *mut Datatype,
    is_large: bool,
    made: core::result::Result<Type, TypeError>,
) -> Result {
    let made = made?;
    give(
        place,
        if is_large {
            made.with_large_counts()
        } else {
            made
        },
    )
}

fn length(count: i64) -> Result<usize> {
    usize::try_from(count).map_err(|_| negative(count))
}

/// Reads lists of the program.
fn read<const N: usize>(count: usize, lists: [Numbers; N]) -> Result<[Vec<i64>; N]> {
    // SAFETY: the standard asks the program for lists of this length.
    let lists = lists.map(|list| unsafe { list.read(count) });
    // A null list has no numbers.
    match lists.iter().all(|list| list.len() == count) {
        true => Ok(lists),
        false => Err(no_list()),
    }
}

fn read_ints<const N: usize>(count: usize, lists: [*const c_int; N]) -> Result<[Vec<c_int>; N]> {
    let lists = read(count, lists.map(Numbers::Int))?;
    Ok(lists.map(|list| list.into_iter().map(|number| number as c_int).collect()))
}

pub fn type_contiguous(count: i64, of: Datatype, place: *mut Datatype, is_large: bool) -> Result {
    make(place, is_large, Type::contiguous(count, &known(of)?))
}

pub fn type_vector(
    count: i64,
    blocklength: i64,
    stride: i64,
    of: Datatype,
    place: *mut Datatype,
    is_large: bool,
) -> Result {
    let made = Type::vector(count, blocklength, stride, &known(of)?);
    make(place, is_large, made)
}

pub fn type_create_hvector(
    count: i64,
    blocklength: i64,
    stride: i64,
    of: Datatype,
    place: *mut Datatype,
    is_large: bool,
) -> Result {
    let made = Type::hvector(count, blocklength, stride, &known(of)?);
    make(place, is_large, made)
}

pub fn type_indexed(
    count: i64,
    blocklengths: Numbers,
    displacements: Numbers,
    of: Datatype,
    place: *mut Datatype,
    is_large: bool,
) -> Result {
    let [lengths, places] = read(length(count)?, [blocklengths, displacements])?;
    make(
        place,
        is_large,
        Type::indexed(&lengths, &places, &known(of)?),
    )
}

pub fn type_create_hindexed(
    count: i64,
    blocklengths: Numbers,
    displacements: Numbers,
    of: Datatype,
    place: *mut Datatype,
    is_large: bool,
) -> Result {
    let [lengths, places] = read(length(count)?, [blocklengths, displacements])?;
    make(
        place,
        is_large,
        Type::hindexed(&lengths, &places, &known(of)?),
    )
}

pub fn type_create_indexed_block(
    count: i64,
    blocklength: i64,
    displacements: Numbers,
    of: Datatype,
    place: *mut Datatype,
    is_large: bool,
) -> Result {
    let [places] = read(length(count)?, [displacements])?;
    let made = Type::indexed_block(blocklength, &places, &known(of)?);
    make(place, is_large, made)
}

pub fn type_create_hindexed_block(
    count: i64,
    blocklength: i64,
    displacements: Numbers,
    of: Datatype,
    place: *mut Datatype,
    is_large: bool,
) -> Result {
    let [places] = read(length(count)?, [displacements])?;
    let made = Type::hindexed_block(blocklength, &places, &known(of)?);
    make(place, is_large, made)
}

pub fn type_create_struct(
    count: i64,
    blocklengths: Numbers,
    displacements: Numbers,
    of: *const Datatype,
    place: *mut Datatype,
    is_large: bool,
) -> Result {
    let count = length(count)?;
    let [lengths, places] = read(count, [blocklengths, displacements])?;
    // SAFETY: the standard asks the program for a list of this length.
    let of = unsafe { list(of, count) };
    if of.len() < count {
        return Err(no_list());
    }
    let types = of.iter().map(|it| known(*it)).collect::<Result<Vec<_>>>()?;
    let fields = lengths.iter().zip(&places).zip(&types);
    let fields = fields.map(|((blocklength, displacement), of)| Field {
        blocklength: *blocklength,
        displacement: *displacement,
        of,
    });
    let fields: Vec<_> = fields.collect();
    make(place, is_large, Type::structure(&fields))
}

pub fn type_create_resized(
    of: Datatype,
    lb: i64,
    extent: i64,
    place: *mut Datatype,
    is_large: bool,
) -> Result {
    make(place, is_large, Type::resized(&known(of)?, lb, extent))
}

fn order(order: c_int) -> Result<Order> {
    match order {
        abi::ORDER_C => Ok(Order::C),
        abi::ORDER_FORTRAN => Ok(Order::Fortran),
        _ => Err(Failure::argument(format_args!(
            "the order is {order}: give MPI_ORDER_C or MPI_ORDER_FORTRAN"
        ))),
    }
}

pub fn type_create_subarray(
    dimensions: c_int,
    sizes: Numbers,
    subsizes: Numbers,
    starts: Numbers,
    in_order: c_int,
    of: Datatype,
    place: *mut Datatype,
    is_large: bool,
) -> Result {
    let lists = read(length(dimensions.into())?, [sizes, subsizes, starts])?;
    let slice = |at: usize| Slice {
        size: lists[0][at],
        subsize: lists[1][at],
        start: lists[2][at],
    };
    let slices: Vec<_> = (0..lists[0].len()).map(slice).collect();
    let made = Type::subarray(&slices, order(in_order)?, &known(of)?);
    make(place, is_large, made)
}

fn distribution(distribution: c_int) -> Result<Distribution> {
    match distribution {
        abi::DISTRIBUTE_NONE => Ok(Distribution::None),
        abi::DISTRIBUTE_BLOCK => Ok(Distribution::Block),
        abi::DISTRIBUTE_CYCLIC => Ok(Distribution::Cyclic),
        _ => Err(Failure::argument(format_args!(
            "the distribution is {distribution}: give MPI_DISTRIBUTE_NONE, MPI_DISTRIBUTE_BLOCK or MPI_DISTRIBUTE_CYCLIC"
        ))),
    }
}

pub fn type_create_darray(
    processes: c_int,
    rank: c_int,
    dimensions: c_int,
    sizes: Numbers,
    distributions: *const c_int,
    arguments: *const c_int,
    grid: *const c_int,
    in_order: c_int,
    of: Datatype,
    place: *mut Datatype,
    is_large: bool,
) -> Result {
    let count = length(dimensions.into())?;
    let [sizes] = read(count, [sizes])?;
    let [distributions, arguments, grid] = read_ints(count, [distributions, arguments, grid])?;
    let dimension = |at: usize| -> Result<Dimension> {
        let is_default = arguments[at] == abi::DISTRIBUTE_DFLT_DARG;
        Ok(Dimension {
            size: sizes[at],
            distribution: distribution(distributions[at])?,
            block: (!is_default).then_some(arguments[at]),
            processes: grid[at],
        })
    };
    let all = (0..sizes.len())
        .map(dimension)
        .collect::<Result<Vec<_>>>()?;
    let made = Type::darray(processes, rank, &all, order(in_order)?, &known(of)?);
    make(place, is_large, made)
}

pub fn type_dup(of: Datatype, place: *mut Datatype) -> Result {
    // What the program has if one of its functions refuses.
    put(place, abi::DATATYPE_NULL);
    let old = mpi().types.borrow().get(of)?.clone();
    let mut made = Known::made(Type::duplicate(&old.of)?);
    made.attributes = copied(of.0, &old.attributes)?;
    if old.is_committed {
        made.commit();
    }
    put(place, mpi().types.borrow_mut().add(made)?);
    Ok(())
}

/// Gives a predefined type without a name to the program.
fn give_predefined(place: *mut Datatype, made: Option<Type>, what: &str) -> Result {
    let made = made.ok_or_else(|| {
        Failure::argument(format_args!(
            "gfortran has no {what} of this precision and range: give smaller ones"
        ))
    })?;
    put(place, mpi().types.borrow_mut().predefined(made)?);
    Ok(())
}

/// MPI_UNDEFINED is none.
fn given(number: c_int) -> Option<c_int> {
    (number != abi::UNDEFINED).then_some(number)
}

pub fn type_create_f90_real(precision: c_int, range: c_int, place: *mut Datatype) -> Result {
    let made = Type::f90_real(given(precision), given(range));
    give_predefined(place, made, "REAL")
}

pub fn type_create_f90_complex(precision: c_int, range: c_int, place: *mut Datatype) -> Result {
    let made = Type::f90_complex(given(precision), given(range));
    give_predefined(place, made, "COMPLEX")
}

pub fn type_create_f90_integer(range: c_int, place: *mut Datatype) -> Result {
    give_predefined(place, Type::f90_integer(range), "INTEGER")
}

pub fn type_get_value_index(value: Datatype, index: Datatype, place: *mut Datatype) -> Result {
    let mut types = mpi().types.borrow_mut();
    let named =
        |datatype| -> Result<Option<&'static Named>> { Ok(types.get(datatype)?.of.as_named()) };
    let pair = named(value)?.zip(named(index)?);
    let pair = pair.and_then(|(value, index)| Type::value_index(value, index));
    let handle = match pair {
        Some(pair) => types.predefined(pair)?,
        None => abi::DATATYPE_NULL,
    };
    put(place, handle);
    Ok(())
}
