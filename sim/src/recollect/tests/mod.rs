//! A later life collects everything, and notices what is missing.

mod logs;
mod play;

use super::*;
