//! Memory that is registered for operations of an endpoint and of its peers.

use core::ops::BitOr;

/// Access to registered memory. Combine values with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Operations of this endpoint may use it.
    pub const LOCAL: Self = Self(1);
    /// Peers may read it.
    pub const REMOTE_READ: Self = Self(2);
    /// Peers may write it; with verbs they may read it, too.
    pub const REMOTE_WRITE: Self = Self(4);

    /// Whether it includes all access that `other` allows.
    pub const fn allows(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Names memory that is registered with one endpoint, as long as the endpoint is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryId(u32);

impl MemoryId {
    /// The id of registration number `index`, for a region of `bytes` bytes.
    ///
    /// # Errors
    /// The reason, as text, why the region cannot be registered.
    pub fn of_registration(index: usize, bytes: usize) -> Result<Self, &'static str> {
        if bytes == 0 {
            return Err("the region is empty");
        }
        u32::try_from(index)
            .map(Self)
            .map_err(|_| "too many registrations")
    }

    /// The number of the registration.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A range of bytes in registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// The registered memory.
    pub memory: MemoryId,
    /// Offset from the beginning of the registered memory, in bytes.
    pub offset: usize,
    /// Length in bytes.
    pub bytes: usize,
}

impl Part {
    /// Whether the part is within `memory_bytes` bytes of memory.
    #[inline]
    pub const fn is_within(&self, memory_bytes: usize) -> bool {
        self.bytes <= memory_bytes && self.offset <= memory_bytes - self.bytes
    }
}

/// The key and address with which a peer reads or writes registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RemoteMemory {
    /// The key; with verbs, of 32 bits.
    pub key: u64,
    /// The address of the first byte: virtual, or 0 if a provider of libfabric works without
    /// virtual addresses (`FI_MR_VIRT_ADDR`).
    pub base: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_joined_allows_both() {
        let both = Access::LOCAL | Access::REMOTE_READ;
        assert!(both.allows(Access::LOCAL) && both.allows(Access::REMOTE_READ));
        assert!(!both.allows(Access::REMOTE_WRITE));
        assert!(!Access::LOCAL.allows(both));
    }

    #[test]
    fn parts_are_within_memory_or_not() {
        let memory = MemoryId::of_registration(0, 1).unwrap();
        for (offset, bytes, is_within) in [
            (0, 10, true),
            (10, 0, true),
            (4, 6, true),
            (4, 7, false),
            (11, 0, false),
            (0, 11, false),
            (usize::MAX, 2, false),
            (2, usize::MAX, false),
        ] {
            let part = Part {
                memory,
                offset,
                bytes,
            };
            assert_eq!(part.is_within(10), is_within, "{part:?}");
        }
    }

    #[test]
    fn an_empty_region_cannot_be_registered() {
        let words = MemoryId::of_registration(0, 0).unwrap_err();
        assert!(words.contains("empty"), "{words}");
    }
}
