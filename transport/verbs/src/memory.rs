//! Registered memory: what operations may be given, and what peers may reach.

use crate::sys::constants::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE,
};
use core::ops::BitOr;

/// What may be done with registered memory. Join with `|`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access(u32);

impl Access {
    /// By operations of this endpoint, in all roles.
    pub const LOCAL: Self = Self(IBV_ACCESS_LOCAL_WRITE);
    /// Peers may read it.
    pub const REMOTE_READ: Self = Self(IBV_ACCESS_REMOTE_READ);
    /// Peers may write it. They may read it too: a write is known to be placed by
    /// a read behind it. Devices demand that it is locally writable as well.
    pub const REMOTE_WRITE: Self =
        Self(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE);

    /// As `ibv_reg_mr(3)` takes them.
    pub(crate) fn flags(self) -> u32 {
        self.0
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
    /// The remote key, in the low 32 bits.
    pub key: u64,
    /// What an offset is added to: the virtual address.
    pub base: u64,
}
