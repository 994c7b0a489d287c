//! Groups: ordered sets of ranks, each with a context of its own.
//!
//! A group is agreed by a collective of the group that it is made from, in the program's order,
//! so every life makes the same ones. Its context is given by the first member: contexts of
//! groups are counted by each rank for itself, and no two ranks give the same one. COLL-3

use super::World;
use super::collective::{allgather, bcast};
use super::envelope::{CONTEXT_RESERVED_MIN, Source, from, to};
use super::request::{Key, Table};
use crate::Error;
use refrain_collectives::Hosts;
use refrain_rank::collective::{Name, Number};
use refrain_ring::Rank;
use refrain_transport::engine::SendTo;
use serde::{Deserialize, Serialize};
use std::cell::OnceCell;
use std::sync::Arc;

/// Contexts of groups begin here; those below are the program's choice.
pub(super) const CONTEXT_GROUP_MIN: u32 = 0x8000_0000;

/// An ordered set of ranks, which the world looks up. The members are numbered by their *place*,
/// from 0. A group that was [released](World::release) is recognised and refused, as is the default
/// value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[repr(C)]
pub struct Group {
    key: Key,
    size: u32,
    place: u32,
}

impl Group {
    /// Number of members, at least 1.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The place of this rank.
    pub fn place(&self) -> u32 {
        self.place
    }
}

/// A group as the world knows it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Members {
    /// By place.
    pub ranks: Arc<[Rank]>,
    /// The place of this rank.
    pub me: u32,
    pub context: u32,
    /// Collectives so far, by [`Kind`].
    pub collectives: [u64; 3],
    /// First places of hosts.
    #[serde(skip)]
    hosts: OnceCell<Vec<u32>>,
}

impl Members {
    fn new(ranks: Arc<[Rank]>, me: u32, context: u32) -> Self {
        Self {
            ranks,
            me,
            context,
            collectives: [0; 3],
            hosts: OnceCell::new(),
        }
    }

    /// Where the members are.
    pub fn hosts(&self, host_of_rank: &[u32]) -> Hosts<'_> {
        let first_places = || {
            let hosts = self
                .ranks
                .iter()
                .map(|rank| host_of_rank.get(rank.0 as usize));
            Hosts::first_places(hosts.map_while(|host| host.copied()))
        };
        Hosts::new(self.hosts.get_or_init(first_places))
    }
}

/// All groups of this rank.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Groups {
    table: Table<Members>,
    all: Group,
    /// Contexts that this rank has given.
    given: u64,
}

impl Groups {
    /// Of a program that begins: the group of all ranks is there.
    pub fn new(rank: Rank, size: u32) -> Self {
        let mut table = Table::after(0);
        let all = Members::new((0..size).map(Rank).collect(), rank.0, CONTEXT_GROUP_MIN);
        Self {
            all: insert(&mut table, all),
            table,
            given: 1,
        }
    }

    /// # Errors
    /// [`Error::Argument`] when it was released, or is of another world.
    pub fn get(&self, group: Group) -> Result<&Members, Error> {
        self.table.get(group.key).ok_or_else(released)
    }

    /// Counts a collective of the group, and returns its number; of a persistent one that of its
    /// first start. COLL-2
    ///
    /// # Errors
    /// As [`Groups::get`].
    pub fn count_collective(&mut self, group: Group, kind: Kind) -> Result<Number, Error> {
        let members = self.table.get_mut(group.key).ok_or_else(released)?;
        let count = &mut members.collectives[kind as usize];
        let index = *count;
        *count += 1;
        let (tag, is_begun) = match kind {
            Kind::Blocking => ((index % (1 << 29)) as i32, false),
            Kind::Begun => (1 << 29 | (index % (1 << 29)) as i32, true),
            Kind::Prepared => {
                let number = (index % (1 << (30 - START_BITS))) as i32;
                return Ok(Number::from(1 << 30 | number << START_BITS));
            }
        };
        Ok(Number {
            tag,
            name: Some(Name::new(index, is_begun)),
        })
    }
}

/// How a collective is called: each kind has numbers of its own. COLL-2
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Blocking,
    /// Non-blocking, and persistent where each start is counted.
    Begun,
    /// Persistent, counted when it is prepared.
    Prepared,
}

/// Bits of a persistent collective's number that count its starts. Members are at most one start
/// apart.
const START_BITS: u32 = 12;

/// The number of the next start of a persistent collective.
pub(super) fn next_start(number: i32) -> i32 {
    let starts = (1 << START_BITS) - 1;
    number & !starts | (number + 1) & starts
}

#[cold]
fn released() -> Error {
    Error::Argument("the group was released, or is of another world".into())
}

fn insert(table: &mut Table<Members>, members: Members) -> Group {
    Group {
        size: members.ranks.len() as u32,
        place: members.me,
        key: table.insert(members),
    }
}

impl World {
    /// The group of all ranks of the job; places are ranks.
    pub fn all(&self) -> Group {
        self.groups.all
    }

    /// The members of a group, by place.
    ///
    /// # Errors
    /// [`Error::Argument`] for a group that was released.
    pub fn members(&self, group: Group) -> Result<Arc<[Rank]>, Error> {
        Ok(Arc::clone(&self.groups.get(group)?.ranks))
    }

    /// To the member at `place`, with tag 0 in the context of the group.
    ///
    /// # Errors
    /// As [`World::members`], and for a place that the group does not have.
    pub fn to_member(&self, group: Group, place: u32) -> Result<SendTo, Error> {
        let (rank, context) = self.member(group, place)?;
        Ok(to(rank.0).context(context))
    }

    /// From the member at `place`, with tag 0 in the context of the group.
    ///
    /// # Errors
    /// As [`World::to_member`].
    pub fn from_member(&self, group: Group, place: u32) -> Result<Source, Error> {
        let (rank, context) = self.member(group, place)?;
        Ok(from(rank.0).context(context))
    }

    /// The context of a group's messages.
    ///
    /// # Errors
    /// As [`World::members`].
    pub fn context(&self, group: Group) -> Result<u32, Error> {
        Ok(self.groups.get(group)?.context)
    }

    /// Takes a context that no other group of the job has, for [`World::group_with`]. COLL-3
    ///
    /// # Errors
    /// When this rank has given all its contexts.
    pub fn take_context(&mut self) -> Result<u32, Error> {
        let context = self.next_context()?;
        self.groups.given += 1;
        Ok(context)
    }

    /// Makes a group of these ranks without a collective: each member calls this with the same
    /// ranks and with the context that one of them has [taken](World::take_context).
    ///
    /// # Errors
    /// [`Error::Argument`] when this rank is not among them, or a rank is there twice;
    /// [`Error::NoSuchRank`].
    pub fn group_with(&mut self, ranks: &[Rank], context: u32) -> Result<Group, Error> {
        for (place, rank) in ranks.iter().enumerate() {
            self.check(*rank, 0)?;
            if ranks[..place].contains(rank) {
                return Err(Error::Argument(format!(
                    "rank {} is in the group twice",
                    rank.0
                )));
            }
        }
        let Some(me) = ranks.iter().position(|rank| *rank == self.rank) else {
            let rank = self.rank.0;
            return Err(Error::Argument(format!(
                "rank {rank} is not in the group that it makes"
            )));
        };
        let members = Members::new(ranks.into(), me as u32, context);
        Ok(insert(&mut self.groups.table, members))
    }

    fn member(&self, group: Group, place: u32) -> Result<(Rank, u32), Error> {
        let members = self.groups.get(group)?;
        match members.ranks.get(place as usize) {
            Some(rank) => Ok((*rank, members.context)),
            None => Err(Error::Argument(format!(
                "place {place} does not exist: the group has {} members",
                members.ranks.len()
            ))),
        }
    }

    /// Divides a group, as MPI_Comm_split: the members that give the same `color` become one
    /// group, ordered by `key`, and by their places where keys are equal. A member with no color
    /// gets no group. All members of `group` call this.
    ///
    /// # Errors
    /// As [`World::collective`]; when this rank has given all its contexts.
    pub fn split(
        &mut self,
        group: Group,
        color: Option<u32>,
        key: i64,
    ) -> Result<Option<Group>, Error> {
        let context = self.next_context()?;
        let own = [color.map_or(-1, i64::from), key, i64::from(context)];
        let mut all = vec![0; own.len() * self.members(group)?.len()];
        self.collective(allgather(group, &own, &mut all))?;
        if color.is_none() {
            return Ok(None);
        }
        let ranks = self.members(group)?;
        let mut chosen: Vec<_> = (all.chunks_exact(own.len()).zip(&*ranks))
            .filter(|(theirs, _)| theirs[0] == own[0])
            .collect();
        // Stable: in the order of places.
        chosen.sort_by_key(|(theirs, _)| theirs[1]);
        let me = chosen.iter().position(|(_, rank)| **rank == self.rank);
        let (first, _) = chosen[0];
        if me == Some(0) {
            self.groups.given += 1;
        }
        let ranks = chosen.iter().map(|(_, rank)| **rank).collect();
        let members = Members::new(ranks, me.unwrap_or_default() as u32, first[2] as u32);
        Ok(Some(insert(&mut self.groups.table, members)))
    }

    /// The same members in a group with a context of its own. All members of `group` call this.
    ///
    /// # Errors
    /// As [`World::split`].
    pub fn duplicate(&mut self, group: Group) -> Result<Group, Error> {
        let mut context = [0];
        let members = self.groups.get(group)?.clone();
        if members.me == 0 {
            context[0] = self.take_context()?;
        }
        self.collective(bcast(group, 0, &mut context))?;
        let members = Members::new(members.ranks, members.me, context[0]);
        Ok(insert(&mut self.groups.table, members))
    }

    /// Forgets a group. Members may do so at different times.
    ///
    /// # Errors
    /// As [`World::members`]; for the group of all ranks.
    pub fn release(&mut self, group: Group) -> Result<(), Error> {
        self.groups.get(group)?;
        if group == self.all() {
            return Err(Error::Argument("the group of all ranks stays".into()));
        }
        self.groups.table.remove(group.key);
        Ok(())
    }

    /// The context that this rank would give next. Rank 0 gave the first one to all ranks.
    fn next_context(&self) -> Result<u32, Error> {
        let number = self.groups.given * u64::from(self.size) + u64::from(self.rank.0);
        let context = u64::from(CONTEXT_GROUP_MIN) + number;
        match u32::try_from(context) {
            Ok(context) if context < CONTEXT_RESERVED_MIN => Ok(context),
            _ => Err(Error::Argument(format!(
                "no context is left for a group: this rank was the first member of {} groups",
                self.groups.given
            ))),
        }
    }
}
