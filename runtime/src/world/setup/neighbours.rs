//! The ranks on this host, and which ranks on other hosts greet each other. Pure.

use refrain_job::control::host::HostIdentity;
use refrain_ring::Rank;
use refrain_transport::fabric::mixed::Side;

/// The hosts of all ranks of a job.
#[derive(Clone, Debug)]
pub(super) struct Neighbours {
    /// By rank.
    hosts: Vec<HostIdentity>,
}

impl Neighbours {
    /// # Panics
    /// When there are no ranks.
    pub(super) fn new(hosts: Vec<HostIdentity>) -> Self {
        assert!(!hosts.is_empty(), "a job has ranks");
        Self { hosts }
    }

    /// The side of each rank, as seen from `rank`.
    pub(super) fn sides(&self, rank: Rank) -> Vec<Side> {
        let own = self.hosts[rank.index()];
        let side = |host: &HostIdentity| {
            if *host == own { Side::Near } else { Side::Far }
        };
        self.hosts.iter().map(side).collect()
    }

    /// Whether two ranks are on different hosts.
    pub(super) fn are_apart(&self, one: Rank, other: Rank) -> bool {
        self.hosts[one.index()] != self.hosts[other.index()]
    }

    /// A rank on another host than that of `rank`, if there is one.
    pub(super) fn stranger_to(&self, rank: Rank) -> Option<Rank> {
        let own = self.hosts[rank.index()];
        let index = self.hosts.iter().position(|host| *host != own)?;
        Some(Rank(index as u32))
    }

    /// Number of pairs of ranks on one host, and of pairs on two hosts.
    pub(super) fn pairs(&self) -> (u64, u64) {
        let pairs = |ranks: u64| ranks * ranks.saturating_sub(1) / 2;
        let mut ranks_of: Vec<(HostIdentity, u64)> = Vec::new();
        for host in &self.hosts {
            match ranks_of.iter_mut().find(|(of, _)| of == host) {
                Some((_, ranks)) => *ranks += 1,
                None => ranks_of.push((*host, 1)),
            }
        }
        let near: u64 = ranks_of.iter().map(|(_, ranks)| pairs(*ranks)).sum();
        (near, pairs(self.hosts.len() as u64) - near)
    }
}

/// The rank that a rank greets at the start, and the ranks that greet it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Greetings {
    pub(super) to: Option<Rank>,
    pub(super) from: Vec<Rank>,
}

impl Greetings {
    /// All of them, each once.
    pub(super) fn ranks(&self) -> Vec<Rank> {
        let others = self.from.iter().filter(|from| Some(**from) != self.to);
        self.to.iter().chain(others).copied().collect()
    }
}

/// Each rank greets the next higher one (cyclically) that it reaches by the fabric between hosts,
/// as `is_far` reports for two ranks.
pub(super) fn greetings(rank: Rank, size: u32, is_far: impl Fn(Rank, Rank) -> bool) -> Greetings {
    let next_of = |rank: u32| {
        (1..size)
            .map(|step| Rank((rank + step) % size))
            .find(|other| is_far(Rank(rank), *other))
    };
    Greetings {
        to: next_of(rank.0),
        from: (0..size)
            .filter(|other| next_of(*other) == Some(rank))
            .map(Rank)
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks whose hosts are named by letters.
    fn on(hosts: &str) -> Neighbours {
        let host = |letter| HostIdentity::decode(&[letter; HostIdentity::BYTES]);
        Neighbours::new(hosts.bytes().map(host).collect())
    }

    #[test]
    fn a_rank_is_near_on_the_same_host() {
        let ranks = on("aabab");
        let (near, far) = (Side::Near, Side::Far);
        assert_eq!(ranks.sides(Rank(1)), [near, near, far, near, far]);
        assert_eq!(ranks.sides(Rank(4)), [far, far, near, far, near]);
        assert_eq!(ranks.stranger_to(Rank(0)), Some(Rank(2)));
        assert_eq!(on("aaa").stranger_to(Rank(1)), None);
    }

    #[test]
    fn each_pair_is_counted_once() {
        assert_eq!(on("aabab").pairs(), (4, 6));
        assert_eq!(on("aaaa").pairs(), (6, 0));
        assert_eq!(on("a").pairs(), (0, 0));
    }

    #[test]
    fn every_greeting_has_two_ends_and_leads_far() {
        for hosts in ["a", "ab", "aabb", "aabab", "abcabc", "aaab", "aaaa"] {
            let ranks = on(hosts);
            let size = hosts.len() as u32;
            let is_far = |one: Rank, other: Rank| ranks.sides(one)[other.index()] == Side::Far;
            let all: Vec<Greetings> = (0..size)
                .map(|rank| greetings(Rank(rank), size, is_far))
                .collect();
            for (rank, own) in (0..size).map(Rank).zip(&all) {
                let has_far = ranks.stranger_to(rank).is_some();
                assert_eq!(own.to.is_some(), has_far, "{hosts}");
                if let Some(to) = own.to {
                    assert!(is_far(rank, to), "{hosts}");
                    assert!(all[to.index()].from.contains(&rank), "{hosts}");
                }
                for from in &own.from {
                    assert_eq!(all[from.index()].to, Some(rank), "{hosts}");
                }
            }
        }
        let ring = greetings(Rank(2), 3, |one, other| one != other);
        assert_eq!((ring.to, ring.from), (Some(Rank(0)), vec![Rank(1)]));
    }
}
