//! What C holds of requests and messages: numbers, and a table that knows which of
//! them are still good.

/// `refrain_request` and `refrain_message` of the header. All zeros: null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Handle {
    /// Of everything that was ever in the table, from 1: no number comes again.
    serial: u64,
    slot: u64,
}

impl Handle {
    pub const NULL: Self = Self { serial: 0, slot: 0 };

    pub fn is_null(self) -> bool {
        self.serial == 0
    }
}

/// Values by handle.
#[derive(Debug)]
pub struct Table<T> {
    slots: Vec<Slot<T>>,
    free: Vec<usize>,
    next_serial: u64,
}

#[derive(Debug)]
struct Slot<T> {
    serial: u64,
    /// `None`: free, or lent to a call.
    value: Option<T>,
}

impl<T> Table<T> {
    pub fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            next_serial: 1,
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn insert(&mut self, value: T) -> Handle {
        let serial = self.next_serial;
        self.next_serial += 1;
        let slot = Slot {
            serial,
            value: Some(value),
        };
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        let slot = index as u64;
        Handle { serial, slot }
    }

    /// Lends the value of a handle, which keeps its place: `None` if there is none
    /// (any more), or it is lent already.
    pub fn lend(&mut self, handle: Handle) -> Option<T> {
        self.slot(handle)?.value.take()
    }

    /// Gives back what was lent.
    pub fn give_back(&mut self, handle: Handle, value: T) {
        if let Some(slot) = self.slot(handle) {
            slot.value = Some(value);
        }
    }

    /// What was lent is over, and its handle with it.
    pub fn end(&mut self, handle: Handle) {
        if let Some(slot) = self.slot(handle) {
            slot.serial = Handle::NULL.serial;
            slot.value = None;
            self.free.push(handle.slot as usize);
        }
    }

    fn slot(&mut self, handle: Handle) -> Option<&mut Slot<T>> {
        let index = usize::try_from(handle.slot).ok()?;
        let slot = self.slots.get_mut(index)?;
        (!handle.is_null() && slot.serial == handle.serial).then_some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_good_until_its_end() {
        let mut table = Table::new();
        let (first, second) = (table.insert('a'), table.insert('b'));
        assert_eq!(table.count(), 2);
        assert_eq!(table.lend(first), Some('a'));
        assert_eq!(table.lend(first), None, "lent");
        assert_eq!(table.count(), 2);
        table.give_back(first, 'c');
        assert_eq!(table.lend(first), Some('c'));
        table.end(first);
        table.end(first);
        assert_eq!((table.count(), table.lend(first)), (1, None));
        assert_eq!(table.lend(second), Some('b'));
    }

    #[test]
    fn a_place_that_is_used_again_does_not_know_old_handles() {
        let mut table = Table::new();
        let old = table.insert('a');
        table.end(old);
        let new = table.insert('b');
        assert_eq!((old.slot, table.slots.len()), (new.slot, 1));
        assert_eq!(table.lend(old), None);
        table.end(old);
        table.give_back(old, 'x');
        assert_eq!(table.lend(new), Some('b'));
    }

    #[test]
    fn null_and_invented_handles_are_nothing() {
        let mut table = Table::new();
        assert_eq!(table.lend(Handle::NULL), None);
        let only = table.insert('a');
        table.end(only);
        assert_eq!(table.lend(Handle::NULL), None, "of a free place");
        let slot = u64::MAX;
        assert_eq!(table.lend(Handle { serial: 1, slot }), None);
    }
}
