//! Random nested types against type maps that are listed entry by entry, as the standard defines
//! them (MPI-5.0, 5.1).

mod again;
mod extremes;
mod map;
mod properties;
mod random;
#[path = "../../../../transport/tests/seed/mod.rs"]
mod seed;
