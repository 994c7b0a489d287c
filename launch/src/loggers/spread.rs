//! Event loggers on the hosts of ranks (`--spread-loggers`): the ranks of a shard share no host with one
//! of its loggers, and its replicas are on different hosts. Pure. EL-1, EL-4

use super::{EventLoggerSpec, RANKS_PER_LOGGER, check_range, chosen};
use refrain_job::JobError;
use refrain_job::choice::events::{Loggers, SHARDS_MAX};
use refrain_logging::{EventStore, Member};
use std::collections::BTreeSet;

/// Which ranks belong to which shard, and where its loggers are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// By rank, its shard.
    pub shard_of_rank: Vec<usize>,
    /// By shard, the host of each replica.
    pub hosts_of_shard: Vec<Vec<u32>>,
}

impl Spread {
    /// Maximum number of loggers on one host.
    pub fn loggers_on_host(&self) -> u32 {
        let all = || self.hosts_of_shard.iter().flatten();
        let on = |host| all().filter(|other| *other == host).count() as u32;
        all().map(on).max().unwrap_or(0)
    }
}

fn wrong(why: String) -> JobError {
    JobError::Config(format!("--spread-loggers: {why}"))
}

fn hosts(host_of_rank: &[u32]) -> Vec<u32> {
    let hosts: BTreeSet<u32> = host_of_rank.iter().copied().collect();
    hosts.into_iter().collect()
}

/// Chooses the number of shards if none is given: one for each host, so that each host can have loggers of
/// all others.
///
/// # Errors
/// The job starts no loggers, or all ranks are on one host.
pub fn choose_shards(
    spec: &mut EventLoggerSpec,
    protocol: &str,
    host_of_rank: &[u32],
) -> Result<(), JobError> {
    let number = hosts(host_of_rank).len() as u32;
    if number < 2 {
        return Err(wrong(
            "all ranks are on one host, and no other is left for their event loggers: use more hosts, or leave the option out".into(),
        ));
    }
    let member = protocol.parse().unwrap_or(Member::None);
    if spec.loggers.is_none() && member.events() == EventStore::Loggers {
        let on = |host: &u32| host_of_rank.iter().filter(|other| *other == host).count() as u32;
        let most = hosts(host_of_rank).iter().map(on).max().unwrap_or(0);
        let shards = number * most.div_ceil(RANKS_PER_LOGGER);
        spec.loggers = Some(Loggers::Started(shards.min(SHARDS_MAX)));
    }
    match chosen(spec, protocol, host_of_rank.len() as u32)? {
        Loggers::Started(shards @ 1..) => check_range(shards, spec),
        _ => Err(wrong(format!(
            "has no effect: with --protocol {protocol} and these --event-loggers the job starts none"
        ))),
    }
}

/// Divides ranks and loggers among hosts. `begun_on`: by rank, its host at the begin of the job, which
/// decides about its shard in all runs of a job with a folder (JOB-3); `host_of_rank`: that of this run.
///
/// # Errors
/// A shard has too few other hosts, or too many ranks.
pub fn spread(
    begun_on: &[u32],
    host_of_rank: &[u32],
    (shards, replicas): (u32, u32),
) -> Result<Spread, JobError> {
    let shard_of_rank = divide(begun_on, shards as usize);
    let all = hosts(host_of_rank);
    let (groups, replicas) = (all.len().min(shards as usize), replicas as usize);
    let loggers_of = |shard: usize| {
        let ranks = (host_of_rank.iter().zip(&shard_of_rank)).filter(|(_, of)| **of == shard);
        let own: Vec<u32> = ranks.map(|(host, _)| *host).collect();
        if own.len() > RANKS_PER_LOGGER as usize {
            return Err(wrong(format!(
                "shard {shard} would have {} ranks, and a logger serves {RANKS_PER_LOGGER}: give more --event-loggers",
                own.len()
            )));
        }
        // The hosts behind the last of its ranks come first, so that each host gets as many.
        let behind = own.iter().max().map_or(0, |last| last + 1);
        let from = all.partition_point(|host| *host < behind);
        let others = all[from..].iter().chain(&all[..from]);
        let others: Vec<u32> = others.filter(|host| !own.contains(host)).copied().collect();
        if others.len() < replicas {
            return Err(wrong(format!(
                "shard {shard} has ranks on {} of {} hosts with ranks, which leaves {} for its {replicas} replicas: give more hosts, a smaller --event-replicas, or more --event-loggers",
                all.len() - others.len(),
                all.len(),
                others.len()
            )));
        }
        let first = shard / groups * replicas;
        let at = |replica| others[(first + replica) % others.len()];
        Ok((0..replicas).map(at).collect())
    };
    let hosts_of_shard = (0..shards as usize).map(loggers_of);
    Ok(Spread {
        hosts_of_shard: hosts_of_shard.collect::<Result<_, _>>()?,
        shard_of_rank,
    })
}

/// By rank, its shard: that of a group of neighbouring hosts or, with more shards than hosts, one of those
/// of its host in turn.
fn divide(host_of_rank: &[u32], shards: usize) -> Vec<usize> {
    let hosts = hosts(host_of_rank);
    let groups = hosts.len().min(shards);
    let mut next = vec![0; groups];
    let shard = |host: &u32| {
        let group = hosts.partition_point(|other| other < host) * groups / hosts.len();
        let of_group = (shards - group).div_ceil(groups);
        let shard = group + next[group] % of_group * groups;
        next[group] += 1;
        shard
    };
    host_of_rank.iter().map(shard).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// No logger of a shard is on a host of its ranks, and no two are on one host.
    fn check(spread: &Spread, host_of_rank: &[u32], replicas: u32) {
        for (shard, loggers) in spread.hosts_of_shard.iter().enumerate() {
            let different: BTreeSet<_> = loggers.iter().collect();
            assert_eq!(different.len(), replicas as usize, "{spread:?}");
            for (host, of) in host_of_rank.iter().zip(&spread.shard_of_rank) {
                assert!(*of != shard || !different.contains(host), "{spread:?}");
            }
        }
    }

    proptest! {
        // EL-1 EL-4
        #[test]
        fn ranks_share_no_host_with_their_loggers(
            slots in prop::collection::vec(3usize..6, 2..9),
            times in 1u32..4,
            replicas in 1u32..9,
        ) {
            let number = slots.len() as u32;
            let of_host = |(host, slots): (usize, &usize)| vec![host as u32 * 3; *slots];
            let host_of_rank: Vec<u32> = slots.iter().enumerate().flat_map(of_host).collect();
            let made = spread(&host_of_rank, &host_of_rank, (number * times, replicas));
            prop_assert_eq!(made.is_ok(), replicas < number, "replicas are on all other hosts at most");
            if let Ok(made) = made {
                check(&made, &host_of_rank, replicas);
                for host in hosts(&host_of_rank) {
                    let loggers = made.hosts_of_shard.iter().flatten().filter(|it| **it == host);
                    prop_assert_eq!(loggers.count() as u32, times * replicas, "all have as many");
                }
                prop_assert_eq!(made.loggers_on_host(), times * replicas);
            }
        }

        /// Any number of shards; a later run of the job has other hosts.
        // EL-4 JOB-3
        #[test]
        fn a_rank_keeps_its_shard_on_other_hosts(
            begun_on in prop::collection::vec(0u32..6, 2..20),
            shuffled in any::<prop::sample::Index>(),
            shards in 1u32..20,
            replicas in 1u32..4,
        ) {
            let mut later = begun_on.clone();
            later.rotate_left(shuffled.index(begun_on.len()));
            let first = spread(&begun_on, &begun_on, (shards, replicas));
            if let Ok(first) = &first {
                check(first, &begun_on, replicas);
            }
            if let Ok(second) = spread(&begun_on, &later, (shards, replicas)) {
                check(&second, &later, replicas);
                prop_assert_eq!(&second.shard_of_rank, &divide(&begun_on, shards as usize));
            }
        }
    }

    #[test]
    fn fewer_shards_than_hosts_have_neighbouring_hosts() {
        let on = [0, 0, 1, 2, 3];
        let made = spread(&on, &on, (2, 2)).expect("two other hosts");
        assert_eq!(made.shard_of_rank, [0, 0, 0, 1, 1]);
        assert_eq!(made.hosts_of_shard, [[2, 3], [0, 1]]);
        let refused = |on: &[u32], shards, replicas, words: &str| {
            let error = spread(on, on, (shards, replicas)).expect_err("too few hosts");
            assert!(error.to_string().contains(words), "{error}");
        };
        refused(
            &on,
            2,
            3,
            "shard 0 has ranks on 2 of 4 hosts with ranks, which leaves 2",
        );
        refused(&on, 1, 1, "leaves 0 for its 1 replicas");
        refused(
            &[&[0; 1025][..], &[1]].concat(),
            2,
            1,
            "would have 1025 ranks",
        );
    }

    #[test]
    fn each_host_has_a_shard_unless_a_number_is_given() {
        let chosen = |loggers, protocol, on: &[u32]| {
            let mut spec = EventLoggerSpec {
                loggers,
                ..EventLoggerSpec::default()
            };
            let chosen = choose_shards(&mut spec, protocol, on);
            chosen
                .map(|()| spec.loggers)
                .map_err(|error| error.to_string())
        };
        let shards = |number| Ok(Some(Loggers::Started(number)));
        assert_eq!(chosen(None, "pessimist", &[0, 0, 1, 4]), shards(3));
        assert_eq!(
            chosen(None, "pessimist", &[&[0; 1025][..], &[1]].concat()),
            shards(4)
        );
        let two = Some(Loggers::Started(2));
        assert_eq!(chosen(two.clone(), "pessimist", &[0, 1, 2]), shards(2));
        assert_eq!(chosen(two, "causal", &[0, 1, 2]), shards(2));
        let refused = |chosen: Result<_, String>, words: &str| {
            let error = chosen.expect_err("refused");
            assert!(error.contains(words), "{error}");
        };
        refused(chosen(None, "pessimist", &[1, 1]), "on one host");
        refused(chosen(None, "causal", &[0, 1]), "has no effect");
        refused(chosen(None, "none", &[0, 1]), "has no effect");
    }
}
