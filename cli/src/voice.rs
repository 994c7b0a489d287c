//! What the command says on standard error.

use core::fmt::Display;
use std::io::{Write as _, stderr};

/// A line on standard error. Nobody may be left to read it: the command goes on, where
/// `eprintln!` would end it.
pub fn tell(words: impl Display) {
    let _ = writeln!(stderr(), "{words}");
}
