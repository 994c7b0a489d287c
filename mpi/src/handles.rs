//! Objects by handle. A handle is the same number in each life, since it follows from the calls
//! before it, and a stale one is found.

/// Handles of the program's objects begin here: lower numbers are those of the ABI.
const FIRST: usize = 1 << 12;
const INDEX_BITS: u32 = 20;
/// Handles fit a positive `int`, as Fortran needs it.
const GENERATIONS: usize = (1 << (31 - INDEX_BITS)) - 1;

/// Objects of one kind.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
}

#[derive(Debug)]
struct Slot<T> {
    generation: usize,
    object: Option<T>,
}

impl<T> Table<T> {
    pub const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Number of objects.
    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds an object; returns its handle. `None`: a million objects exist.
    #[inline]
    pub fn add(&mut self, object: T) -> Option<usize> {
        self.add_with(|| object)
    }

    /// As [`add`](Self::add), of an object that is made in its place.
    #[inline(always)]
    pub fn add_with(&mut self, object: impl FnOnce() -> T) -> Option<usize> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow()?,
        };
        let slot = &mut self.slots[index];
        slot.object.get_or_insert_with(object);
        Some((slot.generation << INDEX_BITS) + FIRST + index)
    }

    /// Adds a slot, which the caller uses. `None`: there are as many as handles can name.
    #[cold]
    fn grow(&mut self) -> Option<usize> {
        let index = self.slots.len();
        if index + FIRST >= 1 << INDEX_BITS {
            return None;
        }
        self.slots.push(Slot {
            generation: 0,
            object: None,
        });
        Some(index)
    }

    #[inline]
    fn index(handle: usize) -> usize {
        (handle & ((1 << INDEX_BITS) - 1)).wrapping_sub(FIRST)
    }

    #[inline]
    pub fn get(&self, handle: usize) -> Option<&T> {
        let slot = self.slots.get(Self::index(handle))?;
        let object = slot.object.as_ref();
        object.filter(|_| slot.generation == handle >> INDEX_BITS)
    }

    #[inline]
    pub fn get_mut(&mut self, handle: usize) -> Option<&mut T> {
        let slot = self.slots.get_mut(Self::index(handle))?;
        let object = slot.object.as_mut();
        object.filter(|_| slot.generation == handle >> INDEX_BITS)
    }

    pub fn remove(&mut self, handle: usize) -> Option<T> {
        self.free(handle)?.object.take()
    }

    /// Removes an object without moving it.
    #[inline]
    pub fn discard(&mut self, handle: usize) {
        if let Some(slot) = self.free(handle) {
            slot.object = None;
        }
    }

    /// Removes an object if `empty` says so, after it has left nothing of it to drop. Returns whether it
    /// has.
    #[inline(always)]
    pub fn discard_emptied(&mut self, handle: usize, empty: impl FnOnce(&mut T) -> bool) -> bool {
        if !self.get_mut(handle).is_some_and(empty) {
            return false;
        }
        if let Some(slot) = self.free(handle) {
            core::mem::forget(slot.object.take());
        }
        true
    }

    /// Frees the slot of an object, which the caller takes out.
    #[inline(always)]
    fn free(&mut self, handle: usize) -> Option<&mut Slot<T>> {
        let index = Self::index(handle);
        let slot = self.slots.get_mut(index)?;
        if slot.object.is_none() || slot.generation != handle >> INDEX_BITS {
            return None;
        }
        slot.generation = match slot.generation + 1 {
            GENERATIONS => 0,
            next => next,
        };
        self.free.push(index);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stale_handle_is_found_and_numbers_repeat() {
        let mut table = Table::new();
        let first = table.add('a').unwrap();
        assert_eq!(first, FIRST);
        assert_eq!(table.remove(first), Some('a'));
        let second = table.add('b').unwrap();
        assert_ne!(first, second);
        assert_eq!((table.get(first), table.get(second)), (None, Some(&'b')));
        assert_eq!(table.remove(first), None);
        for _ in 0..3 * GENERATIONS {
            let handle = table.add('c').unwrap();
            assert!(i32::try_from(handle).is_ok() && handle >= FIRST);
            assert_eq!(table.remove(handle), Some('c'));
        }
        for handle in [0, 1, FIRST - 1, usize::MAX] {
            assert_eq!(table.get(handle), None);
        }
    }
}
