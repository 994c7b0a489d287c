//! Providers whose completions mean delivery complete.

/// Name of the provider that uses libibverbs instead of libfabric.
pub const VERBS: &str = "verbs";

/// The meaning of a completion of an RMA write with delivery complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// The bytes are in the target's memory. A write that the target does not
    /// take, because its access was revoked, has no completion. EL-1, FENCE-1
    Honoured,
    /// The completion may come before the bytes are in the target's memory.
    Unknown,
}

impl Delivery {
    /// The behaviour of a provider (`libfabric`'s name, layers joined by `;`) as measured with
    /// libfabric 1.17 and 2.5: the tests of `refrain-libfabric` and those in
    /// `eventlog/tests/remote` read the target's memory when the completion comes. The
    /// documents of libfabric promise delivery complete for more providers than honour it.
    pub fn of(provider: &str) -> Self {
        let layers: Vec<&str> = provider.split(';').collect();
        match layers[..] {
            ["tcp" | "net"] => Self::Honoured,
            // These providers ignore it for messages, but honour it for writes.
            ["tcp" | "net", "ofi_rxm"] => Self::Honoured,
            // Not libfabric's provider of that name, which was not tested, but verbs
            // directly: a read of the last bytes follows each write, and its completion
            // counts as the write's. A queue pair executes both in this order, and devices
            // read what they have written.
            [VERBS] => Self::Honoured,
            // Not `shm`: libfabric 2.5 completes writes that the target has refused. Within
            // a host, stores into the ring are faster anyway. Not `sockets`: it loses
            // completions under load and does not wake the logger.
            _ => Self::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_measured_is_believed() {
        for provider in ["tcp", "net", "tcp;ofi_rxm", "net;ofi_rxm", "verbs"] {
            assert_eq!(Delivery::of(provider), Delivery::Honoured, "{provider}");
        }
        for provider in [
            "",
            "shm",
            "sockets",
            "verbs;ofi_rxm",
            "udp;ofi_rxd",
            "ofi_rxm",
            "efa",
            "tcp;ofi_hook_noop",
            "TCP",
        ] {
            assert_eq!(Delivery::of(provider), Delivery::Unknown, "{provider}");
        }
    }
}
