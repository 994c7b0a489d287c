//! Error codes, classes and handlers (MPI-5.0, section 9.3).

#![allow(unsafe_code, reason = "calls error handlers of the program")]

use crate::abi::{Comm, Errhandler, HandleError, Session, Subject, put, put_text, text};
use crate::border::Handler;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::handles::Table;
use crate::state::{made, mpi};
use core::ffi::{c_char, c_int};
use std::env;

/// Error handlers of the program, and the classes and codes that it has added.
pub struct Errors {
    handlers: Table<HandleError>,
    /// By code, from `ERR_LASTCODE + 1` on: class and text; `None`: removed.
    added: Vec<Option<(c_int, Vec<u8>)>>,
}

impl Errors {
    pub const fn new() -> Self {
        Self {
            handlers: Table::new(),
            added: Vec::new(),
        }
    }

    fn added(&self, code: c_int) -> Option<&(c_int, Vec<u8>)> {
        let index = code.checked_sub(abi::ERR_LASTCODE + 1)?;
        self.added.get(usize::try_from(index).ok()?)?.as_ref()
    }

    fn added_mut(&mut self, code: c_int) -> Result<&mut Option<(c_int, Vec<u8>)>> {
        let index = code.checked_sub(abi::ERR_LASTCODE + 1);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let found = index.and_then(|index| self.added.get_mut(index));
        found.filter(|it| it.is_some()).ok_or_else(|| {
            Failure::argument(format_args!("the program has not added error code {code}"))
        })
    }

    fn add(&mut self, class: Option<c_int>) -> c_int {
        let code = abi::ERR_LASTCODE + 1 + self.added.len() as c_int;
        self.added.push(Some((class.unwrap_or(code), Vec::new())));
        code
    }

    /// The highest code in use (`MPI_LASTUSEDCODE`).
    pub fn last_used(&self) -> c_int {
        abi::ERR_LASTCODE + self.added.len() as c_int
    }
}

/// The error handler of an object. Errors without an object go to that of `MPI_COMM_SELF`, or, if that
/// was not changed, to that of `MPI_COMM_WORLD`.
pub fn handler(subject: Subject) -> Handler {
    let mpi = mpi();
    let (handle, of) = match subject {
        Subject::Session(session) if mpi.sessions.borrow().get(session.0).is_some() => {
            (of_session(session), session.0)
        }
        Subject::Comm(comm) if mpi.communicators.borrow().get(comm).is_ok() => {
            (of_communicator(comm), comm.0)
        }
        Subject::File => return Handler::Return,
        Subject::New(handler) => (handler, abi::COMM_NULL.0),
        Subject::Comm(_) | Subject::Session(_) | Subject::None => {
            let own = of_communicator(abi::COMM_SELF);
            match own {
                // Programs of older standards set the handler of MPI_COMM_WORLD.
                abi::ERRORS_ARE_FATAL => (of_communicator(abi::COMM_WORLD), abi::COMM_WORLD.0),
                own => (own, abi::COMM_SELF.0),
            }
        }
    };
    match handle {
        abi::ERRORS_RETURN => Handler::Return,
        abi::ERRORS_ARE_FATAL | abi::ERRORS_ABORT => Handler::Abort,
        Errhandler(handle) => match mpi.errors.borrow().handlers.get(handle) {
            Some(function) => Handler::Call(*function, of),
            None => Handler::Abort,
        },
    }
}

/// The variable of `mpiexec -initial-errhandler`.
const INITIAL: &str = "REFRAIN_MPI_ERRHANDLER";

/// The error handler of the predefined communicators before the program sets another one (MPI-5.0,
/// section 9.3.4). Other values of the variable count as the default.
pub fn initial() -> Errhandler {
    match env::var(INITIAL).as_deref() {
        Ok("mpi_errors_return") => abi::ERRORS_RETURN,
        Ok("mpi_errors_abort") => abi::ERRORS_ABORT,
        _ => abi::ERRORS_ARE_FATAL,
    }
}

fn of_session(session: Session) -> Errhandler {
    let sessions = mpi().sessions.borrow();
    sessions
        .get(session.0)
        .copied()
        .unwrap_or(abi::ERRORS_ARE_FATAL)
}

fn of_communicator(comm: Comm) -> Errhandler {
    let communicators = mpi().communicators.borrow();
    let found = communicators
        .get(comm)
        .or_else(|_| communicators.get(abi::COMM_SELF));
    match found {
        Ok(communicator) => communicator.errhandler,
        Err(_) => initial(),
    }
}

/// Calls an error handler of the program; returns the code that it leaves.
pub fn call_handler(function: HandleError, handle: usize, code: c_int) -> c_int {
    let (mut handle, mut left) = (handle, code);
    // SAFETY: the program has given a function of this type.
    unsafe { function(&raw mut handle, &raw mut left) };
    left
}

const NAMES: &[(&str, c_int)] = abi::ERROR_CLASSES;

/// The name of an error class.
pub fn name_of(code: c_int) -> String {
    let class = class_of(code);
    match NAMES.iter().find(|(_, known)| *known == class) {
        Some((name, _)) => format!("MPI_{name}"),
        None => format!("error {code}"),
    }
}

fn class_of(code: c_int) -> c_int {
    match mpi().errors.try_borrow() {
        Ok(errors) => errors.added(code).map_or(code, |(class, _)| *class),
        Err(_) => code,
    }
}

pub fn error_class(code: c_int, class: *mut c_int) -> Result {
    known(code)?;
    put(class, class_of(code));
    Ok(())
}

fn known(code: c_int) -> Result {
    let is_known = NAMES.iter().any(|(_, known)| *known == code);
    match is_known || mpi().errors.borrow().added(code).is_some() {
        true => Ok(()),
        false => Err(Failure::argument(format_args!(
            "error code {code} does not exist"
        ))),
    }
}

pub fn error_string(code: c_int, place: *mut c_char, length: *mut c_int) -> Result {
    known(code)?;
    let own = mpi()
        .errors
        .borrow()
        .added(code)
        .map(|(_, text)| text.clone());
    let said = own.unwrap_or_else(|| {
        let (last, text) = &*mpi().last_error.borrow();
        match code {
            0 => "MPI_SUCCESS: no error".into(),
            _ if *last == code => format!("{}: {text}", name_of(code)).into(),
            _ => name_of(code).into(),
        }
    });
    put(
        length,
        put_text(place, &said, abi::MAX_ERROR_STRING as usize) as c_int,
    );
    Ok(())
}

pub fn add_error_class(class: *mut c_int) -> Result {
    put(class, mpi().errors.borrow_mut().add(None));
    Ok(())
}

pub fn add_error_code(class: c_int, code: *mut c_int) -> Result {
    known(class)?;
    put(code, mpi().errors.borrow_mut().add(Some(class)));
    Ok(())
}

pub fn add_error_string(code: c_int, string: *const c_char) -> Result {
    // SAFETY: the standard asks the program for a text.
    let said = unsafe { text(string) }.unwrap_or_default();
    if let Some((_, text)) = mpi().errors.borrow_mut().added_mut(code)? {
        *text = said;
    }
    Ok(())
}

pub fn remove_error_class(class: c_int) -> Result {
    let mut errors = mpi().errors.borrow_mut();
    let is_used =
        |code: c_int| code != class && (errors.added(code)).is_some_and(|(of, _)| *of == class);
    let codes = (0..errors.added.len() as c_int).map(|index| abi::ERR_LASTCODE + 1 + index);
    if let Some(code) = codes.into_iter().find(|code| is_used(*code)) {
        return Err(Failure::argument(format_args!(
            "error class {class} has error code {code}: remove that first"
        )));
    }
    remove(&mut errors, class, true)
}

pub fn remove_error_code(code: c_int) -> Result {
    remove(&mut mpi().errors.borrow_mut(), code, false)
}

fn remove(errors: &mut Errors, code: c_int, is_class: bool) -> Result {
    let added = errors.added_mut(code)?;
    match added {
        Some((_, text)) if !text.is_empty() => Err(Failure::argument(format_args!(
            "error code {code} has a text: call MPI_Remove_error_string first"
        ))),
        Some((class, _)) if (*class == code) != is_class => Err(Failure::argument(format_args!(
            "{code} is an error {}",
            if is_class { "code" } else { "class" }
        ))),
        _ => {
            *added = None;
            Ok(())
        }
    }
}

pub fn remove_error_string(code: c_int) -> Result {
    match mpi().errors.borrow_mut().added_mut(code)? {
        Some((_, text)) if text.is_empty() => Err(Failure::argument(format_args!(
            "error code {code} has no text"
        ))),
        Some((_, text)) => {
            text.clear();
            Ok(())
        }
        None => Ok(()),
    }
}

fn create(function: Option<HandleError>, place: *mut Errhandler) -> Result {
    let function = function.ok_or_else(|| Failure::argument("the function is NULL"))?;
    let handle = made(
        mpi().errors.borrow_mut().handlers.add(function),
        "error handlers",
    )?;
    put(place, Errhandler(handle));
    Ok(())
}

pub fn check(handler: Errhandler) -> Result {
    let is_predefined = matches!(
        handler,
        abi::ERRORS_RETURN | abi::ERRORS_ARE_FATAL | abi::ERRORS_ABORT
    );
    match is_predefined || mpi().errors.borrow().handlers.get(handler.0).is_some() {
        true => Ok(()),
        false => Err(Failure::new(
            abi::ERR_ERRHANDLER,
            format_args!("error handler {} does not exist", handler.0),
        )),
    }
}

pub fn comm_create_errhandler(function: Option<HandleError>, place: *mut Errhandler) -> Result {
    create(function, place)
}

pub fn session_create_errhandler(function: Option<HandleError>, place: *mut Errhandler) -> Result {
    create(function, place)
}

pub fn errhandler_free(place: *mut Errhandler) -> Result {
    // SAFETY: the standard asks the program for a handle. A handler that is in use goes on, so the
    // function stays in the table.
    let handler = unsafe { *place };
    check(handler)?;
    put(place, abi::ERRHANDLER_NULL);
    Ok(())
}

pub fn comm_set_errhandler(comm: Comm, handler: Errhandler) -> Result {
    check(handler)?;
    mpi().communicators.borrow_mut().get_mut(comm)?.errhandler = handler;
    Ok(())
}

pub fn comm_get_errhandler(comm: Comm, place: *mut Errhandler) -> Result {
    put(place, mpi().communicators.borrow().get(comm)?.errhandler);
    Ok(())
}

pub fn comm_call_errhandler(comm: Comm, code: c_int) -> Result {
    mpi().communicators.borrow().get(comm)?;
    call_of(Subject::Comm(comm), code)
}

fn call_of(subject: Subject, code: c_int) -> Result {
    match handler(subject) {
        Handler::Call(function, handle) => {
            call_handler(function, handle, code);
            Ok(())
        }
        Handler::Return => Ok(()),
        Handler::Abort => Err(Failure::new(code, "the program called the error handler")),
    }
}

pub fn session_set_errhandler(session: Session, handler: Errhandler) -> Result {
    check(handler)?;
    match mpi().sessions.borrow_mut().get_mut(session.0) {
        Some(of) => *of = handler,
        None => return Err(no_session()),
    }
    Ok(())
}

pub fn session_get_errhandler(session: Session, place: *mut Errhandler) -> Result {
    let sessions = mpi().sessions.borrow();
    put(place, *sessions.get(session.0).ok_or_else(no_session)?);
    Ok(())
}

fn no_session() -> Failure {
    Failure::new(abi::ERR_SESSION, "the session does not exist")
}

pub fn session_call_errhandler(session: Session, code: c_int) -> Result {
    call_of(Subject::Session(session), code)
}
