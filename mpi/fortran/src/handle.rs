//! Handles, which are INTEGER in Fortran.

#![allow(unsafe_code, reason = "calls the conversions of C")]

use super::c;
use core::ffi::c_int;

/// The numbers of predefined handles: they are the same in C and Fortran (MPI-5.0, section 20.3.3).
const PREDEFINED: usize = 1 << 10;

/// A handle of C.
pub trait Handle: Copy {
    /// The handle of no object.
    const NULL: Self;
    /// The handle that Fortran has as this number.
    fn from_int(number: c_int) -> Self;
    /// The number that Fortran has.
    fn to_int(self) -> c_int;
}

macro_rules! handle {
    ($($name:ident $null:literal $from:ident $to:ident;)*) => {$(
        impl Handle for c::$name {
            const NULL: Self = Self($null);

            #[inline]
            fn from_int(number: c_int) -> Self {
                match usize::try_from(number) {
                    Ok(number) if number < PREDEFINED => Self(number),
                    // SAFETY: it asks nothing of the number.
                    _ => unsafe { c::$from(number) },
                }
            }

            #[inline]
            fn to_int(self) -> c_int {
                match self.0 < PREDEFINED {
                    true => self.0 as c_int,
                    // SAFETY: the handle is one of C.
                    false => unsafe { c::$to(self) },
                }
            }
        }
    )*};
}

handle!(
    Comm 256 PMPI_Comm_fromint PMPI_Comm_toint;
    Datatype 512 PMPI_Type_fromint PMPI_Type_toint;
    Errhandler 320 PMPI_Errhandler_fromint PMPI_Errhandler_toint;
    File 280 PMPI_File_fromint PMPI_File_toint;
    Group 264 PMPI_Group_fromint PMPI_Group_toint;
    Info 304 PMPI_Info_fromint PMPI_Info_toint;
    Message 296 PMPI_Message_fromint PMPI_Message_toint;
    Op 32 PMPI_Op_fromint PMPI_Op_toint;
    Request 384 PMPI_Request_fromint PMPI_Request_toint;
    Session 288 PMPI_Session_fromint PMPI_Session_toint;
    Win 272 PMPI_Win_fromint PMPI_Win_toint;
);
