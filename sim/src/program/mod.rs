//! The programs of ranks: a [`Program`] makes calls ([`Call`]) and gets answers ([`Answer`]); its
//! next call depends on nothing else, so it is piecewise deterministic. The same program runs on
//! real engines (`world`) and without engines (`reference`).

mod asking;
mod beginning;
mod call;
mod collectives;
mod rounds;
mod script;
mod stamp;

pub use call::{Answer, Call, Ended, Found, From, RequestNumber, TakenNumber};
pub use rounds::Program;
pub use script::{TAG_NAMED, TAG_NEVER, TAG_WILD};
pub use stamp::{Damage, Stamp, garbage, is_part, litter, payload, verify, without_garbage};
