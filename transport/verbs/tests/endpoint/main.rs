//! Endpoints on real devices: on the first two ports, such as `rxe0` and `rxe1` of `ci/softroce`.
//! Skipped if there is none.

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
