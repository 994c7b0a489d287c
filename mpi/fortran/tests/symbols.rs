//! The library exports what the table has, under the names of all compilers, and needs that of C.

#[path = "../../../capi/tests/built/mod.rs"]
mod built;

use refrain_mpi_abi::fortran_symbols;
use std::collections::BTreeSet;
use std::fs;

/// A section of an ELF file by its type: its bytes, and those of the section it is linked to.
fn section(file: &[u8], wanted: usize) -> (&[u8], &[u8]) {
    let number = |at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&file[at..at + bytes]);
        u64::from_le_bytes(number) as usize
    };
    let (sections, count) = (number(40, 8), number(60, 2));
    let header = |index: usize| sections + 64 * index;
    let bytes = |header: usize| &file[number(header + 24, 8)..][..number(header + 32, 8)];
    let found = (0..count).find(|index| number(header(*index) + 4, 4) == wanted);
    let found = header(found.expect("the section is there"));
    (bytes(found), bytes(header(number(found + 40, 4))))
}

fn text(texts: &[u8], at: &[u8]) -> String {
    let at = u64::from_le_bytes(at.try_into().unwrap()) as usize;
    let end = texts[at..].iter().position(|byte| *byte == 0).unwrap();
    String::from_utf8_lossy(&texts[at..at + end]).into_owned()
}

/// Names in the table of dynamic symbols, with the binding of each: 1 global, 2 weak.
fn exported(file: &[u8]) -> BTreeSet<(String, u8)> {
    const DYNAMIC_SYMBOLS: usize = 11;
    let (symbols, texts) = section(file, DYNAMIC_SYMBOLS);
    let defined = symbols.chunks(24).filter(|symbol| symbol[6..8] != [0, 0]);
    let named = defined.map(|symbol| {
        let mut at = [0; 8];
        at[..4].copy_from_slice(&symbol[..4]);
        (text(texts, &at), symbol[4] >> 4)
    });
    named.collect()
}

/// The libraries that a library needs.
fn needed(file: &[u8]) -> Vec<String> {
    const DYNAMIC: usize = 6;
    const NEEDED: u64 = 1;
    let (entries, texts) = section(file, DYNAMIC);
    let needed = entries
        .chunks(16)
        .filter(|entry| entry[..8] == NEEDED.to_le_bytes());
    needed.map(|entry| text(texts, &entry[8..])).collect()
}

#[test]
fn each_name_of_the_table_is_exported_in_all_manglings() {
    let library = built::target().join("examples/libmpifort_under_test.so");
    let library = fs::read(library).expect("cargo test builds it");
    let exported = exported(&library);
    let symbols = fortran_symbols();
    for name in [
        "mpi_send",
        "mpi_send_",
        "mpi_send__",
        "MPI_SEND",
        "pmpi_send_",
        "mpi_send_f08ts_",
        "pmpi_send_c_f08ts_",
        "mpi_comm_rank_f08_",
        "mpi_type_contiguous_c_f08_",
        "mpi_alloc_mem_cptr_",
        "mpi_attr_get_",
        "mpi_comm_dup_fn_",
        "mpi_wtime_",
    ] {
        assert!(symbols.iter().any(|symbol| symbol == name), "{name}");
    }
    for name in symbols {
        assert!(exported.iter().any(|(symbol, _)| *symbol == name), "{name}");
    }
    for name in ["mpifbuf_", "mpifsts_", "mpiflst_", "mpifchr_"] {
        assert!(exported.contains(&(name.to_owned(), 1)), "{name}");
    }
    // A tool may define what begins with MPI_ itself.
    for (name, binding) in [("mpi_send_", 2), ("pmpi_send_", 1)] {
        assert!(exported.contains(&(name.to_owned(), binding)), "{name}");
    }
}

#[test]
fn the_library_of_c_is_found_by_its_name() {
    let library = built::target().join("examples/libmpifort_under_test.so");
    let needed = needed(&fs::read(library).expect("cargo test builds it"));
    assert!(
        needed.iter().any(|name| name == "libmpi_abi.so.1"),
        "{needed:?}"
    );
}
