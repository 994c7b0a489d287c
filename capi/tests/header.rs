//! The header and the library declare the same.

mod built;

use built::{Program, compiler, folder, library};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::process::Command;

/// Functions by name, with their full types: `int (const refrain_world *world, …)`.
type Functions = BTreeMap<String, String>;

fn header() -> String {
    fs::read_to_string(folder().join("include/refrain.h")).expect("the header")
}

/// The header without comments, preprocessor lines and inline functions.
fn declarations(header: &str) -> String {
    let mut rest = header;
    let mut text = String::new();
    while let Some((code, comment)) = rest.split_once("/*") {
        text += code;
        rest = comment.split_once("*/").expect("comments end").1;
    }
    text += rest;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let text = lines.collect::<Vec<_>>().join("\n");
    let mut parts = text
        .split("REFRAIN_MAKER")
        .flat_map(|it| it.split("static inline"));
    let first = parts.next().expect("a beginning").to_owned();
    let after = |inline: &str| inline.split_once("\n}\n").expect("an end").1.to_owned();
    first + &parts.map(after).collect::<String>()
}

fn in_one_style(text: &str) -> String {
    let spaced = text
        .replace('*', " * ")
        .replace('(', " ( ")
        .replace(',', " , ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    words.join(" ")
}

fn of_header() -> Functions {
    let text = declarations(&header());
    let mut functions = Functions::new();
    for declaration in text.split([';', '{', '}']) {
        let Some((head, parameters)) = declaration.split_once('(') else {
            continue;
        };
        if head.trim_start().starts_with("typedef") {
            continue;
        }
        let name = head.rsplit([' ', '*']).next().expect("a word");
        assert!(name.starts_with("refrain_"), "{declaration}");
        let result = head.strip_suffix(name).expect("its end");
        let parameters = parameters.trim().strip_suffix(')').expect("its end");
        let parameters: Vec<String> = parameters
            .split(',')
            .filter(|parameter| parameter.trim() != "void")
            .map(|parameter| match parameter.trim().strip_suffix("[]") {
                // An array parameter is a pointer in C.
                Some(array) => array.replacen(' ', " *", 1),
                None => parameter.trim().to_owned(),
            })
            .collect();
        let text = in_one_style(&format!("{result} ({}", parameters.join(",")));
        assert!(functions.insert(name.to_owned(), text).is_none(), "{name}");
    }
    functions
}

/// The C name of a Rust type of the sources.
fn in_c(of: &str, parameter: &str) -> &'static str {
    match (of.trim(), parameter) {
        ("c_int", _) => "int",
        ("usize", _) => "size_t",
        ("u64", _) => "uint64_t",
        ("i64", _) => "int64_t",
        ("*const c_char", _) => "const char *",
        ("*const c_void", _) => "const void *",
        ("*mut c_void", _) => "void *",
        ("*mut c_int", _) => "int *",
        ("*mut u64", _) => "uint64_t *",
        ("*mut usize", _) => "size_t *",
        ("*mut f64", _) => "double *",
        ("*mut Status", _) => "refrain_status *",
        ("*const WorldHandle", _) => "const refrain_world *",
        ("*mut WorldHandle", _) => "refrain_world *",
        ("*mut *mut WorldHandle", _) => "refrain_world **",
        ("*mut MessageHandle", _) => "refrain_message *",
        ("*mut Request", _) => "refrain_request *",
        ("Group", _) => "refrain_group",
        ("*mut Group", _) => "refrain_group *",
        ("Description", _) => "refrain_collective",
        other => panic!("what is {other:?} in C?"),
    }
}

fn of_sources() -> Functions {
    let mut functions = Functions::new();
    for file in fs::read_dir(folder().join("src/calls")).expect("the sources") {
        let text = fs::read_to_string(file.expect("a file").path()).expect("text");
        for function in text.split("#[unsafe(no_mangle)]").skip(1) {
            let (_, function) = function.split_once("extern \"C\" fn ").expect("for C");
            let (name, rest) = function.split_once('(').expect("parameters");
            let (parameters, rest) = rest.split_once(')').expect("their end");
            let (result, _) = rest.split_once('{').expect("a body");
            let parameters: Vec<String> = parameters
                .split(',')
                .filter_map(|parameter| parameter.trim().split_once(':'))
                .map(|(name, of)| format!("{} {name}", in_c(of, name)))
                .collect();
            let result = in_c(result.trim().trim_start_matches("->"), "");
            let text = in_one_style(&format!("{result} ({}", parameters.join(",")));
            functions.insert(name.to_owned(), text);
        }
    }
    functions
}

#[test]
fn the_header_declares_what_the_sources_define() {
    let (declared, defined) = (of_header(), of_sources());
    assert!(declared.len() > 30, "{declared:?}");
    for (name, text) in &declared {
        assert_eq!(defined.get(name), Some(text), "{name}");
    }
    assert_eq!(declared.len(), defined.len());
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let symbols = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(library())
        .output();
    let Ok(symbols) = symbols else {
        return println!("skipped the symbols of librefrain.so: nm is not installed");
    };
    assert!(symbols.status.success(), "{symbols:?}");
    let text = String::from_utf8(symbols.stdout).expect("names");
    let mut exported: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    exported.sort_unstable();
    let declared = of_header();
    assert_eq!(exported, declared.keys().collect::<Vec<_>>());
}

/// `REFRAIN_OK` and the errors of the header.
fn codes() -> Vec<(String, i32)> {
    let text = declarations(&header());
    let (_, list) = text.split_once("enum refrain_error {").expect("the list");
    let (list, _) = list.split_once('}').expect("its end");
    list.split(',')
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| {
            let value = value.trim().parse().expect("a number");
            (name.trim().to_owned(), value)
        })
        .collect()
}

#[test]
fn the_codes_of_the_header_are_those_of_the_library() {
    let mut source = "#include \"refrain.h\"\n#include <string.h>\nint main(void)\n{\n".to_owned();
    let codes = codes();
    assert!(codes.len() > 10, "{codes:?}");
    for (index, (name, value)) in codes.iter().enumerate() {
        assert_eq!(*value, index as i32, "{name}");
        writeln!(
            source,
            "if (strcmp(refrain_error_name({name}), \"{name}\")) return {index};"
        )
        .expect("memory");
    }
    let beyond = codes.len();
    writeln!(
        source,
        "return strcmp(refrain_error_name({beyond}), \"unknown\") ? {beyond} : 0;\n}}"
    )
    .expect("memory");
    let file = tempfile::Builder::new()
        .suffix(".c")
        .tempfile()
        .expect("a file");
    fs::write(&file, source).expect("a file");
    let path = file.path().to_str().expect("text");
    if let Some(program) = Program::of(path) {
        assert_eq!(
            program.run().status,
            Some(0),
            "the code whose name differs, or 127 of them"
        );
    }
}

/// Strict compilers accept the header in each of these languages, and compute the same sizes as the
/// library.
#[test]
fn the_header_is_c_and_c_plus_plus() {
    for (name, options) in [
        ("cc", ["-std=c11", "-xc"]),
        ("cc", ["-std=c17", "-xc"]),
        ("c++", ["-std=c++11", "-xc++"]),
        ("c++", ["-std=c++17", "-xc++"]),
    ] {
        let Some(mut compiler) = compiler(name) else {
            continue;
        };
        compiler.args(options);
        let program = Program::built(compiler, "tests/programs/layout.c");
        assert_eq!(program.run().status, Some(0), "{name} {options:?}");
    }
}
