//! The pure part of collectives: what each place of a group does, and how operands combine.
//!
//! Everything here is a function of its arguments: no clock, thread, randomness or I/O. An
//! executor elsewhere begins the steps of a [`Schedule`] and moves bytes.
//!
//! | file | subject |
//! |---|---|
//! | `schedule` | [`Schedule`]: steps over input, output and scratch; how an executor walks them |
//! | `call` | [`Call`]: a collective and its arguments at one place |
//! | `wrong_call` | [`WrongCall`]: what no algorithm can do |
//! | `algorithms` | [`Algorithm`]: the algorithms of the literature, one collective a file |
//! | `schedules` | [`Schedules`]: the schedules of calls, made once for calls that come again |
//! | `choice` | [`choice::Table`]: which algorithm for which call |
//! | `reduction` | [`Reduction`]: operators on bytes |
//! | `cost` | messages, bytes and critical path of an algorithm, counted from its schedules |
//! | `hierarchical` | algorithms of several hosts, made of stages |
//! | `group`, `hosts`, `tree`, `cube`, `blocks` | places, and shapes that algorithms share |
//! | `check` | executes the schedules of all places without a network (feature `test-doubles`) |
//!
//! Must never know: ranks of a job, messages, protocols.
//!
//! Docs: `docs/design/collectives.md`.

#![forbid(unsafe_code)]

pub mod algorithms;
mod blocks;
mod call;
#[cfg(feature = "test-doubles")]
pub mod check;
pub mod choice;
pub mod cost;
mod cube;
mod group;
mod hierarchical;
mod hosts;
pub mod reduction;
mod schedule;
mod schedules;
mod tree;
mod wrong_call;

pub use algorithms::{Algorithm, Parameters};
pub use blocks::{Blocks, DenseBlocks};
pub use call::{Arguments, Call, Operation, OwnResults, Prefix, Results};
pub use group::Group;
pub use hosts::Hosts;
pub use reduction::Reduction;
pub use schedule::{Action, Buffer, Part, Schedule, Side, Step};
pub use schedules::{Chosen, Schedules};
pub use wrong_call::WrongCall;
