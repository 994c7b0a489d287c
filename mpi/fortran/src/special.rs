//! Functions whose arguments differ in more than their form.

#![allow(unsafe_code, reason = "reads and writes values of the program")]

use super::address;
use super::attributes;
use super::c::{self, Comm, Datatype, Info, Request, Session, Win};
use super::handle::Handle;
use super::list::{List, handles};
use super::logical;
use super::text::{Room, Text, Texts};
use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

/// A text of the program with its length.
type Characters = (*mut c_char, usize);

/// Number of ranks to which a collective sends.
///
/// # Safety
/// The place can be read.
pub unsafe fn members(comm: *mut c_int) -> i64 {
    // SAFETY: the caller's promise; the places are those of this function.
    unsafe {
        let comm = Comm::from_int(*comm);
        let (mut is_between, mut count) = (0, 0);
        c::PMPI_Comm_test_inter(comm, &raw mut is_between);
        match is_between {
            0 => c::PMPI_Comm_size(comm, &raw mut count),
            _ => c::PMPI_Comm_remote_size(comm, &raw mut count),
        };
        count.into()
    }
}

/// The length of a list that belongs to a buffer: it has none if the buffer is MPI_IN_PLACE.
pub fn unless_in_place(buffer: *mut c_void, length: i64) -> i64 {
    const IN_PLACE: usize = 1;
    if buffer.addr() == IN_PLACE { 0 } else { length }
}

/// Number of dimensions of a communicator.
///
/// # Safety
/// The place can be read.
pub unsafe fn dimensions(comm: *mut c_int) -> i64 {
    let mut count = 0;
    // SAFETY: the caller's promise; the place is that of this function.
    unsafe { c::PMPI_Cartdim_get(Comm::from_int(*comm), &raw mut count) };
    count.into()
}

/// Number of neighbours from which a rank receives.
///
/// # Safety
/// The place can be read.
pub unsafe fn sources(comm: *mut c_int) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { neighbours(comm) }.0.into()
}

/// Number of neighbours to which a rank sends.
///
/// # Safety
/// The place can be read.
pub unsafe fn destinations(comm: *mut c_int) -> i64 {
    // SAFETY: the caller's promise.
    unsafe { neighbours(comm) }.1.into()
}

/// Number of neighbours from which a rank receives, and to which it sends.
///
/// # Safety
/// The place can be read.
unsafe fn neighbours(comm: *mut c_int) -> (c_int, c_int) {
    const CART: c_int = 211;
    const GRAPH: c_int = 212;
    const DIST_GRAPH: c_int = 213;
    let (mut topology, mut sources, mut destinations, mut rank) = (0, 0, 0, 0);
    // SAFETY: the caller's promise; the places are those of this function.
    unsafe {
        let comm = Comm::from_int(*comm);
        c::PMPI_Topo_test(comm, &raw mut topology);
        match topology {
            CART => {
                c::PMPI_Cartdim_get(comm, &raw mut sources);
                (2 * sources, 2 * sources)
            }
            GRAPH => {
                c::PMPI_Comm_rank(comm, &raw mut rank);
                c::PMPI_Graph_neighbors_count(comm, rank, &raw mut sources);
                (sources, sources)
            }
            DIST_GRAPH => {
                let (from, to) = (&raw mut sources, &raw mut destinations);
                c::PMPI_Dist_graph_neighbors_count(comm, from, to, &raw mut rank);
                (sources, destinations)
            }
            _ => (0, 0),
        }
    }
}

macro_rules! attributes {
    ($($of:ident $create:ident $get:ident $set:ident $value:ty;)*) => {$(
        /// Creates a key.
        ///
        /// # Safety
        /// The places are there, and the functions are those of such a key.
        pub unsafe fn $create(
            create: attributes::CreateKeyval,
            copy: *const c_void,
            delete: *const c_void,
            keyval: *mut c_int,
            extra_state: *mut c_void,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                let state = extra_state.cast::<$value>().read();
                attributes::create::<$of, $value>(create, copy, delete, keyval, state)
            }
        }

        /// Gets an attribute.
        ///
        /// # Safety
        /// The places are there.
        pub unsafe fn $get(
            get: unsafe extern "C" fn($of, c_int, *mut c_void, *mut c_int) -> c_int,
            object: *mut c_int,
            keyval: *mut c_int,
            value: *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            let (mut pointer, mut is_set) = (null_mut::<c_void>(), 0);
            // SAFETY: the caller's promise.
            unsafe {
                let at = (&raw mut pointer).cast();
                let code = get(Handle::from_int(*object), *keyval, at, &raw mut is_set);
                flag.write(logical::value(is_set));
                if code == 0 && is_set != 0 {
                    let known = attributes::predefined(*keyval, pointer);
                    let found = known.unwrap_or_else(|| attributes::value(pointer));
                    value.cast::<$value>().write(found as $value);
                }
                code
            }
        }

        /// Sets an attribute.
        ///
        /// # Safety
        /// The places are there.
        pub unsafe fn $set(
            set: unsafe extern "C" fn($of, c_int, *mut c_void) -> c_int,
            object: *mut c_int,
            keyval: *mut c_int,
            value: *mut c_void,
        ) -> c_int {
            // SAFETY: the caller's promise.
            unsafe {
                let pointer = attributes::pointer(value.cast::<$value>().read().into());
                set(Handle::from_int(*object), *keyval, pointer)
            }
        }
    )*};
}

attributes!(
    Comm comm_create_keyval comm_get_attr comm_set_attr i64;
    Datatype type_create_keyval type_get_attr type_set_attr i64;
    Win win_create_keyval win_get_attr win_set_attr i64;
    Comm keyval_create attr_get attr_put c_int;
);

/// Tells the compiler's values of LOGICAL, which this library uses too.
///
/// # Safety
/// The places have values of this size.
pub unsafe fn abi_set_fortran_booleans(
    set: unsafe extern "C" fn(c_int, *mut c_void, *mut c_void) -> c_int,
    size: *mut c_int,
    is: *mut c_void,
    is_not: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if size.read() as usize == size_of::<c_int>() {
            logical::note(is.cast::<c_int>().read(), is_not.cast::<c_int>().read());
        }
        set(*size, is, is_not)
    }
}

/// The value of a key of info.
///
/// # Safety
/// The places are there.
pub unsafe fn info_get(
    get: unsafe extern "C" fn(Info, *mut c_char, c_int, *mut c_char, *mut c_int) -> c_int,
    info: *mut c_int,
    key: Characters,
    valuelen: *mut c_int,
    value: Characters,
    flag: *mut c_int,
) -> c_int {
    let (mut room, mut is_set) = (Room::new(), 0);
    // SAFETY: the caller's promise.
    unsafe {
        let key = Text::stripped(key.0, key.1);
        let length = (*valuelen).min(Room::LONGEST);
        let (info, at) = (Handle::from_int(*info), room.at());
        let code = get(info, key.at(), length, at, &raw mut is_set);
        flag.write(logical::value(is_set));
        if is_set != 0 {
            room.write(value.0, value.1, code);
        }
        code
    }
}

/// As above; the length is asked for, and told.
///
/// # Safety
/// The places are there.
pub unsafe fn info_get_string(
    get: unsafe extern "C" fn(Info, *mut c_char, *mut c_int, *mut c_char, *mut c_int) -> c_int,
    info: *mut c_int,
    key: Characters,
    buflen: *mut c_int,
    value: Characters,
    flag: *mut c_int,
) -> c_int {
    let (mut room, mut is_set) = (Room::new(), 0);
    // SAFETY: the caller's promise.
    unsafe {
        let key = Text::stripped(key.0, key.1);
        let mut length = with_end(*buflen);
        let (info, at) = (Handle::from_int(*info), room.at());
        let code = get(info, key.at(), &raw mut length, at, &raw mut is_set);
        flag.write(logical::value(is_set));
        if is_set != 0 {
            if *buflen > 0 {
                room.write(value.0, value.1, code);
            }
            buflen.write(length - 1);
        }
        code
    }
}

/// The room in C for a text of this length: none for none.
fn with_end(length: c_int) -> c_int {
    match length {
        ..=0 => 0,
        length => length.min(Room::LONGEST) + 1,
    }
}

/// The name of a process set; the length is asked for, and told.
///
/// # Safety
/// The places are there.
pub unsafe fn session_get_nth_pset(
    get: unsafe extern "C" fn(Session, Info, c_int, *mut c_int, *mut c_char) -> c_int,
    session: *mut c_int,
    info: *mut c_int,
    n: *mut c_int,
    pset_len: *mut c_int,
    pset_name: Characters,
) -> c_int {
    let mut room = Room::new();
    // SAFETY: the caller's promise.
    unsafe {
        let mut length = with_end(*pset_len);
        let (session, info) = (Handle::from_int(*session), Handle::from_int(*info));
        let code = get(session, info, *n, &raw mut length, room.at());
        if code == 0 {
            if *pset_len > 0 {
                room.write(pset_name.0, pset_name.1, code);
            }
            pset_len.write(length - 1);
        }
        code
    }
}

/// The functions of a request of the program, and what they get.
struct Generalized {
    query: Query,
    free: Free,
    cancel: Cancel,
    extra_state: i64,
}

type Query = unsafe extern "C" fn(*mut i64, *mut c::Status, *mut c_int);
type Free = unsafe extern "C" fn(*mut i64, *mut c_int);
type Cancel = unsafe extern "C" fn(*mut i64, *mut c_int, *mut c_int);

type StartGeneralized = unsafe extern "C" fn(
    *const c_void,
    *const c_void,
    *const c_void,
    *mut c_void,
    *mut Request,
) -> c_int;

/// Starts a request of the program.
///
/// # Safety
/// The places are there, and the functions are those of such a request.
pub unsafe fn grequest_start(
    start: StartGeneralized,
    query: *const c_void,
    free: *const c_void,
    cancel: *const c_void,
    extra_state: *mut c_void,
    request: *mut c_int,
) -> c_int {
    use core::mem::transmute;
    // SAFETY: the program says so of its functions.
    let generalized = unsafe {
        Generalized {
            query: transmute::<*const c_void, Query>(query),
            free: transmute::<*const c_void, Free>(free),
            cancel: transmute::<*const c_void, Cancel>(cancel),
            extra_state: extra_state.cast::<i64>().read(),
        }
    };
    let state = Box::into_raw(Box::new(generalized));
    let mut made = Request::NULL;
    // SAFETY: the functions are those that C calls with this state.
    let code = unsafe {
        start(
            query_request as *const c_void,
            free_request as *const c_void,
            cancel_request as *const c_void,
            state.cast(),
            &raw mut made,
        )
    };
    if code != 0 {
        // SAFETY: C has not taken it.
        drop(unsafe { Box::from_raw(state) });
    }
    // SAFETY: the caller's promise.
    unsafe { request.write(made.to_int()) };
    code
}

/// # Safety
/// C calls it with the state of a request.
unsafe extern "C" fn query_request(state: *mut Generalized, status: *mut c::Status) -> c_int {
    let mut error = 0;
    // SAFETY: C passes the state that it got.
    unsafe { ((*state).query)(&raw mut (*state).extra_state, status, &raw mut error) };
    error
}

/// # Safety
/// C calls it with the state of a request: once, last.
unsafe extern "C" fn free_request(state: *mut Generalized) -> c_int {
    let mut error = 0;
    // SAFETY: C passes the state that it got, for the last time.
    let mut state = unsafe { Box::from_raw(state) };
    let (free, extra_state) = (state.free, &raw mut state.extra_state);
    // SAFETY: both places are those of this function.
    unsafe { free(extra_state, &raw mut error) };
    error
}

/// # Safety
/// C calls it with the state of a request.
unsafe extern "C" fn cancel_request(state: *mut Generalized, complete: c_int) -> c_int {
    let (mut complete, mut error) = (logical::value(complete), 0);
    // SAFETY: C passes the state that it got.
    unsafe {
        let extra_state = &raw mut (*state).extra_state;
        ((*state).cancel)(extra_state, &raw mut complete, &raw mut error);
    }
    error
}

type SpawnOne = unsafe extern "C" fn(
    *mut c_char,
    *mut *mut c_char,
    c_int,
    Info,
    c_int,
    Comm,
    *mut Comm,
    *mut c_int,
) -> c_int;

/// Starts processes.
///
/// # Safety
/// The places are there.
#[allow(clippy::too_many_arguments, reason = "the function is MPI's")]
pub unsafe fn comm_spawn(
    spawn: SpawnOne,
    command: Characters,
    argv: Characters,
    maxprocs: *mut c_int,
    info: *mut c_int,
    root: *mut c_int,
    comm: *mut c_int,
    intercomm: *mut c_int,
    codes: *mut c_int,
) -> c_int {
    let mut made = Comm::NULL;
    // SAFETY: the caller's promise.
    unsafe {
        let command = Text::read(command.0, command.1);
        let mut arguments = match address::has_no_arguments(argv.0) {
            true => None,
            false => Some(Texts::read(argv.0, argv.1, 1, None)),
        };
        let code = spawn(
            command.at(),
            arguments.as_mut().map_or(null_mut(), Texts::at),
            *maxprocs,
            Handle::from_int(*info),
            *root,
            Handle::from_int(*comm),
            &raw mut made,
            address::list(codes),
        );
        intercomm.write(made.to_int());
        code
    }
}

type SpawnSeveral = unsafe extern "C" fn(
    c_int,
    *mut *mut c_char,
    *mut *mut *mut c_char,
    *mut c_int,
    *mut Info,
    c_int,
    Comm,
    *mut Comm,
    *mut c_int,
) -> c_int;

/// Starts processes of several programs.
///
/// # Safety
/// The places are there.
#[allow(clippy::too_many_arguments, reason = "the function is MPI's")]
pub unsafe fn comm_spawn_multiple(
    spawn: SpawnSeveral,
    count: *mut c_int,
    commands: Characters,
    argv: Characters,
    maxprocs: *mut c_int,
    infos: *mut c_int,
    root: *mut c_int,
    comm: *mut c_int,
    intercomm: *mut c_int,
    codes: *mut c_int,
) -> c_int {
    let mut made = Comm::NULL;
    // SAFETY: the caller's promise.
    unsafe {
        let programs = usize::try_from(*count).unwrap_or(0);
        let mut commands = Texts::read(commands.0, commands.1, 1, Some(programs));
        let mut lists: Vec<Texts> = match address::has_no_arguments(argv.0) {
            true => Vec::new(),
            false => (0..programs)
                .map(|index| Texts::read(argv.0.add(index * argv.1), argv.1, programs, None))
                .collect(),
        };
        let mut lists: Vec<_> = lists.iter_mut().map(Texts::at).collect();
        let mut infos: List<Info> = handles(infos, (*count).into());
        let code = spawn(
            *count,
            commands.at(),
            if lists.is_empty() {
                null_mut()
            } else {
                lists.as_mut_ptr()
            },
            maxprocs,
            infos.at(),
            *root,
            Handle::from_int(*comm),
            &raw mut made,
            address::list(codes),
        );
        intercomm.write(made.to_int());
        code
    }
}

/// A function of C that registers a representation of data.
type Register = unsafe extern "C" fn(
    *mut c_char,
    *const c_void,
    *const c_void,
    *const c_void,
    *mut c_void,
) -> c_int;

/// Registers no representation of data: functions of Fortran for it are not supported, whatever C
/// does. The error goes to the handler of MPI_FILE_NULL.
pub fn register_datarep(
    _: Register,
    _: Characters,
    _: *const c_void,
    _: *const c_void,
    _: *const c_void,
    _: *mut c_void,
) -> c_int {
    const ERR_UNSUPPORTED_OPERATION: c_int = 55;
    // SAFETY: it checks its arguments.
    unsafe { c::PMPI_File_call_errhandler(c::File::NULL, ERR_UNSUPPORTED_OPERATION) };
    ERR_UNSUPPORTED_OPERATION
}

pub use register_datarep as register_datarep_c;
