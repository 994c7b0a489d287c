//! What ranks do: a [`Program`] asks ([`Call`]) and is answered ([`Answer`]);
//! what it asks next depends on nothing else, so it is piecewise deterministic.
//! The same program runs on real engines (`job`) and on none
//! (`reference`).

mod asking;
mod beginning;
mod call;
mod rounds;
mod script;
mod stamp;

pub use call::{Answer, Call, Ended, Found, From, RequestNumber, TakenNumber};
pub use rounds::Program;
pub use script::{TAG_NAMED, TAG_NEVER, TAG_WILD};
pub use stamp::{Damage, Stamp, garbage, is_part, litter, payload, verify, without_garbage};
