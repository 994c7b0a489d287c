//! Identity of the host of a rank.

use crate::JobError;
use std::fs;
use std::os::unix::fs::MetadataExt;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const NETWORK_NAMESPACE: &str = "/proc/self/ns/net";

/// Set by agents: number of the ranks' host in the job, from 1.
pub const HOST_VARIABLE: &str = "REFRAIN_HOST";

/// Identity that ranks on one host share: the boot of the kernel, the network namespace, and the
/// agent that has started them. A namespace counts as a host: its ranks have their own network
/// addresses, as containers have, and reach other ranks by them. Ranks that two agents have
/// started on one machine also count as on two hosts: memory is not passed between agents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostIdentity {
    boot: u128,
    /// The kernel numbers namespaces with 32 bits.
    network_namespace: u32,
    /// 0: started by the launcher itself.
    agent: u32,
}

impl HostIdentity {
    /// Bytes of an encoded identity.
    pub const BYTES: usize = 24;

    /// The host that this process runs on.
    ///
    /// # Errors
    /// `/proc` does not have the identity.
    pub fn of_this_process() -> Result<Self, JobError> {
        let failed = |path: &str, error| {
            JobError::control(
                format!("finding out which host this rank runs on ({path})"),
                error,
            )
        };
        let text = fs::read_to_string(BOOT_ID).map_err(|error| failed(BOOT_ID, error))?;
        let boot = boot_of(&text).ok_or_else(|| {
            let error = std::io::Error::new(std::io::ErrorKind::InvalidData, format!("{text:?}"));
            failed(BOOT_ID, error)
        })?;
        let namespace = fs::metadata(NETWORK_NAMESPACE)
            .map_err(|error| failed(NETWORK_NAMESPACE, error))?
            .ino();
        let agent = std::env::var(HOST_VARIABLE).ok();
        Ok(Self {
            boot,
            network_namespace: namespace as u32,
            agent: agent.and_then(|agent| agent.parse().ok()).unwrap_or(0),
        })
    }

    /// Identifies the boot of the kernel.
    pub fn boot(self) -> u128 {
        self.boot
    }

    /// Encodes the identity.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..16].copy_from_slice(&self.boot.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.network_namespace.to_le_bytes());
        bytes[20..].copy_from_slice(&self.agent.to_le_bytes());
        bytes
    }

    /// Decodes an identity. Any bytes are valid.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Self {
        let (boot, rest) = bytes.split_at(16);
        let (namespace, agent) = rest.split_at(4);
        Self {
            boot: u128::from_le_bytes(boot.try_into().expect("16 bytes")),
            network_namespace: u32::from_le_bytes(namespace.try_into().expect("4 bytes")),
            agent: u32::from_le_bytes(agent.try_into().expect("4 bytes")),
        }
    }
}

/// The hosts of ranks by rank, of all hosts, and rows of ranks on one host: the index of the host,
/// and the number of ranks. `None`: they are not the hosts of `size` ranks.
pub fn by_rank(hosts: &[Vec<u8>], rows: &[(u32, u32)], size: u32) -> Option<Vec<HostIdentity>> {
    let count: u64 = rows.iter().map(|(_, count)| u64::from(*count)).sum();
    if count != u64::from(size) {
        return None;
    }
    let mut of_ranks = Vec::with_capacity(size as usize);
    for (index, count) in rows {
        let host = hosts.get(*index as usize)?;
        let host = HostIdentity::decode(host.as_slice().try_into().ok()?);
        of_ranks.extend(core::iter::repeat_n(host, *count as usize));
    }
    Some(of_ranks)
}

/// As [`by_rank`] reads it: all hosts, and rows of ranks.
pub fn rows_of<T: PartialEq + Clone>(of_ranks: &[T]) -> (Vec<T>, Vec<(u32, u32)>) {
    let (mut hosts, mut rows): (Vec<T>, Vec<(u32, u32)>) = (Vec::new(), Vec::new());
    for host in of_ranks {
        // Most ranks are on the host of the rank before.
        let last = rows.last().map(|(index, _)| *index as usize);
        let is_same = |index: &usize| hosts[*index] == *host;
        let known = last.filter(is_same);
        let index = known.or_else(|| hosts.iter().position(|it| it == host));
        let index = index.unwrap_or(hosts.len());
        if index == hosts.len() {
            hosts.push(host.clone());
        }
        match rows.last_mut() {
            Some((of, count)) if *of as usize == index => *count += 1,
            _ => rows.push((index as u32, 1)),
        }
    }
    (hosts, rows)
}

/// Parses a number such as `4c1a1e52-…-9d7e2b1f0c55`.
fn boot_of(text: &str) -> Option<u128> {
    let digits: String = text.trim().split('-').collect();
    let is_whole = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_whole
        .then(|| u128::from_str_radix(&digits, 16).ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_give_the_host_of_each_rank() {
        for hosts in ["a", "aab", "abab", "aabbacc"] {
            let of_ranks: Vec<Vec<u8>> = hosts.bytes().map(|letter| vec![letter; 24]).collect();
            let (all, rows) = rows_of(&of_ranks);
            let size = hosts.len() as u32;
            let read = by_rank(&all, &rows, size).expect("they are of this many ranks");
            let encoded: Vec<Vec<u8>> = read.iter().map(|host| host.encode().into()).collect();
            assert_eq!(encoded, of_ranks);
            assert_eq!(by_rank(&all, &rows, size + 1), None);
            assert_eq!(by_rank(&all[1..], &[(7, size)], size), None);
        }
        let hosts = [vec![0; 23]];
        assert_eq!(by_rank(&hosts, &[(0, 1)], 1), None, "it has too few bytes");
    }

    #[test]
    fn this_process_is_where_it_is() {
        let here = HostIdentity::of_this_process().unwrap();
        assert_eq!(here, HostIdentity::of_this_process().unwrap());
        assert_ne!(here.boot, 0);
        assert_ne!(here.network_namespace, 0);
    }

    #[test]
    fn boot_namespace_and_agent_tell_hosts_apart() {
        let host = |boot, network_namespace, agent| HostIdentity {
            boot,
            network_namespace,
            agent,
        };
        let here = host(u128::MAX - 7, 4_026_531_840, 1);
        assert_eq!(HostIdentity::decode(&here.encode()), here);
        for other in [
            host(7, 4_026_531_840, 1),
            host(u128::MAX - 7, 4_026_531_841, 1),
            host(u128::MAX - 7, 4_026_531_840, 2),
        ] {
            assert_ne!(other, here);
            assert_ne!(HostIdentity::decode(&other.encode()), here);
        }
    }

    #[test]
    fn a_boot_id_is_read_or_refused() {
        assert_eq!(boot_of("00000000-0000-0000-0000-0000000000ff\n"), Some(255));
        for text in [
            "",
            "x",
            "00000000-0000-0000-0000-0000000000",
            "+".repeat(32).as_str(),
        ] {
            assert_eq!(boot_of(text), None, "{text:?}");
        }
    }
}
