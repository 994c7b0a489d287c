//! Communicators and intercommunicators (MPI-5.0, sections 7.4 and 7.6).
//!
//! Members agree by collectives of the communicator that a new one is made from, or, where only some
//! of them call, by messages in a context that no communicator has: a communicator's context without
//! its highest bit.

#![allow(unsafe_code, reason = "reads handles of the program")]

use super::attributes::delete_all;
use super::buffering::{Owner, forget};
use super::errors;
use crate::abi::{Comm, Errhandler, Group, Info, Request, put, put_text, text};
use crate::attribute::copied;
use crate::communicator::Communicator;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::group::{self, Members};
use crate::info::Pairs;
use crate::request::Entry;
use crate::state::mpi;
use core::ffi::{c_char, c_int};
use refrain::collective::{allgather, bcast};
use refrain::{Rank, World, from, to};

/// Contexts of communicators have this bit.
const OF_COMMUNICATORS: u32 = 1 << 31;
/// The context in which groups without a communicator agree.
const OF_GROUPS: u32 = OF_COMMUNICATORS - 1;

fn get(comm: Comm) -> Result<Communicator> {
    mpi().communicators.borrow().get(comm).cloned()
}

fn give(communicator: Communicator, place: *mut Comm) -> Result {
    put(place, mpi().communicators.borrow_mut().add(communicator)?);
    Ok(())
}

fn give_or_null(communicator: Option<Communicator>, place: *mut Comm) -> Result {
    match communicator {
        Some(communicator) => give(communicator, place),
        None => {
            put(place, abi::COMM_NULL);
            Ok(())
        }
    }
}

fn intra(comm: Comm) -> Result<Communicator> {
    let communicator = get(comm)?;
    match communicator.remote {
        None => Ok(communicator),
        Some(_) => Err(Failure::new(
            abi::ERR_COMM,
            "the communicator is an intercommunicator: this call is for others",
        )),
    }
}

#[inline]
pub fn comm_rank(comm: Comm, rank: *mut c_int) -> Result {
    put(rank, mpi().communicators.borrow().get(comm)?.me as c_int);
    Ok(())
}

#[inline]
pub fn comm_size(comm: Comm, size: *mut c_int) -> Result {
    put(
        size,
        mpi().communicators.borrow().get(comm)?.size() as c_int,
    );
    Ok(())
}

pub fn comm_remote_size(comm: Comm, size: *mut c_int) -> Result {
    put(size, remote(comm)?.len() as c_int);
    Ok(())
}

fn remote(comm: Comm) -> Result<Members> {
    get(comm)?.remote.ok_or_else(|| {
        Failure::new(
            abi::ERR_COMM,
            "the communicator is not an intercommunicator",
        )
    })
}

pub fn comm_test_inter(comm: Comm, flag: *mut c_int) -> Result {
    put(flag, get(comm)?.remote.is_some().into());
    Ok(())
}

pub fn comm_group(comm: Comm, place: *mut Group) -> Result {
    let members = get(comm)?.ranks;
    put(place, mpi().groups.borrow_mut().add(members)?);
    Ok(())
}

pub fn comm_remote_group(comm: Comm, place: *mut Group) -> Result {
    let members = remote(comm)?;
    put(place, mpi().groups.borrow_mut().add(members)?);
    Ok(())
}

pub fn comm_compare(first: Comm, second: Comm, result: *mut c_int) -> Result {
    let (one, other) = (get(first)?, get(second)?);
    let groups = group::compare(&one.ranks, &other.ranks);
    let remotes = match (&one.remote, &other.remote) {
        (None, None) => abi::IDENT,
        (Some(one), Some(other)) => group::compare(one, other),
        _ => abi::UNEQUAL,
    };
    put(
        result,
        match (groups, remotes) {
            _ if first == second => abi::IDENT,
            (abi::UNEQUAL, _) | (_, abi::UNEQUAL) => abi::UNEQUAL,
            (abi::IDENT, abi::IDENT) => abi::CONGRUENT,
            _ => abi::SIMILAR,
        },
    );
    Ok(())
}

pub fn comm_get_parent(place: *mut Comm) -> Result {
    put(place, abi::COMM_NULL);
    Ok(())
}

pub fn comm_set_name(comm: Comm, name: *const c_char) -> Result {
    // SAFETY: the standard asks the program for a text.
    let name = unsafe { text(name) }.unwrap_or_default();
    mpi().communicators.borrow_mut().get_mut(comm)?.name = name;
    Ok(())
}

pub fn comm_get_name(comm: Comm, place: *mut c_char, length: *mut c_int) -> Result {
    let name = match comm {
        abi::COMM_NULL => "MPI_COMM_NULL".into(),
        comm => get(comm)?.name,
    };
    put(
        length,
        put_text(place, &name, abi::MAX_OBJECT_NAME as usize) as c_int,
    );
    Ok(())
}

pub fn comm_set_info(comm: Comm, info: Info) -> Result {
    let hints = mpi().infos.borrow().hints(info)?;
    let mut communicators = mpi().communicators.borrow_mut();
    let known = &mut communicators.get_mut(comm)?.hints;
    // Hints that are not named stay (section 7.4.4).
    known.retain(|(key, _)| hints.iter().all(|(new, _)| new != key));
    known.extend(hints);
    Ok(())
}

pub fn comm_get_info(comm: Comm, place: *mut Info) -> Result {
    let hints = get(comm)?.hints;
    put(place, mpi().infos.borrow_mut().add(hints)?);
    Ok(())
}

/// A new communicator has the error handler of the one that it is made from.
fn made_from(parent: &Communicator, mut made: Communicator) -> Communicator {
    made.errhandler = parent.errhandler;
    made
}

fn duplicate(comm: Comm, hints: Option<Pairs>) -> Result<Communicator> {
    let old = get(comm)?;
    let attributes = copied(comm.0, &old.attributes)?;
    let mut world = mpi().world()?;
    let group = world.duplicate(old.group)?;
    let mut new = match &old.remote {
        None => Communicator::new(&world, group)?,
        Some(remote) => {
            let context = inter_context(&mut world, &old)?;
            Communicator::between(&mut world, group, remote.clone(), context)?
        }
    };
    new.attributes = attributes;
    new.topology = old.topology.clone();
    new.hints = hints.unwrap_or_else(|| old.hints.clone());
    Ok(made_from(&old, new))
}

pub fn comm_dup(comm: Comm, place: *mut Comm) -> Result {
    give(duplicate(comm, None)?, place)
}

pub fn comm_dup_with_info(comm: Comm, info: Info, place: *mut Comm) -> Result {
    let hints = mpi().infos.borrow().hints(info)?;
    give(duplicate(comm, Some(hints))?, place)
}

pub fn comm_idup(comm: Comm, place: *mut Comm, request: *mut Request) -> Result {
    begin_duplicate(comm, None, place, request)
}

pub fn comm_idup_with_info(
    comm: Comm,
    info: Info,
    place: *mut Comm,
    request: *mut Request,
) -> Result {
    let hints = mpi().infos.borrow().hints(info)?;
    begin_duplicate(comm, Some(hints), place, request)
}

/// As [`duplicate`], without waiting: the first member sends contexts to all, and the end of the
/// request makes the communicator.
fn begin_duplicate(
    comm: Comm,
    hints: Option<Pairs>,
    place: *mut Comm,
    request: *mut Request,
) -> Result {
    let old = get(comm)?;
    let attributes = copied(comm.0, &old.attributes)?;
    let mut world = mpi().world()?;
    // Of the local members, and of both sides of an intercommunicator.
    let mut contexts = Box::new([0u32; 2]);
    let (all, me) = match &old.union {
        None => (old.group, old.me),
        Some(union) => (union.group, union.local + old.me),
    };
    let is_first = me == 0;
    if is_first {
        *contexts = [world.take_context()?, world.take_context()?];
    }
    // SAFETY: the box is kept until the request has ended.
    let library = unsafe { world.begin_collective(bcast(all, 0, &mut contexts[..]))? };
    drop(world);
    let handle = mpi().communicators.borrow_mut().add(old.clone())?;
    put(place, handle);
    let mut entry = Entry::library(library, None);
    entry.rare_mut().then = Some(Box::new(move || {
        let mut world = mpi().world()?;
        let group = world.group_with(&old.ranks, contexts[0])?;
        let mut new = match &old.remote {
            None => Communicator::new(&world, group)?,
            // The sides are disjoint, so both have the same context.
            Some(remote) => Communicator::between(&mut world, group, remote.clone(), contexts[1])?,
        };
        new.attributes = attributes.clone();
        new.topology = old.topology.clone();
        new.hints = hints.clone().unwrap_or_else(|| old.hints.clone());
        *mpi().communicators.borrow_mut().get_mut(handle)? = made_from(&old, new);
        Ok(())
    }));
    mpi().give(request, entry)
}

pub fn comm_free(place: *mut Comm) -> Result {
    // SAFETY: the standard asks the program for a handle.
    let comm = unsafe { *place };
    delete_all(comm)?;
    let freed = mpi().communicators.borrow_mut().remove(comm)?;
    forget(Owner::Comm(comm));
    let mut world = mpi().world()?;
    world.release(freed.group)?;
    if let Some(union) = freed.union {
        world.release(union.group)?;
    }
    put(place, abi::COMM_NULL);
    Ok(())
}

pub fn comm_disconnect(place: *mut Comm) -> Result {
    comm_free(place)
}

pub fn comm_split(comm: Comm, color: c_int, key: c_int, place: *mut Comm) -> Result {
    let color = match color {
        abi::UNDEFINED => None,
        color => Some(u32::try_from(color).map_err(|_| {
            Failure::argument(format_args!(
                "color {color}: give 0 or more, or MPI_UNDEFINED"
            ))
        })?),
    };
    let old = get(comm)?;
    match old.remote {
        None => split(&old, color, key, place),
        Some(_) => split_inter(&old, color, key, place),
    }
}

/// As [`split`], of an intercommunicator: members with a color on both sides become one.
fn split_inter(old: &Communicator, color: Option<u32>, key: c_int, place: *mut Comm) -> Result {
    const NO_COLOR: u32 = u32::MAX;
    let mut world = mpi().world()?;
    let local = world.split(old.group, color, key.into())?;
    // Each side tells the other one the colors and keys of its members, by place.
    let own = [color.unwrap_or(NO_COLOR), key as u32];
    let mut all = vec![0; 2 * old.ranks.len()];
    world.collective(allgather(old.group, &own, &mut all[..]))?;
    let mut list = Vec::new();
    if old.me == 0 {
        let at = (old.context & !OF_COMMUNICATORS, 0);
        let (context, said) = agree(&mut world, old.peers()[0], at, &all)?;
        list = [vec![context], said].concat();
    }
    spread(&mut world, old, 0, &mut list)?;
    let theirs = list[1..].chunks_exact(2).zip(old.peers().iter());
    let mut remote: Vec<(c_int, Rank)> = theirs
        .filter(|(of, _)| Some(of[0]) == color)
        .map(|(of, rank)| (of[1] as c_int, *rank))
        .collect();
    // Stable: in the order of places.
    remote.sort_by_key(|(key, _)| *key);
    let made = match local {
        Some(group) if !remote.is_empty() => {
            let remote = remote.into_iter().map(|(_, rank)| rank).collect();
            let made = Communicator::between(&mut world, group, remote, list[0])?;
            Some(made_from(old, made))
        }
        Some(group) => {
            world.release(group)?;
            None
        }
        None => None,
    };
    drop(world);
    give_or_null(made, place)
}

fn split(old: &Communicator, color: Option<u32>, key: c_int, place: *mut Comm) -> Result {
    let made = {
        let mut world = mpi().world()?;
        let group = world.split(old.group, color, key.into())?;
        group
            .map(|group| Communicator::new(&world, group))
            .transpose()?
    };
    give_or_null(made.map(|made| made_from(old, made)), place)
}

pub fn comm_split_type(
    comm: Comm,
    split_type: c_int,
    key: c_int,
    info: Info,
    place: *mut Comm,
) -> Result {
    let old = get(comm)?;
    let hints = mpi().infos.borrow().hints(info)?;
    let memory = ("mpi_hw_resource_type".into(), "mpi_shared_memory".into());
    let asks_for_memory = hints.contains(&memory);
    let by_host = match split_type {
        abi::COMM_TYPE_SHARED => true,
        abi::COMM_TYPE_HW_GUIDED | abi::COMM_TYPE_RESOURCE_GUIDED => asks_for_memory,
        abi::COMM_TYPE_HW_UNGUIDED | abi::UNDEFINED => false,
        unknown => {
            return Err(Failure::argument(format_args!(
                "split type {unknown} does not exist"
            )));
        }
    };
    let color = host_color(&old)?;
    let color = color.filter(|_| by_host);
    match old.remote {
        None => split(&old, color, key, place),
        Some(_) => split_inter(&old, color, key, place),
    }
}

/// A number that members on one host have, and no others, as of the first life of this rank: the
/// place of the first of them, or a short hash in an intercommunicator, whose sides have places of
/// their own.
fn host_color(old: &Communicator) -> Result<Option<u32>> {
    let mut world = mpi().world()?;
    let own = [world.answer_number(HOST_SERIES, host_number())?];
    if old.remote.is_some() {
        return Ok(Some(own[0] as u32 >> 1));
    }
    let mut all = vec![0; old.ranks.len()];
    world.collective(allgather(old.group, &own, &mut all[..]))?;
    Ok(all
        .iter()
        .position(|host| *host == own[0])
        .map(|place| place as u32))
}

/// The series of recorded numbers that name hosts.
const HOST_SERIES: u8 = 15;

/// A number that another host does not have.
fn host_number() -> i64 {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    // FNV-1a
    let bytes = boot.bytes().chain(host.bytes());
    let hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    (hash >> 1) as i64
}

pub fn comm_create(comm: Comm, group: Group, place: *mut Comm) -> Result {
    let old = get(comm)?;
    let members = mpi().groups.borrow().get(group)?;
    check_subset(&members, &old)?;
    let me = old.ranks[old.me as usize];
    if old.remote.is_some() {
        let in_group = group::place(&members, me);
        let key = in_group.unwrap_or(0) as c_int;
        return split_inter(&old, in_group.map(|_| 0), key, place);
    }
    // Members of disjoint groups may call together, each with its own.
    let color = group::place(&members, me)
        .and(members.first())
        .map(|rank| rank.0);
    let key = group::place(&members, me).unwrap_or(0);
    split(&old, color, key as c_int, place)
}

fn check_subset(members: &[Rank], of: &Communicator) -> Result {
    match members.iter().all(|rank| of.ranks.contains(rank)) {
        true => Ok(()),
        false => Err(Failure::new(
            abi::ERR_GROUP,
            "the group has members that the communicator does not have",
        )),
    }
}

pub fn comm_create_group(comm: Comm, group: Group, tag: c_int, place: *mut Comm) -> Result {
    let old = intra(comm)?;
    let members = mpi().groups.borrow().get(group)?;
    check_subset(&members, &old)?;
    let made = among(&members, old.context & !OF_COMMUNICATORS, tag)?;
    give_or_null(made.map(|made| made_from(&old, made)), place)
}

/// A communicator of these members, who alone call this. `None`: this rank is not one of them.
fn among(members: &[Rank], context: u32, tag: c_int) -> Result<Option<Communicator>> {
    let mut world = mpi().world()?;
    let me = world.rank();
    if !members.contains(&me) {
        return Ok(None);
    }
    let first = members[0];
    let mut own = [0; 4];
    if me == first {
        own = world.take_context()?.to_le_bytes();
        for member in &members[1..] {
            world.send(&own[..], to(member.0).tag(tag).context(context))?;
        }
    } else {
        world.recv(&mut own[..], from(first.0).tag(tag).context(context))?;
    }
    let group = world.group_with(members, u32::from_le_bytes(own))?;
    Communicator::new(&world, group).map(Some)
}

/// A tag for a text that names a communicator.
fn tag_of(name: &[u8]) -> c_int {
    let hash = name.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    (hash >> 1) as c_int
}

pub fn comm_create_from_group(
    group: Group,
    name: *const c_char,
    info: Info,
    errhandler: Errhandler,
    place: *mut Comm,
) -> Result {
    // SAFETY: the standard asks the program for a text.
    let name = unsafe { text(name) }.unwrap_or_default();
    let members = mpi().groups.borrow().get(group)?;
    let hints = mpi().infos.borrow().hints(info)?;
    errors::check(errhandler)?;
    let made = among(&members, OF_GROUPS, tag_of(&name))?;
    let made = made.map(|mut made| {
        (made.errhandler, made.hints) = (errhandler, hints);
        made
    });
    give_or_null(made, place)
}

/// Sends a list of numbers to a rank and receives its list.
fn exchange(
    world: &mut World,
    peer: Rank,
    (context, tag): (u32, c_int),
    numbers: &[u32],
) -> Result<Vec<u32>> {
    let own: Vec<u8> = numbers
        .iter()
        .flat_map(|number| number.to_le_bytes())
        .collect();
    let (to, from) = (
        to(peer.0).tag(tag).context(context),
        from(peer.0).tag(tag).context(context),
    );
    let length = (own.len() as u32).to_le_bytes();
    let mut their_length = [0; 4];
    world.sendrecv(&length[..], to, &mut their_length[..], from)?;
    let mut theirs = vec![0; u32::from_le_bytes(their_length) as usize];
    world.sendrecv(&own[..], to, &mut theirs[..], from)?;
    let numbers = theirs.chunks_exact(4);
    Ok(numbers
        .map(|it| u32::from_le_bytes([it[0], it[1], it[2], it[3]]))
        .collect())
}

/// Sends a list of the member at place `root` to all members.
fn spread(world: &mut World, of: &Communicator, root: u32, list: &mut Vec<u32>) -> Result {
    let mut length = [list.len() as u64];
    world.collective(bcast(of.group, root, &mut length[..]))?;
    list.resize(length[0] as usize, 0);
    Ok(world.collective(bcast(of.group, root, &mut list[..]))?)
}

/// Leaders agree on a context: that of the lower rank. Returns it with what the other side says.
fn agree(
    world: &mut World,
    leader: Rank,
    place: (u32, c_int),
    say: &[u32],
) -> Result<(u32, Vec<u32>)> {
    let own = world.take_context()?;
    let mut all = vec![own];
    all.extend(say);
    let theirs = exchange(world, leader, place, &all)?;
    let Some((their_context, said)) = theirs.split_first() else {
        return Err(Failure::new(
            abi::ERR_INTERN,
            "the other leader sent nothing",
        ));
    };
    let context = match world.rank().0 < leader.0 {
        true => own,
        false => *their_context,
    };
    Ok((context, said.to_vec()))
}

/// A context for an intercommunicator like this one.
fn inter_context(world: &mut World, old: &Communicator) -> Result<u32> {
    let mut context = Vec::new();
    if old.me == 0 {
        let place = (old.context & !OF_COMMUNICATORS, 0);
        context = vec![agree(world, old.peers()[0], place, &[])?.0];
    }
    spread(world, old, 0, &mut context)?;
    Ok(context[0])
}

pub fn intercomm_create(
    local: Comm,
    local_leader: c_int,
    peers: Comm,
    remote_leader: c_int,
    tag: c_int,
    place: *mut Comm,
) -> Result {
    let old = intra(local)?;
    let leader = old.root(local_leader)?;
    let other = match old.me == leader {
        false => None,
        true => {
            let peers = get(peers)?;
            let other = peers.peers().get(remote_leader as usize).copied();
            let other = other.ok_or_else(|| {
                Failure::new(
                    abi::ERR_RANK,
                    format_args!("remote leader {remote_leader} does not exist"),
                )
            })?;
            Some((other, peers.context & !OF_COMMUNICATORS))
        }
    };
    let made = between(&old, leader, other, tag)?;
    give(made_from(&old, made), place)
}

/// An intercommunicator of this communicator and the one of another leader, whom the leader knows
/// with the context in which they agree.
fn between(
    old: &Communicator,
    leader: u32,
    other: Option<(Rank, u32)>,
    tag: c_int,
) -> Result<Communicator> {
    let mut world = mpi().world()?;
    let mut list = Vec::new();
    if let Some((other, context)) = other {
        let say: Vec<u32> = old.ranks.iter().map(|rank| rank.0).collect();
        let (context, ranks) = agree(&mut world, other, (context, tag), &say)?;
        list = [vec![context], ranks].concat();
    }
    spread(&mut world, old, leader, &mut list)?;
    let remote: Members = list[1..].iter().map(|rank| Rank(*rank)).collect();
    if remote.iter().any(|rank| old.ranks.contains(rank)) {
        return Err(Failure::new(abi::ERR_COMM, "a rank is in both groups"));
    }
    let group = world.duplicate(old.group)?;
    Communicator::between(&mut world, group, remote, list[0])
}

pub fn intercomm_create_from_groups(
    local: Group,
    local_leader: c_int,
    remote: Group,
    remote_leader: c_int,
    name: *const c_char,
    info: Info,
    errhandler: Errhandler,
    place: *mut Comm,
) -> Result {
    // SAFETY: the standard asks the program for a text.
    let tag = tag_of(&unsafe { text(name) }.unwrap_or_default());
    let (members, others) = {
        let groups = mpi().groups.borrow();
        (groups.get(local)?, groups.get(remote)?)
    };
    let hints = mpi().infos.borrow().hints(info)?;
    errors::check(errhandler)?;
    let Some(old) = among(&members, OF_GROUPS, tag)? else {
        return give_or_null(None, place);
    };
    let leader = old.root(local_leader)?;
    let other = others.get(remote_leader as usize).copied().ok_or_else(|| {
        Failure::new(
            abi::ERR_RANK,
            format_args!("remote leader {remote_leader} does not exist"),
        )
    })?;
    let other = (old.me == leader).then_some((other, OF_GROUPS));
    let mut made = between(&old, leader, other, tag)?;
    (made.errhandler, made.hints) = (errhandler, hints);
    give(made, place)
}

pub fn intercomm_merge(comm: Comm, high: c_int, place: *mut Comm) -> Result {
    let old = get(comm)?;
    let others = remote(comm)?;
    let is_high = u32::from(high != 0);
    let mut world = mpi().world()?;
    let mut list = Vec::new();
    if old.me == 0 {
        let at = (old.context & !OF_COMMUNICATORS, 0);
        let (context, said) = agree(&mut world, others[0], at, &[is_high])?;
        list = [vec![context], said].concat();
    }
    spread(&mut world, &old, 0, &mut list)?;
    // The group that is not high comes first; of two alike, that of the lower first rank.
    let is_first = match is_high.cmp(&list[1]) {
        core::cmp::Ordering::Less => true,
        core::cmp::Ordering::Greater => false,
        core::cmp::Ordering::Equal => old.ranks[0].0 < others[0].0,
    };
    let parts = match is_first {
        true => [&old.ranks, &others],
        false => [&others, &old.ranks],
    };
    let members: Vec<Rank> = parts
        .into_iter()
        .flat_map(|part| part.iter().copied())
        .collect();
    let group = world.group_with(&members, list[0])?;
    let made = Communicator::new(&world, group)?;
    drop(world);
    give(made_from(&old, made), place)
}
