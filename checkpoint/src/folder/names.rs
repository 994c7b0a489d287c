//! The file names of a rank, and the choice of checkpoints to remove.

use crate::store::contract::{JobName, Key};
use refrain_ring::{Incarnation, Rank};

/// A file of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    /// A stable checkpoint under its final name.
    Whole {
        /// The number of the checkpoint.
        number: u64,
    },
    /// A checkpoint that is being written, or was when its writer died.
    Part {
        /// The number of the checkpoint.
        number: u64,
        /// The life that wrote it.
        incarnation: Incarnation,
    },
    /// Lives before this one must not write any more.
    Fence {
        /// The life that recovers or has recovered.
        incarnation: Incarnation,
    },
}

fn of_rank(job: &JobName, rank: Rank) -> String {
    format!("{}r{rank}-", job.prefix)
}

/// The name of a stable checkpoint.
pub(super) fn whole(job: &JobName, rank: Rank, number: u64) -> String {
    format!("{}{number:012}.ckpt", of_rank(job, rank))
}

/// The name of a checkpoint until it is stable.
pub(super) fn part(job: &JobName, key: Key) -> String {
    let (rank, number) = (of_rank(job, key.rank), key.number);
    format!("{rank}{number:012}-i{}.part", key.incarnation)
}

/// The name of the file that stops earlier lives.
pub(super) fn fence(job: &JobName, rank: Rank, incarnation: Incarnation) -> String {
    format!("{}i{incarnation}.fence", of_rank(job, rank))
}

/// Parses a name, if it is of this rank.
pub(super) fn read(job: &JobName, rank: Rank, name: &str) -> Option<Name> {
    let rest = name.strip_prefix(&of_rank(job, rank))?;
    if let Some(number) = rest.strip_suffix(".ckpt") {
        let number = number.parse().ok()?;
        return Some(Name::Whole { number });
    }
    if let Some(life) = rest.strip_suffix(".fence") {
        let incarnation = Incarnation(life.strip_prefix('i')?.parse().ok()?);
        return Some(Name::Fence { incarnation });
    }
    let (number, incarnation) = rest.strip_suffix(".part")?.split_once("-i")?;
    Some(Name::Part {
        number: number.parse().ok()?,
        incarnation: Incarnation(incarnation.parse().ok()?),
    })
}

/// Whether a name is of any rank of the job.
pub(super) fn is_of_job(job: &JobName, name: &str) -> bool {
    let rank = || {
        let rest = name.strip_prefix(&job.prefix)?.strip_prefix('r')?;
        rest.split_once('-')?.0.parse().ok().map(Rank)
    };
    rank().is_some_and(|rank| read(job, rank, name).is_some())
}

/// The numbers that are not needed once `newest` is stable (GC-1): of the older checkpoints all but
/// the highest one that is not known to be damaged.
pub(super) fn not_needed(
    numbers: &[u64],
    newest: u64,
    is_damaged: impl Fn(u64) -> bool,
) -> Vec<u64> {
    let older = numbers.iter().copied().filter(|number| *number < newest);
    let kept = older.clone().filter(|number| !is_damaged(*number)).max();
    older.filter(|number| Some(*number) != kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(prefix: &str) -> JobName {
        JobName::new(1, prefix).unwrap()
    }

    #[test]
    fn names_are_read_as_they_are_written_and_only_by_their_rank_and_job() {
        let job = job("refrain-17-4-");
        let key = Key {
            rank: Rank(12),
            incarnation: Incarnation(3),
            number: u64::MAX,
        };
        let (whole, part) = (whole(&job, key.rank, 1 << 40), part(&job, key));
        let number = 1 << 40;
        assert_eq!(read(&job, Rank(12), &whole), Some(Name::Whole { number }));
        let expected = Name::Part {
            number: u64::MAX,
            incarnation: Incarnation(3),
        };
        assert_eq!(read(&job, Rank(12), &part), Some(expected));
        let fence = fence(&job, key.rank, key.incarnation);
        let incarnation = key.incarnation;
        assert_eq!(
            read(&job, Rank(12), &fence),
            Some(Name::Fence { incarnation })
        );
        for name in [&whole, &part, &fence] {
            assert_eq!(read(&job, Rank(1), name), None);
            assert!(is_of_job(&job, name));
            assert!(!is_of_job(&self::job("refrain-17-40-"), name));
        }
        for name in ["refrain-17-4-r1-1.log", "refrain-17-4-r-1.ckpt", "notes"] {
            assert!(!is_of_job(&job, name), "{name}");
        }
    }

    // GC-1
    #[test]
    fn two_are_kept_and_of_the_older_ones_the_best() {
        let none = |_: u64| false;
        assert_eq!(not_needed(&[1], 1, none), []);
        assert_eq!(not_needed(&[2, 1], 2, none), []);
        assert_eq!(not_needed(&[3, 1, 2], 3, none), [1]);
        assert_eq!(not_needed(&[7, 2, 1, 5], 7, none), [2, 1]);
        assert_eq!(not_needed(&[1, 2, 3], 3, |number| number == 2), [2]);
        assert_eq!(not_needed(&[1, 2], 2, |number| number == 1), [1]);
    }
}
