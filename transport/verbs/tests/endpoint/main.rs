//! Endpoints on real devices: two on the first two ports that there are, as
//! `rxe0` and `rxe1` of `ci/softroce`. Skipped where there is none.

mod messages;
mod pair;
