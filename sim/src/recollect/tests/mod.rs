//! A later life collects all that there was, and finds what is missing.

mod logs;
mod play;

use super::*;
