//! Functions that MPI 3.0 removed, and that programs still use.

/// Other names of functions, with those that they have now.
pub const RENAMED: [(&str, &str); 3] = [
    ("Errhandler_create", "Comm_create_errhandler"),
    ("Errhandler_get", "Comm_get_errhandler"),
    ("Errhandler_set", "Comm_set_errhandler"),
];

/// Functions with other arguments: name, the successor in C, and the arguments in Rust.
pub const REMOVED: [(&str, &str, &str); 7] = [
    (
        "Address",
        "Get_address",
        "location: *mut c_void, address: *mut c_int",
    ),
    (
        "Type_extent",
        "Type_get_extent",
        "datatype: *mut c_int, extent: *mut c_int",
    ),
    (
        "Type_hindexed",
        "Type_create_hindexed",
        "count: *mut c_int, lengths: *mut c_int, places: *mut c_int, oldtype: *mut c_int, newtype: *mut c_int",
    ),
    (
        "Type_hvector",
        "Type_create_hvector",
        "count: *mut c_int, length: *mut c_int, stride: *mut c_int, oldtype: *mut c_int, newtype: *mut c_int",
    ),
    (
        "Type_lb",
        "Type_get_extent",
        "datatype: *mut c_int, lower: *mut c_int",
    ),
    (
        "Type_struct",
        "Type_create_struct",
        "count: *mut c_int, lengths: *mut c_int, places: *mut c_int, types: *mut c_int, newtype: *mut c_int",
    ),
    (
        "Type_ub",
        "Type_get_extent",
        "datatype: *mut c_int, upper: *mut c_int",
    ),
];
