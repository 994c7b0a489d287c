//! Communicators: a group of ranks with a context, and what MPI adds.

use super::abi::{Comm, Errhandler};
use super::attribute::Attributes;
use super::exports as abi;
use super::failure::{Failure, Result};
use super::handles::Table;
use super::info::Pairs;
use super::state::made;
use super::topology::Topology;
use core::ffi::c_int;
use refrain::{Group, Rank, SendTo, Source, World, from, from_any, to};
use std::sync::Arc;

/// The place of each rank of the job, or `NO_PLACE`.
type Places = Arc<[u32]>;
const NO_PLACE: u32 = u32::MAX;

/// Both sides of an intercommunicator as one group: the places where local and remote members begin.
#[derive(Clone, Copy, Debug)]
pub struct Union {
    pub group: Group,
    pub local: u32,
    pub remote: u32,
}

/// A communicator.
#[derive(Clone, Debug)]
pub struct Communicator {
    /// Of the local members, with the context for collectives.
    pub group: Group,
    /// The local members, by place.
    pub ranks: Arc<[Rank]>,
    /// The members of the other side of an intercommunicator.
    pub remote: Option<Arc<[Rank]>>,
    /// Of an intercommunicator: both sides as one group, and where the two begin.
    pub union: Option<Union>,
    /// Of messages between members.
    pub context: u32,
    /// The place of this rank.
    pub me: u32,
    /// Places of those to whom messages go; `None`: each rank's place is its number.
    places: Option<Places>,
    pub name: Vec<u8>,
    pub errhandler: Errhandler,
    pub attributes: Attributes,
    pub hints: Pairs,
    pub topology: Option<Topology>,
}

impl Communicator {
    pub fn new(world: &World, group: Group) -> Result<Self> {
        let ranks = world.members(group)?;
        let context = world.context(group)?;
        let size = world.size();
        Ok(Self {
            group,
            places: places(&ranks, size),
            remote: None,
            union: None,
            context,
            me: group.place(),
            ranks,
            name: Vec::new(),
            errhandler: abi::ERRORS_ARE_FATAL,
            attributes: Attributes::new(),
            hints: Pairs::new(),
            topology: None,
        })
    }

    /// Between the members of `group` and `remote` ones, whose messages have this context.
    pub fn between(
        world: &mut World,
        group: Group,
        remote: Arc<[Rank]>,
        context: u32,
    ) -> Result<Self> {
        let own = Self::new(world, group)?;
        // The side of the lower first rank comes first, on both sides.
        let is_first = own.ranks[0].0 < remote[0].0;
        let sides = match is_first {
            true => [&own.ranks, &remote],
            false => [&remote, &own.ranks],
        };
        let all: Vec<Rank> = sides.iter().flat_map(|side| side.iter().copied()).collect();
        let begins = [0, sides[0].len() as u32];
        let [local, of_remote] = if is_first {
            begins
        } else {
            [begins[1], begins[0]]
        };
        let union = Union {
            group: world.group_with(&all, context)?,
            local,
            remote: of_remote,
        };
        Ok(Self {
            places: places(&remote, world.size()),
            remote: Some(remote),
            union: Some(union),
            context,
            ..own
        })
    }

    pub fn size(&self) -> u32 {
        self.ranks.len() as u32
    }

    /// Those to whom messages go, by place.
    #[inline]
    pub fn peers(&self) -> &Arc<[Rank]> {
        self.remote.as_ref().unwrap_or(&self.ranks)
    }

    /// The destination of a message; `None`: `MPI_PROC_NULL`.
    #[inline]
    pub fn to(&self, dest: c_int, tag: c_int) -> Result<Option<SendTo>> {
        if dest == abi::PROC_NULL {
            return Ok(None);
        }
        if tag < 0 {
            return Err(wrong_tag(tag));
        }
        match self.peers().get(dest as usize) {
            Some(rank) => Ok(Some(to(rank.0).tag(tag).context(self.context))),
            None => Err(self.no_rank(dest)),
        }
    }

    /// The messages that a receive accepts; `None`: `MPI_PROC_NULL`.
    #[inline]
    pub fn from(&self, source: c_int, tag: c_int) -> Result<Option<Source>> {
        let from = match source {
            abi::ANY_SOURCE => from_any(),
            abi::PROC_NULL => return Ok(None),
            place => match self.peers().get(place as usize) {
                Some(rank) => from(rank.0),
                None => return Err(self.no_rank(place)),
            },
        };
        let from = match tag {
            abi::ANY_TAG => from.any_tag(),
            0.. => from.tag(tag),
            _ => return Err(wrong_tag(tag)),
        };
        Ok(Some(from.context(self.context)))
    }

    #[cold]
    fn no_rank(&self, rank: c_int) -> Failure {
        let last = self.peers().len() - 1;
        Failure::new(
            abi::ERR_RANK,
            format_args!("rank {rank} does not exist: ranks are 0 to {last}"),
        )
    }

    /// A root of a collective.
    pub fn root(&self, root: c_int) -> Result<u32> {
        match u32::try_from(root) {
            Ok(place) if place < self.size() => Ok(place),
            _ => Err(Failure::new(
                abi::ERR_ROOT,
                format_args!(
                    "root {root} does not exist: ranks are 0 to {}",
                    self.size() - 1
                ),
            )),
        }
    }

    /// The place of a rank that sends to this one.
    #[inline]
    pub fn place(&self, rank: Rank) -> c_int {
        place(self.places.as_deref(), rank)
    }

    /// Finds the places of ranks.
    pub fn finder(&self) -> Finder {
        Finder(self.places.clone())
    }
}

#[cold]
fn wrong_tag(tag: c_int) -> Failure {
    Failure::new(
        abi::ERR_TAG,
        format_args!("tag {tag} is not valid: use 0 to {}", c_int::MAX),
    )
}

fn places(ranks: &[Rank], size: u32) -> Option<Places> {
    let mut numbered = ranks.iter().zip(0..);
    if numbered.all(|(rank, place)| rank.0 == place) {
        return None;
    }
    let mut places = vec![NO_PLACE; size as usize];
    for (rank, place) in ranks.iter().zip(0..) {
        places[rank.0 as usize] = place;
    }
    Some(places.into())
}

#[inline]
fn place(places: Option<&[u32]>, rank: Rank) -> c_int {
    match places {
        None => rank.0 as c_int,
        Some(places) => places[rank.0 as usize] as c_int,
    }
}

/// Finds the places of ranks in a communicator, also when that is gone.
#[derive(Clone, Debug, Default)]
pub struct Finder(Option<Places>);

impl Finder {
    #[inline]
    pub fn place(&self, rank: Rank) -> c_int {
        place(self.0.as_deref(), rank)
    }
}

/// All communicators.
pub struct Communicators {
    world: Option<Communicator>,
    own: Option<Communicator>,
    table: Table<Communicator>,
}

impl Communicators {
    pub const fn new() -> Self {
        Self {
            world: None,
            own: None,
            table: Table::new(),
        }
    }

    /// Sets `MPI_COMM_WORLD` and `MPI_COMM_SELF`.
    pub fn begin(&mut self, world: Communicator, own: Communicator) {
        (self.world, self.own) = (Some(world), Some(own));
    }

    #[inline]
    pub fn get(&self, comm: Comm) -> Result<&Communicator> {
        let found = match comm {
            abi::COMM_WORLD => self.world.as_ref(),
            abi::COMM_SELF => self.own.as_ref(),
            Comm(handle) => self.table.get(handle),
        };
        found.ok_or_else(|| unknown(comm))
    }

    pub fn get_mut(&mut self, comm: Comm) -> Result<&mut Communicator> {
        let found = match comm {
            abi::COMM_WORLD => self.world.as_mut(),
            abi::COMM_SELF => self.own.as_mut(),
            Comm(handle) => self.table.get_mut(handle),
        };
        found.ok_or_else(|| unknown(comm))
    }

    pub fn add(&mut self, communicator: Communicator) -> Result<Comm> {
        Ok(Comm(made(self.table.add(communicator), "communicators")?))
    }

    pub fn remove(&mut self, comm: Comm) -> Result<Communicator> {
        if comm == abi::COMM_WORLD || comm == abi::COMM_SELF {
            return Err(Failure::new(
                abi::ERR_COMM,
                "MPI_COMM_WORLD and MPI_COMM_SELF cannot be freed",
            ));
        }
        self.table.remove(comm.0).ok_or_else(|| unknown(comm))
    }
}

#[cold]
fn unknown(comm: Comm) -> Failure {
    let why = match comm {
        abi::COMM_NULL => "the communicator is MPI_COMM_NULL".to_owned(),
        abi::COMM_WORLD | abi::COMM_SELF => "MPI is not initialized, or is finalized".to_owned(),
        Comm(handle) => {
            format!("communicator {handle} does not exist: it was freed, or never made")
        }
    };
    Failure::new(abi::ERR_COMM, why)
}
