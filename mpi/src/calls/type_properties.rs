//! What a datatype is, its name, its life (MPI-5.0, sections 5.1.5 to 5.1.13, 7.8 and 19.1.9).

#![allow(unsafe_code, reason = "reads and writes memory of the program")]
#![allow(
    clippy::too_many_arguments,
    reason = "parameters are those of the standard"
)]

use super::attributes::delete_all;
use crate::abi::{Datatype, Place, list_mut, put, put_text, text};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::state::mpi;
use core::ffi::{c_char, c_int};
use refrain_datatypes::{Combiner, Contents, Datatype as Type, Envelope, TypeClass};

/// Looks at a type.
fn of<T>(datatype: Datatype, look: impl FnOnce(&Type) -> T) -> Result<T> {
    Ok(look(&mpi().types.borrow().get(datatype)?.of))
}

pub fn type_commit(place: *mut Datatype) -> Result {
    // SAFETY: the standard asks the program for a handle.
    let datatype = unsafe { place.read() };
    let mut types = mpi().types.borrow_mut();
    let known = types.get_mut(datatype)?;
    known.of.layout()?;
    known.commit();
    Ok(())
}

pub fn type_free(place: *mut Datatype) -> Result {
    // SAFETY: as above.
    let datatype = unsafe { place.read() };
    mpi().types.borrow().check_free(datatype)?;
    delete_all(datatype)?;
    // Operations that use the type keep its layout.
    mpi().types.borrow_mut().remove(datatype)?;
    put(place, abi::DATATYPE_NULL);
    Ok(())
}

pub fn type_size(datatype: Datatype, size: Place) -> Result {
    size.set(of(datatype, Type::size)?);
    Ok(())
}

pub fn type_size_x(datatype: Datatype, size: *mut i64) -> Result {
    type_size(datatype, Place::Long(size))
}

pub fn type_get_extent(datatype: Datatype, lb: Place, extent: Place) -> Result {
    lb.set(of(datatype, Type::lb)?);
    extent.set(of(datatype, Type::extent)?);
    Ok(())
}

pub fn type_get_extent_x(datatype: Datatype, lb: *mut i64, extent: *mut i64) -> Result {
    type_get_extent(datatype, Place::Long(lb), Place::Long(extent))
}

pub fn type_get_true_extent(datatype: Datatype, lb: Place, extent: Place) -> Result {
    lb.set(of(datatype, Type::true_lb)?);
    extent.set(of(datatype, Type::true_extent)?);
    Ok(())
}

pub fn type_get_true_extent_x(datatype: Datatype, lb: *mut i64, extent: *mut i64) -> Result {
    type_get_true_extent(datatype, Place::Long(lb), Place::Long(extent))
}

pub fn type_get_name(datatype: Datatype, place: *mut c_char, length: *mut c_int) -> Result {
    let types = mpi().types.borrow();
    let name = match datatype {
        abi::DATATYPE_NULL => "MPI_DATATYPE_NULL".as_bytes(),
        datatype => types.get(datatype)?.name.as_slice(),
    };
    let room = abi::MAX_OBJECT_NAME as usize;
    put(length, put_text(place, name, room) as c_int);
    Ok(())
}

pub fn type_set_name(datatype: Datatype, name: *const c_char) -> Result {
    // SAFETY: the standard asks the program for a text.
    let name = unsafe { text(name) }.unwrap_or_default();
    mpi().types.borrow_mut().get_mut(datatype)?.name = name;
    Ok(())
}

pub fn type_match_size(class: c_int, size: c_int, place: *mut Datatype) -> Result {
    let class = match class {
        abi::TYPECLASS_INTEGER => Some(TypeClass::Integer),
        abi::TYPECLASS_REAL => Some(TypeClass::Real),
        abi::TYPECLASS_COMPLEX => Some(TypeClass::Complex),
        _ => None,
    };
    let named = class
        .and_then(|class| class.of_size(size))
        .ok_or_else(|| Failure::argument(format_args!("no type of this class has {size} bytes")))?;
    put(place, Datatype(named.handle.into()));
    Ok(())
}

/// Large counts cannot be reported as `int`.
fn check_small(envelope: &Envelope) -> Result {
    match envelope.large_counts {
        0 => Ok(()),
        _ => Err(Failure::new(
            abi::ERR_TYPE,
            "the datatype was made with large counts: use the function whose name ends with _c",
        )),
    }
}

pub fn type_get_envelope(
    datatype: Datatype,
    integers: *mut c_int,
    addresses: *mut c_int,
    types: *mut c_int,
    combiner: *mut c_int,
) -> Result {
    let envelope = of(datatype, Type::envelope)?;
    check_small(&envelope)?;
    put(integers, envelope.integers as c_int);
    put(addresses, envelope.addresses as c_int);
    put(types, envelope.types as c_int);
    put(combiner, envelope.combiner as c_int);
    Ok(())
}

pub fn type_get_envelope_c(
    datatype: Datatype,
    integers: *mut i64,
    addresses: *mut i64,
    large_counts: *mut i64,
    types: *mut i64,
    combiner: *mut c_int,
) -> Result {
    let envelope = of(datatype, Type::envelope)?;
    put(integers, envelope.integers as i64);
    put(addresses, envelope.addresses as i64);
    put(large_counts, envelope.large_counts as i64);
    put(types, envelope.types as i64);
    put(combiner, envelope.combiner as c_int);
    Ok(())
}

pub fn type_get_contents(
    datatype: Datatype,
    most_integers: c_int,
    most_addresses: c_int,
    most_types: c_int,
    integers: *mut c_int,
    addresses: *mut i64,
    types: *mut Datatype,
) -> Result {
    check_small(&of(datatype, Type::envelope)?)?;
    let contents = of(datatype, Type::contents)?;
    copy(&contents.integers, integers, most_integers.into())?;
    copy(&contents.addresses, addresses, most_addresses.into())?;
    copy_types(&contents, types, most_types.into())
}

pub fn type_get_contents_c(
    datatype: Datatype,
    most_integers: i64,
    most_addresses: i64,
    most_large_counts: i64,
    most_types: i64,
    integers: *mut c_int,
    addresses: *mut i64,
    large_counts: *mut i64,
    types: *mut Datatype,
) -> Result {
    let contents = of(datatype, Type::contents)?;
    copy(&contents.integers, integers, most_integers)?;
    copy(&contents.addresses, addresses, most_addresses)?;
    copy(&contents.large_counts, large_counts, most_large_counts)?;
    copy_types(&contents, types, most_types)
}

/// Copies values to a list of the program that has room for `most`.
fn copy<T: Copy>(values: &[T], place: *mut T, most: i64) -> Result {
    if most < values.len() as i64 {
        return Err(Failure::argument(format_args!(
            "the contents of the datatype have {} values, and there is room for {most}: ask MPI_Type_get_envelope first",
            values.len()
        )));
    }
    // SAFETY: the standard asks the program for this room.
    let room = unsafe { list_mut(place, values.len()) };
    room.iter_mut()
        .zip(values)
        .for_each(|(to, from)| *to = *from);
    Ok(())
}

fn copy_types(contents: &Contents, place: *mut Datatype, most: i64) -> Result {
    if contents.combiner == Combiner::Named {
        return Err(Failure::new(
            abi::ERR_TYPE,
            "a predefined datatype has no contents",
        ));
    }
    let mut types = mpi().types.borrow_mut();
    let handles = contents.types.iter().map(|it| types.handle_of(it));
    copy(&handles.collect::<Result<Vec<_>>>()?, place, most)
}
