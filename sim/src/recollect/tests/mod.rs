//! What is collected is what there was, and what is missing is missed.

mod logs;
mod play;

use super::*;
