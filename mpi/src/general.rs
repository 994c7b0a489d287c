//! Generalized requests: operations of the program (MPI-5.0, section 13.2).

#![allow(unsafe_code, reason = "calls functions of the program")]

use super::abi::{Grequestcancelfunction, Grequestfreefunction, Grequestqueryfunction, Status};
use super::failure::{Failure, Result};
use super::request::empty;
use core::ffi::{c_int, c_void};

/// What the program does for a generalized request.
#[derive(Clone, Copy, Debug)]
pub struct General {
    pub query: Option<Grequestqueryfunction>,
    pub free: Option<Grequestfreefunction>,
    pub cancel: Option<Grequestcancelfunction>,
    pub extra: *mut c_void,
    /// The program has said that it is complete.
    pub is_complete: bool,
}

impl General {
    /// Asks the program for the status.
    pub fn status(&self) -> Result<Status> {
        let mut status = empty();
        // SAFETY: the program gave the function for this.
        let code = (self.query).map_or(0, |query| unsafe { query(self.extra, &mut status) });
        returned(code, "the query function of the generalized request")?;
        Ok(status)
    }

    /// Tells the program that the request is gone.
    pub fn free(&self) -> Result {
        // SAFETY: as above.
        let code = (self.free).map_or(0, |free| unsafe { free(self.extra) });
        returned(code, "the free function of the generalized request")
    }

    pub fn cancel(&self) -> Result {
        let is_complete = self.is_complete.into();
        // SAFETY: as above.
        let code = (self.cancel).map_or(0, |cancel| unsafe { cancel(self.extra, is_complete) });
        returned(code, "the cancel function of the generalized request")
    }
}

fn returned(code: c_int, what: &str) -> Result {
    match code {
        0 => Ok(()),
        _ => Err(Failure::new(
            code,
            format_args!("{what} returned the error {code}"),
        )),
    }
}
