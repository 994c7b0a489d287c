//! The library, the header and the table have the same functions, and values are those of the
//! standard.

#[path = "../../capi/tests/built/mod.rs"]
mod built;

use built::{compiler, target};
use refrain_mpi_abi::{constants, functions, header};
use std::collections::BTreeSet;
use std::fs;

/// Names in the dynamic symbol table of an ELF file, with the binding of each: 1 global, 2 weak.
fn symbols(library: &[u8]) -> BTreeSet<(String, u8)> {
    let number = |at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&library[at..at + bytes]);
        u64::from_le_bytes(number) as usize
    };
    let (sections, count) = (number(40, 8), number(60, 2));
    let header = |index: usize| sections + 64 * index;
    const DYNAMIC_SYMBOLS: usize = 11;
    let table = (0..count).find(|index| number(header(*index) + 4, 4) == DYNAMIC_SYMBOLS);
    let table = header(table.expect("a shared library"));
    let names = number(header(number(table + 40, 4)) + 24, 8);
    let (begin, bytes) = (number(table + 24, 8), number(table + 32, 8));
    let entries = (begin..begin + bytes).step_by(24);
    let defined = entries.filter(|entry| number(entry + 6, 2) != 0);
    let named = defined.map(|entry| {
        let name = &library[names + number(entry, 4)..];
        let end = name.iter().position(|byte| *byte == 0).unwrap();
        let name = String::from_utf8_lossy(&name[..end]).into_owned();
        (name, library[entry + 4] >> 4)
    });
    named.collect()
}

#[test]
fn each_function_is_exported_twice() {
    let library = fs::read(target().join("examples/libmpi_under_test.so")).unwrap();
    let exported = symbols(&library);
    let mpi = |(name, _): &&(String, u8)| name.starts_with("MPI_") || name.starts_with("PMPI_");
    let exported: BTreeSet<_> = exported.iter().filter(mpi).cloned().collect();
    let functions = functions();
    assert_eq!(functions.len(), 664);
    let expected = functions.iter().flat_map(|function| {
        let name = &function.name;
        [(format!("MPI_{name}"), 2), (format!("PMPI_{name}"), 1)]
    });
    assert_eq!(exported, expected.collect());
}

#[test]
fn the_header_declares_each_function_and_is_plain_c() {
    let header = header();
    for function in functions() {
        for prefix in ["MPI_", "PMPI_"] {
            let declared = format!(" {prefix}{}(", function.name);
            let is_declaration = |line: &&str| line.ends_with(';') && !line.starts_with(' ');
            let lines = header.lines().filter(is_declaration);
            let found = lines.filter(|line| line.contains(&declared)).count();
            assert_eq!(found, 1, "{declared}");
        }
    }
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mpi.h"), header).unwrap();
    fs::write(
        folder.path().join("p.c"),
        "#include <mpi.h>\nint main(void) { return 0; }\n",
    )
    .unwrap();
    for (name, standard) in [("cc", "-std=c99"), ("c++", "-std=c++11")] {
        let Some(mut compiler) = compiler(name) else {
            continue;
        };
        let language = if name == "cc" { "-xc" } else { "-xc++" };
        compiler.args([
            standard,
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pedantic",
            "-fsyntax-only",
            language,
        ]);
        let built = compiler
            .arg("-I")
            .arg(folder.path())
            .arg(folder.path().join("p.c"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{name}: {said}");
    }
}

/// Values of the standard, from each group (MPI-5.0, appendix A).
#[test]
fn values_are_those_of_the_standard() {
    for (name, value) in [
        ("COMM_WORLD", 257),
        ("COMM_SELF", 258),
        ("INT", 521),
        ("DOUBLE", 532),
        ("BYTE", 583),
        ("SUM", 33),
        ("MAXLOC", 57),
        ("ERR_TRUNCATE", 15),
        ("ANY_SOURCE", -1),
        ("ANY_TAG", -2),
        ("PROC_NULL", -3),
        ("UNDEFINED", -32766),
        ("ERRORS_RETURN", 323),
        ("REQUEST_NULL", 384),
        ("THREAD_SERIALIZED", 2048),
        ("MAX_ERROR_STRING", 512),
    ] {
        let found = constants()
            .into_iter()
            .find(|constant| constant.name == name);
        assert_eq!(found.map(|constant| constant.value), Some(value), "{name}");
    }
}
