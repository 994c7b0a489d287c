//! Endpoints on real devices: two on the first two ports that there are, as
//! `rxe0` and `rxe1` of `ci/softroce`. Skipped where there is none.

mod breaking;
mod bytes;
mod closing;
mod fencing;
mod flow;
mod greetings;
mod messages;
mod pair;
mod processes;
mod remote_memory;
mod unknown_clients;
mod waiting;
