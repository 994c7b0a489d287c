//! Registered memory: what operations may be given, and what peers may reach.

use crate::constants::*;
use core::ops::BitOr;

/// What may be done with registered memory. Join with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access(u64);

impl Access {
    /// By operations of this endpoint, in all roles.
    pub const LOCAL: Self = Self(FI_SEND | FI_RECV | FI_READ | FI_WRITE);
    /// Peers may read it.
    pub const REMOTE_READ: Self = Self(FI_REMOTE_READ);
    /// Peers may write it.
    pub const REMOTE_WRITE: Self = Self(FI_REMOTE_WRITE);

    pub(crate) fn flags(self) -> u64 {
        self.0
    }

    pub(crate) fn is_local(self) -> bool {
        self.0 & Self::LOCAL.0 != 0
    }
}

impl BitOr for Access {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Names memory that was registered with one endpoint, as long as that is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MemoryId(pub(crate) u32);

/// Some bytes of registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Which.
    pub memory: MemoryId,
    /// From the beginning of what was registered, in bytes.
    pub offset: usize,
    /// How many.
    pub bytes: usize,
}

/// What a peer needs to read or write registered memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteMemory {
    /// The key.
    pub key: u64,
    /// What an offset is added to: the virtual address where the provider works
    /// with those (`FI_MR_VIRT_ADDR`), else 0.
    pub base: u64,
}
