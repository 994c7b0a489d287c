//! What the functions of the table are in Fortran: names and types of their arguments.

mod constants;
mod entries;
mod modules;
mod removed;
mod sections;

pub use constants::include_file;
pub use entries::{declarations, entries, fortran_symbols};
pub use modules::{mpi_f08_module, mpi_module};

use super::prototype::{Meaning, Parameter, counted};
use super::{Function, HANDLES, functions};

/// What an argument is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    /// A choice buffer, which is only read if this is set.
    Buffer(bool),
    /// INTEGER of this kind; empty: the default.
    Integer(&'static str),
    Logical,
    /// LOGICAL of the program, whose value C gets.
    AnyLogical,
    /// INTEGER that counts from 1.
    Index,
    /// A handle, with its type in C.
    Handle(String),
    Status,
    Text,
    /// A list of texts, with the number of its dimensions.
    Texts(usize),
    /// A function of the program, with the name of its interface.
    Function(String),
    /// An address that the function gives: TYPE(C_PTR), or INTEGER in older interfaces.
    Pointer,
    /// The buffer that a function detaches.
    Detached,
    /// A list of weights.
    Weights,
    /// A list of error codes.
    Codes,
    /// INTEGER(KIND=MPI_ADDRESS_KIND) that C has as a pointer, or INTEGER in functions of MPI 1.
    State,
}

/// What happens to an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
    InOut,
}

#[derive(Clone, Debug)]
struct Argument {
    name: String,
    of: Of,
    way: Way,
    /// Number of dimensions.
    rank: usize,
    /// The argument that has the number of elements.
    length: String,
}

/// A function as Fortran has it.
#[derive(Clone, Debug)]
struct Procedure {
    /// As in C.
    function: Function,
    /// Without those that Fortran does not have, and without `ierror`.
    arguments: Vec<Argument>,
    has_error: bool,
}

/// Functions of MPI 1, which `mpi_f08` does not have.
const OLD: [&str; 5] = [
    "Attr_delete",
    "Attr_get",
    "Attr_put",
    "Keyval_create",
    "Keyval_free",
];

impl Procedure {
    fn name(&self) -> &str {
        &self.function.name
    }

    fn is_large(&self) -> bool {
        self.name().ends_with("_c")
    }

    fn is_old(&self) -> bool {
        OLD.contains(&self.name())
    }

    fn has_buffers(&self) -> bool {
        (self.arguments.iter()).any(|argument| matches!(argument.of, Of::Buffer(_)))
    }

    /// The type of the result, for functions.
    fn result(&self) -> Option<&'static str> {
        match &self.function.prototype.result[..] {
            "double" => Some("DOUBLE PRECISION"),
            "Aint" => Some("INTEGER(KIND=MPI_ADDRESS_KIND)"),
            _ => None,
        }
    }

    /// Whether Fortran can tell the two functions of one name apart: some INTEGER has another size,
    /// or there are more arguments.
    fn differs_from_small(&self) -> bool {
        let all = &self.function.prototype.parameters;
        let has_longer = all
            .iter()
            .any(|parameter| counted(&parameter.of).is_some_and(|(_, [small, _])| small == "int"));
        has_longer || self.name().contains("_get_contents") || self.name().contains("_get_envelope")
    }
}

/// All functions that Fortran has, but for those that C does not have.
fn procedures() -> Vec<Procedure> {
    functions()
        .into_iter()
        .filter(is_fortran)
        .map(procedure)
        .collect()
}

/// The standard has no `Psend_init_c`: the count of `Psend_init` is large.
fn is_fortran(function: &Function) -> bool {
    let name = &function.name;
    if ["Psend_init_c", "Precv_init_c"].contains(&&name[..]) {
        return false;
    }
    !name.starts_with("T_") && !name.ends_with("_toint") && !name.ends_with("_fromint")
}

fn procedure(function: Function) -> Procedure {
    let arguments = function.prototype.parameters.iter();
    let arguments = arguments
        .filter(|parameter| {
            !matches!(&parameter.name[..], "argc" | "") && parameter.of != "char***"
        })
        .filter(|parameter| !(parameter.name == "argv" && function.name == "Info_create_env"))
        .map(|parameter| argument(&function, parameter))
        .collect();
    let has_error = function.prototype.result == "int" && function.name != "Pcontrol";
    Procedure {
        arguments,
        has_error,
        function,
    }
}

fn argument(function: &Function, parameter: &Parameter) -> Argument {
    let of = function.prototype.type_of(parameter);
    let is_const = of.starts_with("const ");
    let of = of.trim_start_matches("const ");
    let plain = of.trim_end_matches(['*', '[', ']', '3']);
    let levels = of.matches('*').count() + of.matches('[').count();
    let is_handle = HANDLES.iter().any(|(name, _)| *name == plain);
    let name = name(function, parameter);
    let kind = match (plain, &name[..]) {
        ("void", "extra_state" | "attribute_val") => Of::State,
        ("void", "baseptr") => Of::Pointer,
        ("void", "buffer_addr") => Of::Detached,
        ("void", "logical_true" | "logical_false") => Of::AnyLogical,
        ("void", _) => Of::Buffer(is_const),
        ("char", _) if of == "char*[]" => Of::Texts(1),
        ("char", _) if of == "char**[]" => Of::Texts(2),
        ("char", _) => Of::Text,
        ("Status", _) => Of::Status,
        ("Aint", _) => Of::Integer("MPI_ADDRESS_KIND"),
        ("Count", _) => Of::Integer("MPI_COUNT_KIND"),
        ("Offset", _) => Of::Integer("MPI_OFFSET_KIND"),
        ("int", "weights" | "sourceweights" | "destweights") => Of::Weights,
        ("int", "array_of_errcodes") => Of::Codes,
        ("int", _) => match parameter.meaning {
            Meaning::Number => Of::Integer(""),
            Meaning::Logical => Of::Logical,
            Meaning::Index => Of::Index,
        },
        (plain, _) if is_handle => Of::Handle(plain.to_owned()),
        (plain, _) => Of::Function(plain.to_owned()),
    };
    let is_list = kind != Of::Text && of.contains('[')
        || matches!(kind, Of::Weights | Of::Codes)
        || name == "array_of_statuses";
    let rank = match () {
        () if of.ends_with("[][3]") || kind == Of::Texts(2) => 2,
        () if is_list => 1,
        () => 0,
    };
    let is_written = match kind {
        Of::State => function.name.ends_with("get_attr") || function.name == "Attr_get",
        Of::AnyLogical => function.name == "Abi_get_fortran_booleans",
        Of::Function(_) | Of::Texts(_) => false,
        _ => !is_const && levels > 0 && !of.ends_with("[][3]"),
    };
    Argument {
        name,
        of: kind,
        way: match (is_written, parameter.is_inout) {
            (false, _) => Way::In,
            (true, false) => Way::Out,
            (true, true) => Way::InOut,
        },
        rank,
        length: parameter.length.clone(),
    }
}

/// The name that Fortran's keywords have.
fn name(function: &Function, parameter: &Parameter) -> String {
    match (&parameter.name[..], &function.name[..]) {
        ("indx", _) => "index",
        ("error", "Status_get_error" | "Status_set_error") => "err",
        ("dest", "Precv_init" | "Precv_init_c") => "source",
        (name, _) => name,
    }
    .to_owned()
}

/// Lists in brackets or behind a keyword are broken into lines of free form.
fn broken(line: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in line.split_inclusive(", ") {
        if column + word.len() > 96 {
            text.push_str("&\n        ");
            column = 8;
        }
        text.push_str(word);
        column += word.len();
    }
    text
}
