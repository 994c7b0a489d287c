//! Makes `mpif.h`, and the constants of the modules.

use super::super::{Constant, HANDLES, constants};
use core::fmt::Write as _;

/// Kinds, sizes and places that C does not have. MPI_INTEGER_KIND is of versions before 4.
const OWN: [(&str, i64); 8] = [
    ("ADDRESS_KIND", 8),
    ("COUNT_KIND", 8),
    ("INTEGER_KIND", 4),
    ("OFFSET_KIND", 8),
    ("STATUS_SIZE", 8),
    ("SOURCE", 1),
    ("TAG", 2),
    ("ERROR", 3),
];

/// Functions that programs pass to others, without the prefix.
pub const PREDEFINED: [&str; 12] = [
    "COMM_DUP_FN",
    "COMM_NULL_COPY_FN",
    "COMM_NULL_DELETE_FN",
    "TYPE_DUP_FN",
    "TYPE_NULL_COPY_FN",
    "TYPE_NULL_DELETE_FN",
    "WIN_DUP_FN",
    "WIN_NULL_COPY_FN",
    "WIN_NULL_DELETE_FN",
    "DUP_FN",
    "NULL_COPY_FN",
    "NULL_DELETE_FN",
];

/// As above, which are not called.
pub const CONVERSIONS: [&str; 2] = ["CONVERSION_FN_NULL", "CONVERSION_FN_NULL_C"];

/// Constants that are known by their addresses, each group in a common block. Blocks without an
/// underscore in their names have the same symbol with each compiler that appends one.
pub const BLOCKS: [(&str, &str, &[&str]); 4] = [
    (
        "MPIFBUF",
        "INTEGER",
        &["MPI_BOTTOM", "MPI_IN_PLACE", "MPI_BUFFER_AUTOMATIC"],
    ),
    (
        "MPIFSTS",
        "INTEGER",
        &[
            "MPI_STATUS_IGNORE(MPI_STATUS_SIZE)",
            "MPI_STATUSES_IGNORE(MPI_STATUS_SIZE,1)",
        ],
    ),
    (
        "MPIFLST",
        "INTEGER",
        &[
            "MPI_ERRCODES_IGNORE(1)",
            "MPI_UNWEIGHTED(1)",
            "MPI_WEIGHTS_EMPTY(1)",
        ],
    ),
    (
        "MPIFCHR",
        "CHARACTER*1",
        &["MPI_ARGV_NULL(1)", "MPI_ARGVS_NULL(1,1)"],
    ),
];

/// Constants that Fortran has as PARAMETER.
pub fn parameters() -> Vec<Constant> {
    let is_handle = |of: &str| HANDLES.iter().any(|(handle, _)| *handle == of);
    let is_of_tools = |name: &str| name.starts_with("T_ERR_") || name.starts_with("T_VERBOSITY_");
    let is_of_c =
        |name: &str| name.starts_with("F_") || name.starts_with("T_") && !is_of_tools(name);
    let own = OWN.iter().map(|&(name, value)| Constant {
        name,
        of: "int",
        value,
    });
    own.chain(constants())
        .filter(|constant| {
            (constant.of == "int" || is_handle(constant.of)) && !is_of_c(constant.name)
        })
        .map(|constant| Constant {
            value: constant.value - i64::from(is_room(constant.name)),
            ..constant
        })
        .collect()
}

/// Rooms for texts: in C they include the end.
fn is_room(name: &str) -> bool {
    name.starts_with("MAX_")
}

/// The type of a PARAMETER that is no handle.
pub fn integer(constant: &Constant) -> &'static str {
    match constant.name {
        "DISPLACEMENT_CURRENT" => "INTEGER(KIND=MPI_OFFSET_KIND)",
        _ => "INTEGER",
    }
}

/// The text of `mpif.h`, which is valid in fixed and free form.
pub fn include_file() -> String {
    let mut text = "! mpif.h: MPI 5.0, made by Refrain from its table of the ABI.\n".to_owned();
    for constant in parameters() {
        let (name, of, value) = (constant.name, integer(&constant), constant.value);
        let _ = writeln!(
            text,
            "      {of} MPI_{name}\n      PARAMETER (MPI_{name}={value})"
        );
    }
    for name in ["SUBARRAYS_SUPPORTED", "ASYNC_PROTECTS_NONBLOCKING"] {
        let _ = writeln!(
            text,
            "      LOGICAL MPI_{name}\n      PARAMETER (MPI_{name}=.FALSE.)"
        );
    }
    for (block, of, names) in BLOCKS {
        for name in names {
            let _ = writeln!(text, "      {of} {name}");
        }
        for name in names {
            let name = name.split('(').next().unwrap_or(name);
            let _ = writeln!(text, "      COMMON /{block}/ {name}");
        }
        let _ = writeln!(text, "      SAVE /{block}/");
    }
    for (of, name) in [
        ("DOUBLE PRECISION", "WTIME"),
        ("DOUBLE PRECISION", "WTICK"),
        ("INTEGER(KIND=MPI_ADDRESS_KIND)", "AINT_ADD"),
        ("INTEGER(KIND=MPI_ADDRESS_KIND)", "AINT_DIFF"),
    ] {
        for prefix in ["MPI", "PMPI"] {
            let _ = writeln!(
                text,
                "      {of} {prefix}_{name}\n      EXTERNAL {prefix}_{name}"
            );
        }
    }
    for name in PREDEFINED.iter().chain(&CONVERSIONS) {
        let _ = writeln!(text, "      EXTERNAL MPI_{name}");
    }
    text
}
