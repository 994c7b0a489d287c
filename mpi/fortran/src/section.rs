//! Buffers that need not be contiguous: array sections become datatypes, so that the engine packs
//! their elements where they lie; what C cannot describe is copied for the time of the call.

#![allow(unsafe_code, reason = "reads and writes buffers of the program")]

use super::address;
use super::c::{self, Datatype};
use super::descriptor::{Descriptor, Dimension, is_contiguous};
use super::handle::Handle as _;
use super::kept::{self, Items, Kept};
use core::ffi::{c_int, c_void};
use std::sync::Arc;

const ERR_BUFFER: c_int = 1;
const ERR_TYPE: c_int = 3;
/// Bytes, MPI_BYTE.
const BYTE: Datatype = Datatype(583);

/// The address of a buffer for C.
///
/// # Safety
/// The descriptor is whole.
pub unsafe fn address(descriptor: *const Descriptor) -> *mut c_void {
    // SAFETY: the caller's promise.
    address::buffer(unsafe { (*descriptor).base })
}

/// Gives the first failure to the error handler of the communicator.
///
/// # Safety
/// The communicator is null or can be read.
#[inline]
pub unsafe fn failed<const N: usize>(codes: [c_int; N], comm: *mut c_int) -> Option<c_int> {
    let code = codes.into_iter().find(|code| *code != 0)?;
    // MPI_COMM_SELF
    let comm = match comm.is_null() {
        true => 258,
        // SAFETY: the caller's promise.
        false => unsafe { comm.read() },
    };
    // SAFETY: it checks its arguments.
    unsafe { c::PMPI_Comm_call_errhandler(c::Comm::from_int(comm), code) };
    Some(code)
}

/// A buffer with count and datatype of its elements.
pub struct Section {
    at: *mut c_void,
    count: i64,
    datatype: Datatype,
    kept: Option<Arc<Kept>>,
    code: c_int,
}

impl Section {
    /// Describes the buffer: as it is, if it is contiguous.
    ///
    /// # Safety
    /// The descriptor is whole.
    #[inline]
    pub unsafe fn of(descriptor: *const Descriptor, count: i64, datatype: Datatype) -> Self {
        // SAFETY: the caller's promise.
        let (descriptor, dimensions) = unsafe { (&*descriptor, (*descriptor).dimensions()) };
        let mut section = Self {
            at: address::buffer(descriptor.base),
            count,
            datatype,
            kept: None,
            code: 0,
        };
        if !is_contiguous(descriptor.element, dimensions) {
            section.describe(descriptor.element, dimensions);
        }
        section
    }

    #[inline(never)]
    fn describe(&mut self, element: usize, dimensions: &[Dimension]) {
        let items = Items {
            datatype: self.datatype,
            count: self.count,
            element,
        };
        match kept::or_made(items, dimensions, || describe(items, dimensions)) {
            Ok(kept) => {
                (self.datatype, self.count) = (kept.datatype(), 1);
                self.kept = Some(kept);
            }
            Err(0) => self.count = 0,
            Err(code) => self.code = code,
        }
    }

    #[inline]
    pub fn at(&self) -> *mut c_void {
        self.at
    }

    #[inline]
    pub fn count(&self) -> i64 {
        self.count
    }

    #[inline]
    pub fn datatype(&self) -> Datatype {
        self.datatype
    }

    #[inline]
    pub fn code(&self) -> c_int {
        self.code
    }
}

/// Makes the type of items in an array. An error of 0: there is no element.
fn describe(items: Items, dimensions: &[Dimension]) -> Result<Datatype, c_int> {
    // SAFETY: the places are those of the functions, and types are made of the program's type.
    let made = unsafe {
        let unit = unit(items.datatype, items.count, items.element as i64)?;
        prefix(&unit, dimensions, unit.count)?
    };
    let mut made = made.ok_or(0)?;
    // SAFETY: the type was just made.
    succeeded(unsafe { c::PMPI_Type_commit(&raw mut made) })?;
    Ok(made)
}

/// The datatype of one element of an array, and how many elements there are.
struct Unit {
    datatype: Datatype,
    is_made: bool,
    count: i64,
}

impl Drop for Unit {
    fn drop(&mut self) {
        if self.is_made {
            // SAFETY: the type is of this unit; types that are made of it keep it.
            unsafe { c::PMPI_Type_free(&raw mut self.datatype) };
        }
    }
}

/// Takes `count` items of a type for elements of an array.
///
/// # Safety
/// The C library is there.
unsafe fn unit(datatype: Datatype, count: i64, element: i64) -> Result<Unit, c_int> {
    let (mut size, mut lower, mut extent) = (0, 0, 0);
    // SAFETY: the places are those of this function.
    unsafe {
        succeeded(c::PMPI_Type_size_c(datatype, &raw mut size))?;
        succeeded(c::PMPI_Type_get_extent_c(
            datatype,
            &raw mut lower,
            &raw mut extent,
        ))?;
    }
    let of = |datatype: Datatype, is_made: bool, count: i64| {
        Ok(Unit {
            datatype,
            is_made,
            count,
        })
    };
    let is_dense = lower == 0 && size == extent && size > 0;
    if lower == 0 && extent == element || size == 0 || count == 0 {
        of(datatype, false, if size == 0 { 0 } else { count })
    } else if is_dense && element % size == 0 && count * size % element == 0 {
        // Several items in an element.
        let mut several = Datatype::NULL;
        // SAFETY: the place is that of this function.
        succeeded(unsafe {
            c::PMPI_Type_contiguous_c(element / size, datatype, &raw mut several)
        })?;
        of(several, true, count * size / element)
    } else if is_dense && size % element == 0 {
        // Several elements in an item: their bytes count.
        let mut bytes = Datatype::NULL;
        // SAFETY: the place is that of this function.
        succeeded(unsafe { c::PMPI_Type_contiguous_c(element, BYTE, &raw mut bytes) })?;
        of(bytes, true, count * size / element)
    } else {
        Err(ERR_TYPE)
    }
}

fn succeeded(code: c_int) -> Result<(), c_int> {
    match code {
        0 => Ok(()),
        code => Err(code),
    }
}

/// The type of the first `count` elements of an array, in their order. `None`: no element.
///
/// # Safety
/// The C library is there.
unsafe fn prefix(
    unit: &Unit,
    dimensions: &[Dimension],
    count: i64,
) -> Result<Option<Datatype>, c_int> {
    if count == 0 {
        return Ok(None);
    }
    let Some((last, before)) = dimensions.split_last() else {
        let mut same = Datatype::NULL;
        // SAFETY: the place is that of this function.
        succeeded(unsafe { c::PMPI_Type_dup(unit.datatype, &raw mut same) })?;
        return Ok(Some(same));
    };
    let slab: i64 = before
        .iter()
        .map(|dimension| dimension.extent as i64)
        .product();
    if slab == 0 {
        return Ok(None);
    }
    let (slabs, rest) = (count / slab, count % slab);
    let stride = last.stride as i64;
    let mut parts = Vec::new();
    if slabs > 0
        // SAFETY: as this function.
        && let Some(mut whole) = unsafe { prefix(unit, before, slab) }?
    {
        let mut all = Datatype::NULL;
        // SAFETY: the places are those of this function.
        let code = unsafe {
            let code = c::PMPI_Type_create_hvector_c(slabs, 1, stride, whole, &raw mut all);
            c::PMPI_Type_free(&raw mut whole);
            code
        };
        succeeded(code)?;
        parts.push((0, all));
    }
    // SAFETY: as this function.
    if let Some(part) = unsafe { prefix(unit, before, rest) }? {
        parts.push((slabs * stride, part));
    }
    if let [(0, one)] = parts[..] {
        return Ok(Some(one));
    }
    let mut places: Vec<i64> = parts.iter().map(|(place, _)| *place).collect();
    let mut types: Vec<Datatype> = parts.iter().map(|(_, datatype)| *datatype).collect();
    let mut ones = vec![1; parts.len()];
    let mut joined = Datatype::NULL;
    // SAFETY: each list has an element for each part.
    let code = unsafe {
        c::PMPI_Type_create_struct_c(
            parts.len() as i64,
            ones.as_mut_ptr(),
            places.as_mut_ptr(),
            types.as_mut_ptr(),
            &raw mut joined,
        )
    };
    for datatype in &mut types {
        // SAFETY: the type is of this function; the joined one keeps it.
        unsafe { c::PMPI_Type_free(datatype) };
    }
    succeeded(code).map(|()| Some(joined))
}

/// A buffer that must be contiguous.
pub struct Whole {
    at: *mut c_void,
    code: c_int,
}

impl Whole {
    /// The buffer, or an error.
    ///
    /// # Safety
    /// The descriptor is whole.
    #[inline]
    pub unsafe fn of(descriptor: *const Descriptor) -> Self {
        // SAFETY: the caller's promise.
        let (descriptor, dimensions) = unsafe { (&*descriptor, (*descriptor).dimensions()) };
        let is_contiguous = is_contiguous(descriptor.element, dimensions);
        Self {
            at: address::buffer(descriptor.base),
            code: if is_contiguous { 0 } else { ERR_BUFFER },
        }
    }

    #[inline]
    pub fn at(&self) -> *mut c_void {
        self.at
    }

    #[inline]
    pub fn code(&self) -> c_int {
        self.code
    }
}

/// A buffer of a call that is over when it returns: a contiguous copy, if it is not contiguous.
pub struct Copied<'a> {
    descriptor: &'a Descriptor,
    copy: Vec<u8>,
    is_written: bool,
}

impl Copied<'_> {
    /// The buffer, or its copy.
    ///
    /// # Safety
    /// The descriptor is whole, and its elements are there.
    #[inline]
    pub unsafe fn of(descriptor: *const Descriptor, is_written: bool) -> Self {
        // SAFETY: the caller's promise.
        let (descriptor, dimensions) = unsafe { (&*descriptor, (*descriptor).dimensions()) };
        let mut copied = Self {
            descriptor,
            copy: Vec::new(),
            is_written,
        };
        if !is_contiguous(descriptor.element, dimensions) {
            let elements: isize = dimensions
                .iter()
                .map(|dimension| dimension.extent)
                .product();
            copied.copy = vec![0; elements as usize * descriptor.element];
            // SAFETY: the caller's promise.
            unsafe { copied.exchange(false) };
        }
        copied
    }

    #[inline]
    pub fn at(&self) -> *mut c_void {
        match self.copy.is_empty() {
            true => address::buffer(self.descriptor.base),
            false => self.copy.as_ptr().cast_mut().cast(),
        }
    }

    #[inline]
    pub fn code(&self) -> c_int {
        0
    }

    /// Copies each element to the copy, or back.
    ///
    /// # Safety
    /// The elements are there.
    unsafe fn exchange(&mut self, is_back: bool) {
        let bytes = self.descriptor.element;
        // SAFETY: `of` has it as a promise.
        let dimensions = unsafe { self.descriptor.dimensions() };
        let mut at = vec![0; dimensions.len()];
        for element in self.copy.chunks_exact_mut(bytes) {
            let offsets = at.iter().zip(dimensions);
            let offset: isize = offsets.map(|(at, dimension)| at * dimension.stride).sum();
            // SAFETY: the caller's promise.
            unsafe {
                let place = self.descriptor.base.cast::<u8>().offset(offset);
                match is_back {
                    false => element.as_mut_ptr().copy_from_nonoverlapping(place, bytes),
                    true => place.copy_from_nonoverlapping(element.as_ptr(), bytes),
                }
            }
            for (at, dimension) in at.iter_mut().zip(dimensions) {
                *at += 1;
                if *at < dimension.extent {
                    break;
                }
                *at = 0;
            }
        }
    }
}

impl Drop for Copied<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.is_written && !self.copy.is_empty() {
            // SAFETY: the elements were there before the call.
            unsafe { self.exchange(true) }
        }
    }
}
