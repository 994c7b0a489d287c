//! Lines on standard error.

use core::fmt::Display;
use std::io::Write as _;

/// Writes a line to standard error. A closed stderr is ignored, where `eprintln!`
/// panics.
pub fn report(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "refrain: {line}");
}
