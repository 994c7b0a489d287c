//! Datatypes of array sections that were used last: programs exchange the same sections again and
//! again, and to make a type takes longer than a message.

#![allow(unsafe_code, reason = "frees datatypes of C")]

use super::c::{self, Datatype};
use super::descriptor::Dimension;
use core::ffi::c_int;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Types that are kept.
const MOST: usize = 16;

/// The numbers of predefined types. Others may be freed, and their handles may come again.
const PREDEFINED: usize = 1 << 10;

/// What a type describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Items {
    pub datatype: Datatype,
    pub count: i64,
    /// Bytes of an element.
    pub element: usize,
}

/// A type that is freed when nothing uses it any more.
pub struct Kept {
    items: Items,
    dimensions: Vec<Dimension>,
    made: Datatype,
}

impl Kept {
    pub fn datatype(&self) -> Datatype {
        self.made
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: the type is of this object, and operations that use it keep it.
        unsafe { c::PMPI_Type_free(&raw mut self.made) };
    }
}

/// The type that was used last is behind.
static LAST: Mutex<Vec<Arc<Kept>>> = Mutex::new(Vec::new());

fn last() -> MutexGuard<'static, Vec<Arc<Kept>>> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A type for items in an array: one that is kept, or the one that `make` makes.
pub fn or_made(
    items: Items,
    dimensions: &[Dimension],
    make: impl FnOnce() -> Result<Datatype, c_int>,
) -> Result<Arc<Kept>, c_int> {
    if let Some(kept) = found(items, dimensions) {
        return Ok(kept);
    }
    // Error handlers of the program may run here, and come back.
    let kept = Arc::new(Kept {
        items,
        dimensions: dimensions.to_vec(),
        made: make()?,
    });
    if items.datatype.0 < PREDEFINED {
        let mut last = last();
        if last.len() == MOST {
            last.remove(0);
        }
        last.push(Arc::clone(&kept));
    }
    Ok(kept)
}

/// A type that is kept.
fn found(items: Items, dimensions: &[Dimension]) -> Option<Arc<Kept>> {
    let mut last = last();
    let is_it = |kept: &Arc<Kept>| kept.items == items && kept.dimensions == dimensions;
    let place = last.iter().rposition(is_it)?;
    last[place..].rotate_left(1);
    last.last().map(Arc::clone)
}

/// Forgets all types: they were of a library that has ended.
pub fn forget() {
    last().drain(..).for_each(core::mem::forget);
}
