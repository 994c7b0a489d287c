//! Groups: ordered sets of ranks (MPI-5.0, section 7.3).

use super::abi::Group;
use super::exports as abi;
use super::failure::{Failure, Result};
use super::handles::Table;
use super::state::made;
use core::ffi::c_int;
use refrain::Rank;
use std::sync::Arc;

/// The members of a group, by place.
pub type Members = Arc<[Rank]>;

/// All groups.
pub struct Groups(Table<Members>);

impl Groups {
    pub const fn new() -> Self {
        Self(Table::new())
    }

    pub fn get(&self, group: Group) -> Result<Members> {
        match group {
            abi::GROUP_EMPTY => Ok([].into()),
            Group(handle) => self.0.get(handle).cloned().ok_or_else(|| unknown(group)),
        }
    }

    pub fn add(&mut self, members: Members) -> Result<Group> {
        match members.is_empty() {
            true => Ok(abi::GROUP_EMPTY),
            false => Ok(Group(made(self.0.add(members), "groups")?)),
        }
    }

    pub fn remove(&mut self, group: Group) -> Result<()> {
        match group {
            abi::GROUP_EMPTY => Ok(()),
            Group(handle) => self
                .0
                .remove(handle)
                .map(drop)
                .ok_or_else(|| unknown(group)),
        }
    }
}

#[cold]
fn unknown(group: Group) -> Failure {
    Failure::new(
        abi::ERR_GROUP,
        match group {
            abi::GROUP_NULL => "the group is MPI_GROUP_NULL".to_owned(),
            Group(handle) => format!("group {handle} does not exist: it was freed, or never made"),
        },
    )
}

/// The place of a rank.
pub fn place(members: &[Rank], rank: Rank) -> Option<usize> {
    members.iter().position(|member| *member == rank)
}

/// Members of the first group, then those of the second that are not in it.
pub fn union(first: &[Rank], second: &[Rank]) -> Members {
    let more = difference(second, first);
    first.iter().chain(&*more).copied().collect()
}

/// Members of both, in the order of the first.
pub fn intersection(first: &[Rank], second: &[Rank]) -> Members {
    let both = first.iter().filter(|rank| second.contains(rank));
    both.copied().collect()
}

/// Members of the first that are not in the second.
pub fn difference(first: &[Rank], second: &[Rank]) -> Members {
    let left = first.iter().filter(|rank| !second.contains(rank));
    left.copied().collect()
}

/// Members at these places, in the order of the places.
pub fn incl(members: &[Rank], places: &[c_int]) -> Result<Members> {
    check(members, places)?;
    Ok(places
        .iter()
        .map(|place| members[*place as usize])
        .collect())
}

/// Members that are not at these places.
pub fn excl(members: &[Rank], places: &[c_int]) -> Result<Members> {
    check(members, places)?;
    let others = members
        .iter()
        .zip(0..)
        .filter(|(_, place)| !places.contains(place));
    Ok(others.map(|(rank, _)| *rank).collect())
}

/// Each place exists and is named once.
fn check(members: &[Rank], places: &[c_int]) -> Result {
    let mut is_named = vec![false; members.len()];
    for place in places {
        let Some(named) = is_named.get_mut(*place as usize) else {
            return Err(Failure::new(
                abi::ERR_RANK,
                format_args!(
                    "rank {place} is not in the group, which has {} members",
                    members.len()
                ),
            ));
        };
        if std::mem::replace(named, true) {
            return Err(Failure::new(
                abi::ERR_RANK,
                format_args!("rank {place} is named twice"),
            ));
        }
    }
    Ok(())
}

/// The places of ranges (first, last, stride).
pub fn places(ranges: &[[c_int; 3]]) -> Result<Vec<c_int>> {
    let mut places = Vec::new();
    for [first, last, stride] in ranges {
        let (first, last, stride) = (i64::from(*first), i64::from(*last), i64::from(*stride));
        if stride == 0 {
            return Err(Failure::argument("the stride of a range is 0"));
        }
        let steps = (last - first) / stride;
        if (last - first) * stride >= 0 {
            places.extend((0..=steps).map(|step| (first + step * stride) as c_int));
        }
    }
    Ok(places)
}

/// `MPI_IDENT`, `MPI_SIMILAR` or `MPI_UNEQUAL`.
pub fn compare(first: &[Rank], second: &[Rank]) -> c_int {
    if first == second {
        return abi::IDENT;
    }
    let is_in_second = |rank| second.contains(rank);
    match first.len() == second.len() && first.iter().all(is_in_second) {
        true => abi::SIMILAR,
        false => abi::UNEQUAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranks(list: &[u32]) -> Members {
        list.iter().map(|rank| Rank(*rank)).collect()
    }

    #[test]
    fn sets_keep_the_order_of_the_first() {
        let (a, b) = (ranks(&[3, 1, 2]), ranks(&[2, 4, 1]));
        assert_eq!(union(&a, &b), ranks(&[3, 1, 2, 4]));
        assert_eq!(intersection(&a, &b), ranks(&[1, 2]));
        assert_eq!(difference(&a, &b), ranks(&[3]));
        assert_eq!(compare(&a, &a), abi::IDENT);
        assert_eq!(compare(&a, &ranks(&[1, 2, 3])), abi::SIMILAR);
        assert_eq!(compare(&a, &b), abi::UNEQUAL);
        assert_eq!(compare(&a, &ranks(&[3, 1])), abi::UNEQUAL);
    }

    #[test]
    fn places_are_checked() {
        let of = ranks(&[5, 6, 7, 8]);
        assert_eq!(incl(&of, &[3, 0]).unwrap(), ranks(&[8, 5]));
        assert_eq!(excl(&of, &[3, 0]).unwrap(), ranks(&[6, 7]));
        for wrong in [&[4][..], &[-1], &[1, 1]] {
            assert_eq!(incl(&of, wrong).unwrap_err().code, abi::ERR_RANK);
            assert_eq!(excl(&of, wrong).unwrap_err().code, abi::ERR_RANK);
        }
        assert_eq!(
            places(&[[0, 5, 2], [9, 7, -1], [3, 1, 1]]).unwrap(),
            [0, 2, 4, 9, 8, 7]
        );
        assert!(places(&[[0, 1, 0]]).is_err());
    }
}
