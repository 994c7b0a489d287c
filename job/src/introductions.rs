//! Which ranks were introduced to each other: two ranks are, when one of them has something to send
//! to the other. Pure.
//!
//! No message passes between two ranks that were not introduced. So a rank that dies may have
//! communicated with the ranks that were introduced to it, and with no other: the launcher reports
//! its death and its next life to these ranks only. REC-3
//!
//! The launcher sends a rank the address of a peer when both have put their addresses, once for each
//! life of the peer and of the rank.

use std::collections::BTreeSet;

/// State of a rank, as peers need it.
#[derive(Clone, Copy, Debug)]
pub struct PeerState {
    /// It has joined the job and has not left it.
    pub is_member: bool,
    /// It has put its address.
    pub has_address: bool,
}

impl PeerState {
    /// Whether this rank gets the address of `other`, given that they are introduced.
    fn hears_of(&self, other: &PeerState) -> bool {
        self.is_member && self.has_address && other.has_address
    }
}

/// The introductions of a job.
#[derive(Debug)]
pub enum Introductions {
    /// All ranks are introduced to each other at the start.
    All,
    /// By rank: the ranks that were introduced to it.
    Asked(Vec<BTreeSet<u32>>),
}

impl Introductions {
    /// `all`: whether all ranks are introduced at the start.
    pub fn new(ranks: usize, all: bool) -> Self {
        match all {
            true => Self::All,
            false => Self::Asked(vec![BTreeSet::new(); ranks]),
        }
    }

    /// Whether two ranks are introduced.
    pub fn have_met(&self, one: usize, other: usize) -> bool {
        match self {
            Self::All => true,
            Self::Asked(met) => met[one].contains(&(other as u32)),
        }
    }

    /// Two ranks were introduced before any of them was started, in an earlier run of the job. JOB-8
    pub fn note(&mut self, (one, other): (u32, u32)) {
        if let Self::Asked(met) = self {
            met[one as usize].insert(other);
            met[other as usize].insert(one);
        }
    }

    /// Number of pairs of ranks that are introduced, of a job of this size.
    pub fn pairs(&self, size: usize) -> usize {
        match self {
            Self::All => size * size.saturating_sub(1) / 2,
            Self::Asked(met) => met.iter().map(BTreeSet::len).sum::<usize>() / 2,
        }
    }

    /// Introduces two ranks. Returns pairs of a rank to tell and the peer that it can reach.
    pub fn introduce(
        &mut self,
        ranks: impl Fn(usize) -> PeerState,
        (one, other): (usize, usize),
    ) -> Vec<(usize, usize)> {
        let Self::Asked(met) = self else {
            return Vec::new();
        };
        if one == other || !met[one].insert(other as u32) {
            return Vec::new();
        }
        met[other].insert(one as u32);
        both_ways(ranks, one, other).collect()
    }

    /// The ranks that were introduced to `rank`, in their order.
    pub fn of(&self, rank: usize, size: usize) -> Vec<usize> {
        match self {
            Self::All => (0..size).filter(|other| *other != rank).collect(),
            Self::Asked(met) => met[rank].iter().map(|other| *other as usize).collect(),
        }
    }

    /// As [`of`](Self::of); `None`: all ranks are introduced at the start.
    pub fn asked(&self, rank: usize) -> Option<Vec<u32>> {
        match self {
            Self::All => None,
            Self::Asked(met) => Some(met[rank].iter().copied().collect()),
        }
    }

    /// After `rank` has put its address: pairs of a rank to tell and the peer that it can reach.
    pub fn after_address(
        &self,
        ranks: impl Fn(usize) -> PeerState + Copy,
        rank: usize,
        size: usize,
    ) -> Vec<(usize, usize)> {
        let peers = self.of(rank, size).into_iter();
        peers
            .flat_map(|other| both_ways(ranks, rank, other))
            .collect()
    }

    /// After the death of `rank`: the ranks to which the launcher reports it.
    pub fn after_death(
        &self,
        ranks: impl Fn(usize) -> PeerState,
        rank: usize,
        size: usize,
    ) -> Vec<usize> {
        let mut peers = self.of(rank, size);
        peers.retain(|other| ranks(*other).is_member);
        peers
    }
}

fn both_ways(
    ranks: impl Fn(usize) -> PeerState,
    one: usize,
    other: usize,
) -> impl Iterator<Item = (usize, usize)> {
    let pairs = [(other, one), (one, other)];
    let told = move |(who, of): &(usize, usize)| ranks(*who).hears_of(&ranks(*of));
    pairs.into_iter().filter(told)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// An event of one rank.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Join,
        PutAddress,
        Meet(usize),
        Die,
    }

    /// A job, and which life of a peer each rank knows: by (rank, peer).
    struct Played {
        ranks: Vec<(PeerState, u32)>,
        introductions: Introductions,
        known: HashMap<(usize, usize), u32>,
        /// The pairs that may have communicated.
        may_have: BTreeSet<(usize, usize)>,
    }

    impl Played {
        fn new(ranks: usize, all: bool) -> Self {
            let state = PeerState {
                is_member: false,
                has_address: false,
            };
            Self {
                ranks: vec![(state, 0); ranks],
                introductions: Introductions::new(ranks, all),
                known: HashMap::new(),
                may_have: BTreeSet::new(),
            }
        }

        fn tell(&mut self, pairs: Vec<(usize, usize)>) {
            for (who, of) in pairs {
                let life = self.ranks[of].1;
                let before = self.known.insert((who, of), life);
                assert_ne!(
                    before,
                    Some(life),
                    "rank {who} gets the address of each life of rank {of} once"
                );
                self.may_have.extend([(who, of), (of, who)]);
            }
        }

        fn step(&mut self, rank: usize, step: Step) {
            let size = self.ranks.len();
            let state = self.ranks[rank].0;
            match step {
                Step::Join => self.ranks[rank].0.is_member = true,
                Step::PutAddress if state.is_member && !state.has_address => {
                    self.ranks[rank].0.has_address = true;
                    let ranks = self.ranks.clone();
                    let told = (self.introductions).after_address(|it| ranks[it].0, rank, size);
                    self.tell(told);
                }
                Step::Meet(other) if state.is_member && state.has_address => {
                    let ranks = self.ranks.clone();
                    let told = (self.introductions).introduce(|it| ranks[it].0, (rank, other));
                    self.tell(told);
                }
                Step::Die => {
                    let ranks = self.ranks.clone();
                    let told = (self.introductions).after_death(|it| ranks[it].0, rank, size);
                    // REC-3: the launcher reports it to each member that may have communicated with it.
                    for (other, (state, _)) in ranks.iter().enumerate() {
                        let has = self.may_have.contains(&(rank, other));
                        if has && state.is_member {
                            assert!(told.contains(&other), "{other} of {rank}");
                        }
                    }
                    self.known.retain(|(who, _), _| *who != rank);
                    let life = self.ranks[rank].1 + 1;
                    let state = PeerState {
                        is_member: false,
                        has_address: false,
                    };
                    self.ranks[rank] = (state, life);
                }
                _ => {}
            }
        }
    }

    fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
        let step = prop_oneof![
            Just(Step::Join),
            Just(Step::PutAddress),
            Just(Step::PutAddress),
            (0usize..4).prop_map(Step::Meet),
            (0usize..4).prop_map(Step::Meet),
            Just(Step::Die),
        ];
        prop::collection::vec((0usize..4, step), 0..100)
    }

    proptest! {
        // REC-3 REC-6
        #[test]
        fn two_ranks_that_are_introduced_know_each_other_in_each_life(steps in steps(), all in any::<bool>()) {
            let mut played = Played::new(4, all);
            for (rank, step) in steps {
                played.step(rank, step);
                for (who, of) in (0..4).flat_map(|who| (0..4).map(move |of| (who, of))) {
                    let ((one, _), (other, life)) = (played.ranks[who], played.ranks[of]);
                    let is_introduced = played.introductions.of(who, 4).contains(&of);
                    let can = one.is_member && one.has_address && other.has_address;
                    let knows = played.known.get(&(who, of)) == Some(&life);
                    prop_assert_eq!(knows, is_introduced && can, "{} of {}", who, of);
                }
            }
        }
    }

    #[test]
    fn a_rank_that_is_silent_is_told_nothing() {
        let mut played = Played::new(4, false);
        for rank in 0..4 {
            played.step(rank, Step::Join);
            played.step(rank, Step::PutAddress);
        }
        played.step(0, Step::Meet(2));
        assert_eq!(played.known.len(), 2, "0 and 2 know each other");
        let ranks = played.ranks.clone();
        let told = (played.introductions).after_death(|it| ranks[it].0, 2, 4);
        assert_eq!(told, [0]);
    }
}
