//! Generalized requests (MPI-5.0, section 13.2).

use crate::abi::{Grequestcancelfunction, Grequestfreefunction, Grequestqueryfunction, Request};
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::general::General;
use crate::request::{Entry, Operation};
use crate::state::mpi;
use core::ffi::c_void;

pub fn grequest_start(
    query: Option<Grequestqueryfunction>,
    free: Option<Grequestfreefunction>,
    cancel: Option<Grequestcancelfunction>,
    extra: *mut c_void,
    place: *mut Request,
) -> Result {
    let general = General {
        query,
        free,
        cancel,
        extra,
        is_complete: false,
    };
    mpi().give(
        place,
        Entry::new(Operation::General(Box::new(general)), None),
    )
}

pub fn grequest_complete(request: Request) -> Result {
    let freed = {
        let mut requests = mpi().requests.borrow_mut();
        let entry = requests.get_mut(request)?;
        let Operation::General(general) = &mut entry.operation else {
            return Err(Failure::new(
                abi::ERR_REQUEST,
                "the request is no generalized one",
            ));
        };
        general.is_complete = true;
        let general = **general;
        match entry.rare().is_some_and(|it| it.is_freed) {
            true => requests.remove(request).map(|_| Some(general))?,
            false => None,
        }
    };
    freed.map_or(Ok(()), |general| general.free())
}
