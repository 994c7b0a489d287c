//! C's descriptors of buffers (ISO_Fortran_binding.h), as far as compilers agree on them.

#![allow(unsafe_code, reason = "reads descriptors of the program")]

use core::ffi::{c_int, c_void};

/// The beginning of `CFI_cdesc_t`. Attribute and type, whose places differ, are not read.
#[repr(C)]
pub struct Descriptor {
    pub base: *mut c_void,
    /// Bytes of an element.
    pub element: usize,
    version: c_int,
    rank: i8,
    differs: [u8; 3],
    dimensions: [Dimension; 0],
}

/// One dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Dimension {
    lower_bound: isize,
    /// Number of elements; -1: the last of an array of assumed size.
    pub extent: isize,
    /// Bytes from one element to the next.
    pub stride: isize,
}

const _: () = assert!(size_of::<Descriptor>() == 24 && size_of::<Dimension>() == 24);

impl Descriptor {
    /// The dimensions, the first of which varies fastest.
    ///
    /// # Safety
    /// The descriptor is whole.
    #[inline]
    pub unsafe fn dimensions(&self) -> &[Dimension] {
        let first = (&raw const self.dimensions).cast::<Dimension>();
        // SAFETY: the caller's promise.
        unsafe { core::slice::from_raw_parts(first, self.rank.max(0) as usize) }
    }
}

/// Whether elements follow each other without gaps.
#[inline]
pub fn is_contiguous(element: usize, dimensions: &[Dimension]) -> bool {
    let mut bytes = element as isize;
    for dimension in dimensions {
        if dimension.stride != bytes && dimension.extent != 1 {
            // The last dimension of an array of assumed size, or nothing at all.
            return dimension.extent <= 0 || dimensions.iter().any(|it| it.extent == 0);
        }
        bytes *= dimension.extent;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dimensions(all: &[(isize, isize)]) -> Vec<Dimension> {
        let dimension = |&(extent, stride)| Dimension {
            lower_bound: 0,
            extent,
            stride,
        };
        all.iter().map(dimension).collect()
    }

    #[test]
    fn gaps_are_found() {
        for (all, expected) in [
            (&[][..], true),
            (&[(5, 4)], true),
            (&[(5, 8)], false),
            (&[(5, -4)], false),
            (&[(1, 99)], true),
            (&[(3, 4), (2, 12)], true),
            (&[(3, 4), (2, 16)], false),
            (&[(3, 4), (1, 16)], true),
            (&[(3, 4), (-1, 12)], true),
            (&[(0, 4), (7, 80)], true),
            (&[(3, 8), (0, 80)], true),
        ] {
            assert_eq!(is_contiguous(4, &dimensions(all)), expected, "{all:?}");
        }
    }
}
