//! Lists whose elements have another size in C: short ones need no memory of the heap.

#![allow(unsafe_code, reason = "reads and writes lists of the program")]

use super::handle::Handle;
use core::ffi::c_int;
use core::mem::MaybeUninit;
use std::sync::Mutex;

/// Elements of a list on the stack.
const FEW: usize = 64;

/// A list for C.
pub struct List<T> {
    few: [MaybeUninit<T>; FEW],
    many: Vec<T>,
    length: usize,
}

impl<T: Copy> List<T> {
    /// A list of elements; a negative length is none.
    #[inline]
    pub fn made(length: i64, element: impl Fn(usize) -> T) -> Self {
        let length = usize::try_from(length).unwrap_or(0);
        let mut list = Self {
            few: [const { MaybeUninit::uninit() }; FEW],
            many: Vec::new(),
            length,
        };
        match length <= FEW {
            true => {
                for (index, place) in list.few[..length].iter_mut().enumerate() {
                    place.write(element(index));
                }
            }
            false => list.many = (0..length).map(element).collect(),
        }
        list
    }

    /// The place of the first element.
    #[inline]
    pub fn at(&mut self) -> *mut T {
        match self.length <= FEW {
            true => self.few.as_mut_ptr().cast(),
            false => self.many.as_mut_ptr(),
        }
    }

    /// The elements.
    pub fn elements(&mut self) -> &[T] {
        let at = self.at();
        // SAFETY: `made` has written `length` elements.
        unsafe { core::slice::from_raw_parts(at, self.length) }
    }
}

/// The handles of the program's list.
///
/// # Safety
/// The list has that many.
#[inline]
pub unsafe fn handles<T: Handle>(list: *mut c_int, length: i64) -> List<T> {
    // SAFETY: the caller's promise.
    List::made(length, |index| unsafe {
        T::from_int(list.add(index).read())
    })
}

/// A list for handles that C gives.
pub fn room_for_handles<T: Handle>(_: *mut c_int, length: i64) -> List<T> {
    List::made(length, |_| T::NULL)
}

/// Writes the handles to the program's list.
///
/// # Safety
/// The list has room for them.
#[inline]
pub unsafe fn put_handles<T: Handle>(to: *mut c_int, list: &mut List<T>) {
    for (index, handle) in list.elements().iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { to.add(index).write(handle.to_int()) }
    }
}

/// Lists that operations may read until they end.
static KEPT: Mutex<Vec<Box<[usize]>>> = Mutex::new(Vec::new());

/// A list of handles that stays: equal ones are kept once.
pub fn kept<T: Handle>(mut list: List<T>) -> *mut T {
    const { assert!(size_of::<T>() == size_of::<usize>()) }
    let elements = list.elements();
    // SAFETY: a handle is a number of this size.
    let numbers: &[usize] =
        unsafe { core::slice::from_raw_parts(elements.as_ptr().cast(), elements.len()) };
    let mut kept = KEPT.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let found = kept.iter().position(|list| **list == *numbers);
    let index = found.unwrap_or_else(|| {
        kept.push(numbers.into());
        kept.len() - 1
    });
    kept[index].as_ptr().cast_mut().cast()
}
