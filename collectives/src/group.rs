//! A group as one of its members sees it.

/// A group of `size` places, numbered from 0, and the place of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Number of places, at least 1.
    pub size: u32,
    /// The caller's place.
    pub me: u32,
}

impl Group {
    /// The place `distance` above mine, around the ring of all places.
    pub fn above(self, distance: u32) -> u32 {
        let sum = u64::from(self.me) + u64::from(distance);
        u32::try_from(sum % u64::from(self.size)).expect("less than the size")
    }

    /// The place `distance` below mine, around the ring; `distance` is at most the size.
    pub fn below(self, distance: u32) -> u32 {
        self.above(self.size - distance)
    }

    /// The group with its places renumbered so that `root` is 0.
    pub fn seen_from(self, root: u32) -> Self {
        Self {
            me: self.below(root),
            ..self
        }
    }

    /// The place that has number `relative` in [`Self::seen_from`] `root`.
    pub fn place(self, relative: u32, root: u32) -> u32 {
        Self { me: root, ..self }.above(relative)
    }

    /// Rounds in which something that doubles reaches all places: log2 of the size, rounded up.
    pub fn doublings(self) -> u32 {
        self.size.next_power_of_two().trailing_zeros()
    }
}
