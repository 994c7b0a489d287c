//! The standard ABI of MPI 5.0 as a table: functions with their parameters, constants with their
//! values. The header `mpi.h` and the functions that `libmpi_abi.so` exports are made from it, and so
//! are `mpif.h`, the modules for Fortran and the functions that `libmpifort_abi.so` exports.
//!
//! This crate must not know what a function does.

mod exports;
mod fortran;
mod header;
mod prototype;

pub use exports::{exports, version_script};
pub use fortran::{
    declarations, entries, fortran_symbols, include_file, mpi_f08_module, mpi_module,
};
pub use header::header;
pub use prototype::{Meaning, Parameter, Prototype};

use prototype::collective;

const FUNCTIONS: &str = include_str!("../functions.txt");
const CONSTANTS: &str = include_str!("../constants.txt");

/// The handle types, with the word of their conversions: `MPI_Type_toint` is of `MPI_Datatype`.
const HANDLES: [(&str, &str); 11] = [
    ("Comm", "Comm"),
    ("Datatype", "Type"),
    ("Errhandler", "Errhandler"),
    ("File", "File"),
    ("Group", "Group"),
    ("Info", "Info"),
    ("Message", "Message"),
    ("Op", "Op"),
    ("Request", "Request"),
    ("Session", "Session"),
    ("Win", "Win"),
];

/// Where the body of a function is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A function of this module, with this name.
    Function {
        /// The module.
        module: &'static str,
        /// The name, as Rust has it.
        name: String,
        /// Whether it is told that counts are large, or that they are not.
        is_told: bool,
    },
    /// As above, for a collective; it also says how the collective starts.
    Collective {
        /// The name, as Rust has it.
        name: String,
        /// The way.
        starts: Starts,
    },
    /// A handle from an integer, or back.
    Conversion,
    /// None: the function raises `MPI_ERR_UNSUPPORTED_OPERATION`.
    Missing,
}

/// How a collective starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Starts {
    /// It is complete when the call returns.
    Blocking,
    /// The call begins it.
    Begun,
    /// The call prepares it.
    Prepared,
}

/// An exported function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Without the prefix `MPI_`.
    pub name: String,
    /// Parameters and result, with types for this function.
    pub prototype: Prototype,
    /// Its body.
    pub body: Body,
}

/// All functions of the ABI: those of small and of large counts.
pub fn functions() -> Vec<Function> {
    let mut functions = Vec::new();
    let mut module = "";
    for line in FUNCTIONS.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            module = name.trim_end_matches(']');
        } else if let Some((name, rest)) = line.split_once(':') {
            add(&mut functions, module, name, &Prototype::read(rest));
        }
    }
    for (of, word) in HANDLES {
        let conversions = [
            (format!("{word}_toint"), format!("{of} handle")),
            (format!("{word}_fromint"), format!("int handle -> {of}")),
        ];
        for (name, text) in conversions {
            functions.push(Function {
                name,
                prototype: Prototype::read(&text),
                body: Body::Conversion,
            });
        }
    }
    functions.sort_by(|a, b| a.name.cmp(&b.name));
    functions
}

/// Adds the functions of a line.
fn add(functions: &mut Vec<Function>, module: &'static str, name: &str, prototype: &Prototype) {
    let (is_missing, name) = match name.strip_prefix('!') {
        Some(name) => (true, name),
        None => (false, name),
    };
    let (is_told, name) = match name.strip_prefix('~') {
        Some(name) => (true, name),
        None => (false, name),
    };
    let (is_collective, name) = match name.strip_prefix('*') {
        Some(name) => (true, name),
        None => (false, name),
    };
    let rust = name.to_ascii_lowercase();
    let all = match is_collective {
        true => collective(name, prototype)
            .map(|(name, prototype, starts)| {
                let name_of_body = rust.clone();
                let body = Body::Collective {
                    name: name_of_body,
                    starts,
                };
                (name, prototype, body)
            })
            .into(),
        false => {
            let body = Body::Function {
                module,
                name: rust,
                is_told,
            };
            vec![(name.to_owned(), prototype.clone(), body)]
        }
    };
    for (name, prototype, body) in all {
        let body = if is_missing { Body::Missing } else { body };
        if prototype.has_counts() {
            functions.push(Function {
                name: format!("{name}_c"),
                prototype: prototype.sized(true),
                body: body.clone(),
            });
        }
        functions.push(Function {
            name,
            prototype: prototype.sized(false),
            body,
        });
    }
}

/// A constant of the ABI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constant {
    /// Without the prefix `MPI_`.
    pub name: &'static str,
    /// Its type in C, without the prefix.
    pub of: &'static str,
    /// Its value; of a handle, the number.
    pub value: i64,
}

/// All constants of the ABI, by type and value.
pub fn constants() -> Vec<Constant> {
    let mut constants = Vec::new();
    let mut of = "";
    for line in CONSTANTS.lines().filter(|line| !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[') {
            of = name.trim_end_matches(']');
        } else if let Some((name, value)) = line.split_once(' ')
            && let Ok(value) = value.parse()
        {
            constants.push(Constant { name, of, value });
        }
    }
    constants
}
