//! Memory that ranks share by passing descriptors, as the launcher holds it: what
//! is on this host, or a word for what an agent holds on another.

use super::hosts::Arm;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;

/// See the [module](self). The memory is let go when the last of its clones is.
#[derive(Clone, Debug)]
pub enum Memory {
    /// Its descriptor.
    Here(Arc<OwnedFd>),
    /// On another host.
    There(Rc<Token>),
}

/// Stands for a descriptor that an agent holds.
#[derive(Debug)]
pub struct Token {
    arm: Arm,
    /// As the agent calls it.
    number: u64,
}

impl Memory {
    /// What came with a message of a rank of this host.
    pub fn here(descriptor: OwnedFd) -> Self {
        Self::Here(Arc::new(descriptor))
    }

    /// What came with a message of a rank of another host.
    pub fn there(arm: &Arm, number: u64) -> Self {
        let arm = arm.clone();
        Self::There(Rc::new(Token { arm, number }))
    }

    /// What the agent of `arm` calls it; `None`: it is not on that host.
    pub fn number_at(&self, arm: &Arm) -> Option<u64> {
        match self {
            Self::There(token) if token.arm.is(arm) => Some(token.number),
            _ => None,
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.arm.let_go(self.number);
    }
}
