//! Beginning and end, clocks, memory, versions (MPI-5.0, chapters 9, 11 and 20).

#![allow(unsafe_code, reason = "allocates memory for the program")]

use super::errors;
use crate::abi::{Comm, Info, list, list_mut, put, put_text};
use crate::border::{called, given, named};
use crate::communicator::Communicator;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::info::Pairs;
use crate::state::{Phase, mpi};
use core::ffi::{c_char, c_int, c_void};
use refrain::World;
use refrain_border::clocks::{self, Answers};
use refrain_border::{addresses, same_memory};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{env, process};

/// Variables by which other launchers tell a process how many they have started.
const OTHER_LAUNCHERS: [&str; 3] = ["PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS"];

/// The answers to the program's questions for clocks and random bytes. The program's next call
/// returns an error again.
const ANSWERS: Answers = Answers {
    joining: "MPI_Init",
    is_idle: || mpi().idle_world().is_some(),
    number: |series, fresh| {
        let world = mpi().idle_world();
        let answer = world.map(|mut world| world.answer_number(series, fresh));
        answer.and_then(core::result::Result::ok).unwrap_or(fresh)
    },
    bytes: |fresh| {
        if let Some(mut world) = mpi().idle_world() {
            let _ = world.answer_bytes(fresh);
        }
    },
};

pub fn init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) -> Result {
    begin(abi::THREAD_SINGLE)
}

pub fn init_thread(
    _argc: *mut c_int,
    _argv: *mut *mut *mut c_char,
    required: c_int,
    provided: *mut c_int,
) -> Result {
    // More is refused by the level that is returned (section 11.6.2).
    let level = required.clamp(abi::THREAD_SINGLE, abi::THREAD_SERIALIZED);
    begin(level)?;
    put(provided, level);
    Ok(())
}

fn begin(level: c_int) -> Result {
    let mpi = mpi();
    match mpi.phase.get() {
        Phase::Before => {}
        Phase::Running => return Err(Failure::new(abi::ERR_OTHER, "MPI is initialized already")),
        Phase::After => {
            return Err(Failure::new(
                abi::ERR_OTHER,
                "MPI was finalized: it cannot be initialized again",
            ));
        }
    }
    mpi.thread_level.set(level);
    join()?;
    let mut world = mpi.world()?;
    let all = world.all();
    let context = world.take_context()?;
    let alone = [world.rank()];
    let own = world.group_with(&alone, context)?;
    let named = |group, name: &str| -> Result<Communicator> {
        let mut communicator = Communicator::new(&world, group)?;
        communicator.name = name.into();
        communicator.errhandler = errors::initial();
        Ok(communicator)
    };
    let communicators = [named(all, "MPI_COMM_WORLD")?, named(own, "MPI_COMM_SELF")?];
    let [all, own] = communicators;
    mpi.communicators.borrow_mut().begin(all, own);
    mpi.phase.set(Phase::Running);
    Ok(())
}

/// The variable that turns the check of one buffer for input and output on and off.
const CHECKS: &str = "REFRAIN_MPI_CHECKS";

fn checks() -> Result<bool> {
    match env::var(CHECKS).as_deref() {
        Ok("on") | Err(env::VarError::NotPresent) => Ok(true),
        Ok("off") => Ok(false),
        other => Err(Failure::argument(format_args!(
            "{CHECKS} is {:?}: set it to on or off",
            other.unwrap_or("no text")
        ))),
    }
}

/// Joins the job, unless a session or `MPI_Init` has done so.
pub fn join() -> Result {
    let mpi = mpi();
    if mpi.idle_world().is_some() {
        return Ok(());
    }
    same_memory::check().map_err(Failure::argument)?;
    mpi.checks.set(checks()?);
    clocks::join();
    addresses::begin_elsewhere();
    let mut world = World::init()?;
    world.name_calls(called);
    addresses::begin_at_line();
    warn_of_other_launchers(&world);
    mpi.set_world(Some(world));
    clocks::attach(ANSWERS);
    Ok(())
}

/// Leaves the job.
pub fn leave() -> Result {
    let mpi = mpi();
    {
        let mut world = mpi.world()?;
        // Sends go on from copies; receives are given up.
        for freed in std::mem::take(&mut mpi.requests.borrow_mut().freed) {
            world.free_held(freed);
        }
    }
    let result = mpi.set_world(None).map_or(Ok(()), World::finalize);
    clocks::detach();
    Ok(result?)
}

/// A program that another library's launcher has started would be as many jobs of one rank.
fn warn_of_other_launchers(world: &World) {
    let is_alone = world.size() == 1 && std::env::var_os("REFRAIN_RANK").is_none();
    let several = |name: &&&str| {
        let value = std::env::var(name).ok();
        let size = value.and_then(|value| value.parse::<u32>().ok());
        size.is_some_and(|size| size > 1)
    };
    if is_alone && let Some(name) = OTHER_LAUNCHERS.iter().find(several) {
        eprintln!(
            "refrain: this process is a job of one rank, but another launcher has started several ({name}): start the program with Refrain's mpiexec"
        );
    }
}

pub fn finalize() -> Result {
    let mpi = mpi();
    drop(mpi.world()?);
    // Functions of the program run at the end of MPI by this (section 11.2.4).
    let deleted = super::attributes::delete_all(abi::COMM_SELF);
    mpi.phase.set(Phase::After);
    if !super::sessions::leaves_at_exit() {
        leave()?;
    }
    deleted
}

pub fn initialized(flag: *mut c_int) -> Result {
    put(flag, (mpi().phase.get() != Phase::Before).into());
    Ok(())
}

pub fn finalized(flag: *mut c_int) -> Result {
    put(flag, (mpi().phase.get() == Phase::After).into());
    Ok(())
}

pub fn query_thread(provided: *mut c_int) -> Result {
    put(provided, mpi().thread_level.get());
    Ok(())
}

pub fn is_thread_main(flag: *mut c_int) -> Result {
    // The thread that initialized MPI: of a process that has one thread, or takes turns, the first.
    let is_first = std::thread::current().name() == Some("main") || is_first_thread();
    put(flag, is_first.into());
    Ok(())
}

fn is_first_thread() -> bool {
    std::fs::read_link("/proc/thread-self")
        .is_ok_and(|path| path.ends_with(process::id().to_string()))
}

/// Ends the job: a rank that ends by itself with an error is not started again.
pub fn abort(comm: Comm, code: c_int) -> Result {
    let rank = mpi().idle_world().map_or(0, |world| world.rank().0);
    let of = named(comm);
    eprintln!("refrain: rank {rank} called MPI_Abort on {of} with code {code}");
    let status = code & 0xff;
    process::exit(if status == 0 { 1 } else { status })
}

/// Seconds; within an operator and behind `MPI_Finalize` the last ones, which a later life has, too.
pub fn wtime() -> f64 {
    let last = &mpi().last_time;
    if let Some(Ok(time)) = mpi().idle_world().map(|mut world| world.time()) {
        last.set(time.as_secs_f64());
    }
    last.get()
}

pub fn wtick() -> f64 {
    1e-9
}

pub fn get_version(version: *mut c_int, subversion: *mut c_int) -> Result {
    put(version, abi::VERSION);
    put(subversion, abi::SUBVERSION);
    Ok(())
}

pub fn abi_get_version(major: *mut c_int, minor: *mut c_int) -> Result {
    put(major, abi::ABI_VERSION);
    put(minor, abi::ABI_SUBVERSION);
    Ok(())
}

pub fn get_library_version(version: *mut c_char, length: *mut c_int) -> Result {
    let text = concat!(
        "Refrain ",
        env!("CARGO_PKG_VERSION"),
        ": MPI with message logging"
    );
    let bytes = put_text(version, text, abi::MAX_LIBRARY_VERSION_STRING as usize);
    put(length, bytes as c_int);
    Ok(())
}

pub fn get_processor_name(name: *mut c_char, length: *mut c_int) -> Result {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let room = abi::MAX_PROCESSOR_NAME as usize;
    put(length, put_text(name, host.trim(), room) as c_int);
    Ok(())
}

/// What `MPI_Abi_set_fortran_booleans` has told: the size of a LOGICAL, and true and false.
type Booleans = (c_int, [u8; 16], [u8; 16]);
static FORTRAN: Mutex<(Pairs, Option<Booleans>)> = Mutex::new((Pairs::new(), None));

fn fortran() -> MutexGuard<'static, (Pairs, Option<Booleans>)> {
    FORTRAN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn give(pairs: Pairs, place: *mut Info) -> Result {
    put(place, mpi().infos.borrow_mut().add(pairs)?);
    Ok(())
}

pub fn abi_get_info(place: *mut Info) -> Result {
    let sizes = [
        ("mpi_aint_size", 8),
        ("mpi_count_size", 8),
        ("mpi_offset_size", 8),
    ];
    let pairs = sizes.map(|(key, bytes)| (key.into(), bytes.to_string().into()));
    give(pairs.into(), place)
}

pub fn abi_set_fortran_info(info: Info) -> Result {
    fortran().0 = mpi().infos.borrow().get(info)?;
    Ok(())
}

pub fn abi_get_fortran_info(place: *mut Info) -> Result {
    let pairs = fortran().0.clone();
    match pairs.is_empty() {
        true => {
            put(place, abi::INFO_NULL);
            Ok(())
        }
        false => give(pairs, place),
    }
}

/// Bytes of a LOGICAL.
fn logical(size: c_int) -> Result<usize> {
    match size {
        1 | 2 | 4 | 8 | 16 => Ok(size as usize),
        _ => Err(Failure::argument(format_args!(
            "a LOGICAL has {size} bytes: give 1, 2, 4, 8 or 16"
        ))),
    }
}

pub fn abi_set_fortran_booleans(size: c_int, is: *mut c_void, is_not: *mut c_void) -> Result {
    let bytes = logical(size)?;
    given("logical_true", is)?;
    given("logical_false", is_not)?;
    let read = |from: *mut c_void| {
        let mut value = [0; 16];
        // SAFETY: the standard asks the program for values of this size.
        value[..bytes].copy_from_slice(unsafe { list(from.cast::<u8>(), bytes) });
        value
    };
    fortran().1 = Some((size, read(is), read(is_not)));
    Ok(())
}

pub fn abi_get_fortran_booleans(
    size: c_int,
    is: *mut c_void,
    is_not: *mut c_void,
    is_set: *mut c_int,
) -> Result {
    let bytes = logical(size)?;
    given("logical_true", is)?;
    given("logical_false", is_not)?;
    let told = fortran().1.filter(|(of, ..)| *of == size);
    put(is_set, told.is_some().into());
    if let Some((_, true_value, false_value)) = told {
        for (to, value) in [(is, true_value), (is_not, false_value)] {
            // SAFETY: the standard asks the program for room of this size.
            unsafe { list_mut(to.cast::<u8>(), bytes) }.copy_from_slice(&value[..bytes]);
        }
    }
    Ok(())
}

/// Types of resources, and whether the process is restricted to one of each (section 11.2.2).
pub fn get_hw_resource_info(place: *mut Info) -> Result {
    give(vec![("mpi_shared_memory".into(), "true".into())], place)
}

/// Levels of profiling have no effect (section 15.2.4).
pub fn pcontrol(_level: c_int) -> Result {
    Ok(())
}

pub fn alloc_mem(size: i64, _info: Info, place: *mut c_void) -> Result {
    let bytes = usize::try_from(size)
        .map_err(|_| Failure::argument(format_args!("size {size}: give 0 or more")))?;
    // SAFETY: the C library's own function, which has this type.
    unsafe extern "C" {
        fn malloc(bytes: usize) -> *mut c_void;
    }
    // SAFETY: the C library's own function. The program's heap, since it is the program's memory.
    let memory = unsafe { malloc(bytes.max(1)) };
    if memory.is_null() {
        return Err(Failure::new(
            abi::ERR_NO_MEM,
            format_args!("{bytes} bytes cannot be allocated"),
        ));
    }
    put(place.cast::<*mut c_void>(), memory);
    Ok(())
}

pub fn free_mem(base: *mut c_void) -> Result {
    // SAFETY: the C library's own function, which has this type.
    unsafe extern "C" {
        fn free(memory: *mut c_void);
    }
    // SAFETY: the standard asks that `MPI_Alloc_mem` returned it.
    unsafe { free(base) };
    Ok(())
}

pub fn get_address(location: *const c_void, address: *mut i64) -> Result {
    put(address, location.expose_provenance() as i64);
    Ok(())
}

pub fn aint_add(base: i64, distance: i64) -> i64 {
    base.wrapping_add(distance)
}

pub fn aint_diff(first: i64, second: i64) -> i64 {
    first.wrapping_sub(second)
}
