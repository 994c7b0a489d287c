//! Makes `mpi.h`.

use super::prototype::{Parameter, Prototype};
use super::{Constant, HANDLES, constants, functions};
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
    text += "\n/* Handles are integers in Fortran, with the same numbers. */\n";
    for (_, of) in HANDLES {
        for prefix in ["MPI_", "PMPI_"] {
            let _ = writeln!(
                text,
                "#define {prefix}{of}_c2f(handle) {prefix}{of}_toint(handle)
#define {prefix}{of}_f2c(number) {prefix}{of}_fromint(number)"
            );
        }
    }
    for (removed, successor) in REMOVED {
        let _ = writeln!(text, "#define MPI_{removed} MPI_{successor}");
    }
    text + END
}

/// Functions and types that MPI 3.0 removed, and which have the same parameters as their successors.
const REMOVED: [(&str, &str); 8] = [
    ("Address", "Get_address"),
    ("Errhandler_create", "Comm_create_errhandler"),
    ("Errhandler_get", "Comm_get_errhandler"),
    ("Errhandler_set", "Comm_set_errhandler"),
    ("Handler_function", "Comm_errhandler_function"),
    ("Type_hindexed", "Type_create_hindexed"),
    ("Type_hvector", "Type_create_hvector"),
    ("Type_struct", "Type_create_struct"),
];

const END: &str = "
/* A status is the same in Fortran, as array and as type. */
typedef MPI_Status MPI_F08_status;
static __inline int MPI_Status_c2f(const MPI_Status *status, MPI_Fint *array)
{
    *(MPI_Status *)(void *)array = *status;
    return MPI_SUCCESS;
}
static __inline int MPI_Status_f2c(const MPI_Fint *array, MPI_Status *status)
{
    *status = *(const MPI_Status *)(const void *)array;
    return MPI_SUCCESS;
}
static __inline int MPI_Status_c2f08(const MPI_Status *status, MPI_F08_status *of_f08)
{
    *of_f08 = *status;
    return MPI_SUCCESS;
}
static __inline int MPI_Status_f082c(const MPI_F08_status *of_f08, MPI_Status *status)
{
    *status = *of_f08;
    return MPI_SUCCESS;
}

/* Removed by MPI 3.0 */
static __inline int MPI_Type_extent(MPI_Datatype datatype, MPI_Aint *extent)
{
    MPI_Aint lower_bound;
    return MPI_Type_get_extent(datatype, &lower_bound, extent);
}
static __inline int MPI_Type_lb(MPI_Datatype datatype, MPI_Aint *lower_bound)
{
    MPI_Aint extent;
    return MPI_Type_get_extent(datatype, lower_bound, &extent);
}
static __inline int MPI_Type_ub(MPI_Datatype datatype, MPI_Aint *upper_bound)
{
    MPI_Aint lower_bound;
    int code = MPI_Type_get_extent(datatype, &lower_bound, upper_bound);
    if (code == MPI_SUCCESS)
        *upper_bound += lower_bound;
    return code;
}

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
