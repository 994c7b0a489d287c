//! Makes `mpi.h`.

use super::prototype::{Parameter, Prototype};
use super::{Constant, constants, functions};
use core::fmt::Write as _;

/// Types of the header that are not constants or functions.
const TYPES: &str = include_str!("../types.h");

/// The text of `mpi.h`.
pub fn header() -> String {
    let mut text = TYPES.to_owned();
    text += "\n/* Constants */\n";
    for constant in constants() {
        let _ = writeln!(text, "#define MPI_{} {}", constant.name, value(&constant));
    }
    text += "\n/* Functions */\n";
    for function in functions() {
        let parameters = parameters(&function.prototype);
        let result = prefixed(&function.prototype.result);
        for prefix in ["MPI_", "PMPI_"] {
            let _ = writeln!(text, "{result} {prefix}{}({parameters});", function.name);
        }
    }
    text + END
}

const END: &str = "
#ifdef __cplusplus
}
#endif
#endif
";

fn value(constant: &Constant) -> String {
    match constant.of {
        "int" if constant.value >= 0 => constant.value.to_string(),
        "int" => format!("({})", constant.value),
        of => format!("(({}){})", prefixed(of), constant.value),
    }
}

fn parameters(prototype: &Prototype) -> String {
    let all = prototype.parameters.iter();
    let all: Vec<String> = all
        .map(|parameter| declared(prototype, parameter))
        .collect();
    match all.is_empty() {
        true => "void".into(),
        false => all.join(", "),
    }
}

/// A parameter with its name: brackets stand behind it.
fn declared(prototype: &Prototype, parameter: &Parameter) -> String {
    let of = prototype.type_of(parameter);
    let (plain, brackets) = match of.find('[') {
        Some(at) => of.split_at(at),
        None => (&of[..], ""),
    };
    match parameter.name.is_empty() {
        true => prefixed(plain),
        false => format!("{} {}{brackets}", prefixed(plain), parameter.name),
    }
}

/// A type with the prefix, if it is one of MPI.
fn prefixed(of: &str) -> String {
    let (constant, word) = match of.strip_prefix("const ") {
        Some(word) => ("const ", word),
        None => ("", of),
    };
    let is_of_mpi = word.starts_with(|first: char| first.is_ascii_uppercase());
    format!("{constant}{}{word}", if is_of_mpi { "MPI_" } else { "" })
}
