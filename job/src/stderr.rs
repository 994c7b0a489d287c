//! Lines on standard error. A closed stderr is ignored, where `eprintln!` panics.

use core::fmt::Display;
use std::io::Write as _;

/// Writes a line.
pub fn print(line: impl Display) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes a line that begins with `refrain: `.
pub fn report(line: impl Display) {
    print(format_args!("refrain: {line}"));
}
