//! Which ranks are informed of which others. Pure.
//!
//! A first incarnation asks for the addresses of its peers and is informed of later
//! incarnations only, so that it knows which one an address belongs to. A later incarnation
//! asks for nothing: after it has put its own address, it is informed of all peers that have
//! one, and of each that follows.

/// State of a rank, as peers need it.
#[derive(Clone, Copy, Debug)]
pub struct PeerState {
    /// The current life.
    pub incarnation: u32,
    /// It has joined the job and has not left it.
    pub is_member: bool,
    /// It has put its address.
    pub has_address: bool,
}

impl PeerState {
    /// Whether this rank is informed when `other` can be reached.
    fn hears_of(&self, other: &PeerState) -> bool {
        let is_waiting = if self.incarnation == 0 {
            other.incarnation > 0
        } else {
            self.has_address
        };
        self.is_member && other.has_address && is_waiting
    }
}

/// After `rank` has put its address: pairs of a rank to inform and the reachable peer.
pub fn after_address(ranks: &[PeerState], rank: usize) -> Vec<(usize, usize)> {
    let own = &ranks[rank];
    let others = || (0..ranks.len()).filter(|other| *other != rank);
    let told_of_it = others().filter(|other| ranks[*other].hears_of(own));
    let hears = others().filter(|other| own.incarnation > 0 && own.hears_of(&ranks[*other]));
    told_of_it
        .map(|other| (other, rank))
        .chain(hears.map(|other| (rank, other)))
        .collect()
}

/// After `rank` has joined: the peers that it is informed of.
pub fn after_welcome(ranks: &[PeerState], rank: usize) -> Vec<usize> {
    (0..ranks.len())
        .filter(|other| *other != rank && ranks[rank].hears_of(&ranks[*other]))
        .collect()
}

/// After the death of `rank`: the peers that are informed.
pub fn after_death(ranks: &[PeerState], rank: usize) -> Vec<usize> {
    (0..ranks.len())
        .filter(|other| *other != rank && ranks[*other].is_member)
        .collect()
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
        Die,
    }

    /// A job, and which incarnation of a peer each rank knows: by (rank, peer).
    struct Played {
        ranks: Vec<PeerState>,
        known: HashMap<(usize, usize), u32>,
    }

    impl Played {
        fn new(ranks: usize) -> Self {
            let standing = PeerState {
                incarnation: 0,
                is_member: false,
                has_address: false,
            };
            Self {
                ranks: vec![standing; ranks],
                known: HashMap::new(),
            }
        }

        fn tell(&mut self, who: usize, of: usize) {
            let life = self.ranks[of].incarnation;
            let before = self.known.insert((who, of), life);
            assert_ne!(
                before,
                Some(life),
                "the launcher reports {of} to {who} once"
            );
        }

        fn step(&mut self, rank: usize, step: Step) {
            let standing = self.ranks[rank];
            match step {
                Step::Join if !standing.is_member => {
                    self.ranks[rank].is_member = true;
                    for other in after_welcome(&self.ranks, rank) {
                        self.tell(rank, other);
                    }
                }
                Step::PutAddress if standing.is_member && !standing.has_address => {
                    self.ranks[rank].has_address = true;
                    for (who, of) in after_address(&self.ranks, rank) {
                        self.tell(who, of);
                    }
                }
                Step::Die => {
                    self.known.retain(|(who, _), _| *who != rank);
                    self.ranks[rank] = PeerState {
                        incarnation: standing.incarnation + 1,
                        is_member: false,
                        has_address: false,
                    };
                }
                _ => {}
            }
        }
    }

    proptest! {
        // REC-6
        #[test]
        fn a_rank_with_an_address_is_known_to_all_that_wait_for_it(
            steps in prop::collection::vec(
                (0usize..4, prop::sample::select(vec![Step::Join, Step::PutAddress, Step::PutAddress, Step::Die])),
                0..80,
            ),
        ) {
            let mut played = Played::new(4);
            for (rank, step) in steps {
                played.step(rank, step);
                for (who, of) in (0..4).flat_map(|who| (0..4).map(move |of| (who, of))) {
                    let (one, other) = (played.ranks[who], played.ranks[of]);
                    let knows = played.known.get(&(who, of)) == Some(&other.incarnation);
                    let is_first = one.incarnation == 0;
                    if who == of || !one.is_member || !other.has_address {
                        continue;
                    }
                    // A first life asks, and has to know which incarnation the answer is of.
                    let must = is_first && other.incarnation > 0 || !is_first && one.has_address;
                    prop_assert_eq!(knows, must, "{} of {}", who, of);
                }
            }
        }
    }

    #[test]
    fn only_members_are_informed_of_a_death() {
        let mut played = Played::new(3);
        played.step(1, Step::Join);
        assert_eq!(after_death(&played.ranks, 0), [1]);
        assert_eq!(after_death(&played.ranks, 1), [0usize; 0]);
    }
}
