//! Functions that MPI 3.0 removed, by their successors. Their addresses are INTEGER of the default
//! kind.

#![allow(unsafe_code, reason = "reads and writes values of the program")]

use super::address as constants;
use super::c::Datatype;
use super::handle::Handle;
use super::list::{List, handles};
use core::ffi::{c_int, c_void};

const ERR_ARG: c_int = 13;

/// Writes an address, if the call that gave it was right. One that does not fit is an error.
///
/// # Safety
/// The place can be written.
unsafe fn put_address(to: *mut c_int, address: i64, code: c_int) -> c_int {
    match c_int::try_from(address) {
        _ if code != 0 => code,
        Err(_) => ERR_ARG,
        Ok(address) => {
            // SAFETY: the caller's promise.
            unsafe { to.write(address) };
            0
        }
    }
}

/// The addresses of the program's list.
///
/// # Safety
/// The list has that many.
unsafe fn addresses(list: *mut c_int, count: c_int) -> List<i64> {
    let element = |index| {
        // SAFETY: the caller's promise.
        unsafe { list.add(index).read() }.into()
    };
    List::made(count.into(), element)
}

/// # Safety
/// The places are there.
pub unsafe fn address(
    get: unsafe extern "C" fn(*mut c_void, *mut i64) -> c_int,
    location: *mut c_void,
    address: *mut c_int,
) -> c_int {
    let mut wide = 0;
    // SAFETY: the caller's promise.
    unsafe {
        let code = get(constants::buffer(location), &raw mut wide);
        put_address(address, wide, code)
    }
}

type GetExtent = unsafe extern "C" fn(Datatype, *mut i64, *mut i64) -> c_int;

macro_rules! bounds {
    ($($name:ident: |$first:ident, $bytes:ident| $bound:expr;)*) => {$(
        /// # Safety
        /// The places are there.
        pub unsafe fn $name(get: GetExtent, datatype: *mut c_int, bound: *mut c_int) -> c_int {
            let (mut $first, mut $bytes) = (0, 0);
            // SAFETY: the caller's promise.
            unsafe {
                let of = Handle::from_int(*datatype);
                let code = get(of, &raw mut $first, &raw mut $bytes);
                put_address(bound, $bound, code)
            }
        }
    )*};
}

bounds!(
    type_extent: |first, bytes| bytes;
    type_lb: |first, bytes| first;
    type_ub: |first, bytes| first + bytes;
);

type CreateIndexed =
    unsafe extern "C" fn(c_int, *mut c_int, *mut i64, Datatype, *mut Datatype) -> c_int;

/// # Safety
/// The places are there.
pub unsafe fn type_hindexed(
    create: CreateIndexed,
    count: *mut c_int,
    lengths: *mut c_int,
    places: *mut c_int,
    oldtype: *mut c_int,
    newtype: *mut c_int,
) -> c_int {
    let mut made = Datatype::NULL;
    // SAFETY: the caller's promise.
    unsafe {
        let mut places = addresses(places, *count);
        let old = Handle::from_int(*oldtype);
        let code = create(*count, lengths, places.at(), old, &raw mut made);
        newtype.write(made.to_int());
        code
    }
}

type CreateVector = unsafe extern "C" fn(c_int, c_int, i64, Datatype, *mut Datatype) -> c_int;

/// # Safety
/// The places are there.
pub unsafe fn type_hvector(
    create: CreateVector,
    count: *mut c_int,
    length: *mut c_int,
    stride: *mut c_int,
    oldtype: *mut c_int,
    newtype: *mut c_int,
) -> c_int {
    let mut made = Datatype::NULL;
    // SAFETY: the caller's promise.
    unsafe {
        let (stride, old) = ((*stride).into(), Handle::from_int(*oldtype));
        let code = create(*count, *length, stride, old, &raw mut made);
        newtype.write(made.to_int());
        code
    }
}

type CreateStruct =
    unsafe extern "C" fn(c_int, *mut c_int, *mut i64, *mut Datatype, *mut Datatype) -> c_int;

/// # Safety
/// The places are there.
pub unsafe fn type_struct(
    create: CreateStruct,
    count: *mut c_int,
    lengths: *mut c_int,
    places: *mut c_int,
    types: *mut c_int,
    newtype: *mut c_int,
) -> c_int {
    let mut made = Datatype::NULL;
    // SAFETY: the caller's promise.
    unsafe {
        let mut places = addresses(places, *count);
        let mut types: List<Datatype> = handles(types, (*count).into());
        let code = create(*count, lengths, places.at(), types.at(), &raw mut made);
        newtype.write(made.to_int());
        code
    }
}
