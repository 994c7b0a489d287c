//! What is collected is what there was, and what is missing is missed.

mod events;
mod logs;
mod play;

use super::*;
