//! Makes the functions that Fortran calls, in Rust: each converts its arguments and calls the
//! function of C with the same prefix.

use super::super::{Body, HANDLES, Starts};
use super::constants::{CONVERSIONS, PREDEFINED};
use super::removed::{REMOVED, RENAMED};
use super::sections::{Buffer, buffer};
use super::{Argument, Of, Procedure, Way, procedures};
use core::fmt::Write as _;

/// The functions of C that are called, as Rust declares them.
pub fn declarations() -> String {
    let mut text = "unsafe extern \"C\" {\n".to_owned();
    for function in super::functions() {
        let prototype = &function.prototype;
        let parameters: Vec<String> = prototype
            .parameters
            .iter()
            .map(|parameter| match &parameter.of[..] {
                "..." => "...".into(),
                _ => format!(
                    "{}: {}",
                    word(&parameter.name),
                    of_c(&prototype.type_of(parameter))
                ),
            })
            .collect();
        let result = of_c(&prototype.result);
        if !function.name.starts_with("T_") {
            for prefix in ["MPI", "PMPI"] {
                let (name, parameters) = (&function.name, parameters.join(", "));
                let _ = writeln!(text, "pub fn {prefix}_{name}({parameters}) -> {result};");
            }
        }
    }
    text + "}\n"
}

/// The functions that Fortran calls. `crate::exports` has what they use.
pub fn entries() -> String {
    let mut text = String::new();
    for procedure in procedures() {
        for prefix in ["MPI", "PMPI"] {
            for form in forms(&procedure) {
                write_entry(&mut text, prefix, &procedure, form);
            }
        }
    }
    for (name, successor, parameters) in REMOVED {
        write_removed(&mut text, name, successor, parameters);
    }
    for (inner, names) in others() {
        let names = quoted(&names);
        let _ = writeln!(text, "export!({inner}, \".globl\", [{names}]);");
    }
    text
}

/// Writes the entries of a function that was removed.
fn write_removed(text: &mut String, name: &str, successor: &str, parameters: &str) {
    let arguments = parameters.split(", ").filter_map(|it| it.split(':').next());
    let arguments = arguments.collect::<Vec<_>>().join(", ");
    let inner = name.to_ascii_lowercase();
    for (prefix, binding) in [("MPI", ".weak"), ("PMPI", ".globl")] {
        let names = quoted(&manglings(&format!("{prefix}_{name}")));
        let _ = writeln!(
            text,
            "unsafe extern \"C\" fn entry_{prefix}_{name}({parameters}, ierror: *mut c_int) {{
let code = crate::removed::{inner}(c::{prefix}_{successor}, {arguments});
put(ierror, code);
}}
export!(entry_{prefix}_{name}, \"{binding}\", [{names}]);"
        );
    }
}

/// Entries that call no function of C: what is behind them, and their symbols.
fn others() -> Vec<(String, Vec<String>)> {
    let mut others = Vec::new();
    for name in PREDEFINED.iter().chain(&CONVERSIONS) {
        let inner = format!("predefined::{}", name.to_ascii_lowercase());
        others.push((inner, manglings(&format!("MPI_{name}"))));
    }
    for (inner, ending) in [("are_equal", "eq"), ("differ", "ne")] {
        let names = HANDLES
            .iter()
            .flat_map(|(of, _)| manglings(&format!("MPI_{of}_{ending}")));
        others.push((format!("own::{inner}"), names.collect()));
    }
    for prefix in ["mpi", "pmpi"] {
        let mut of_status = manglings(&format!("{prefix}_status_f2f08"));
        of_status.extend(manglings(&format!("{prefix}_status_f082f")));
        others.push(("own::copy_status".into(), of_status));
        let of_element = vec![format!("{prefix}_sizeof_f08ts_")];
        others.push(("own::size_of_element".into(), of_element));
        let mut of_buffer = manglings(&format!("{prefix}_f_sync_reg"));
        of_buffer.push(format!("{prefix}_f_sync_reg_f08ts_"));
        others.push(("own::touch".into(), of_buffer));
    }
    others
}

/// How an entry gets its arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// All by address, with lengths of texts behind them.
    Plain,
    /// As above, for `mpi_f08` alone.
    F08,
    /// Buffers and texts by C's descriptors.
    Described,
}

fn forms(procedure: &Procedure) -> Vec<Form> {
    let mut forms = Vec::new();
    if !procedure.is_large() {
        forms.push(Form::Plain);
    }
    if procedure.has_buffers() {
        forms.push(Form::Described);
    } else if procedure.is_large() || is_detaching(procedure) {
        forms.push(Form::F08);
    }
    forms
}

fn is_detaching(procedure: &Procedure) -> bool {
    (procedure.arguments.iter()).any(|argument| argument.of == Of::Detached)
}

/// The names of an entry for all compilers.
fn manglings(name: &str) -> Vec<String> {
    let (lower, upper) = (name.to_ascii_lowercase(), name.to_ascii_uppercase());
    vec![
        lower.clone(),
        format!("{lower}_"),
        format!("{lower}__"),
        upper,
    ]
}

/// The symbols of an entry.
fn symbols(prefix: &str, procedure: &Procedure, form: Form) -> Vec<String> {
    let name = format!("{prefix}_{}", procedure.name());
    let f08 = manglings(&format!("{name}_f08"));
    match form {
        Form::Described => vec![format!("{}_f08ts_", name.to_ascii_lowercase())],
        Form::F08 => f08,
        Form::Plain => {
            let mut all = manglings(&name);
            for (old, _) in RENAMED.iter().filter(|it| it.1 == procedure.name()) {
                all.extend(manglings(&format!("{prefix}_{old}")));
            }
            let is_all = !procedure.has_buffers() && !is_detaching(procedure);
            if is_all && !procedure.is_old() && procedure.result().is_none() {
                all.extend(f08);
            }
            let has_pointer = procedure.arguments.iter().any(|it| it.of == Of::Pointer);
            if has_pointer {
                all.extend(manglings(&format!("{name}_cptr")));
            }
            all
        }
    }
}

/// All symbols that programs in Fortran may use, in the order of the table.
pub fn fortran_symbols() -> Vec<String> {
    let mut all = Vec::new();
    for procedure in procedures() {
        for prefix in ["MPI", "PMPI"] {
            for form in forms(&procedure) {
                all.extend(symbols(prefix, &procedure, form));
            }
        }
    }
    for (name, ..) in REMOVED {
        for prefix in ["MPI", "PMPI"] {
            all.extend(manglings(&format!("{prefix}_{name}")));
        }
    }
    all.extend(others().into_iter().flat_map(|(_, names)| names));
    all
}

fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    names.join(", ")
}

/// Functions with a body of their own in `crate::special`, which gets the arguments as they are.
fn is_special(name: &str) -> bool {
    ["_create_keyval", "_get_attr", "_set_attr"]
        .iter()
        .any(|end| name.ends_with(end))
        || [
            "Abi_set_fortran_booleans",
            "Attr_get",
            "Attr_put",
            "Comm_spawn",
            "Comm_spawn_multiple",
            "Grequest_start",
            "Info_get",
            "Info_get_string",
            "Keyval_create",
            "Register_datarep",
            "Register_datarep_c",
            "Session_get_nth_pset",
        ]
        .contains(&name)
}

fn write_entry(text: &mut String, prefix: &str, procedure: &Procedure, form: Form) {
    let name = format!("{prefix}_{}", procedure.name());
    let ending = match form {
        Form::Plain => "",
        Form::F08 => "_f08",
        Form::Described => "_f08ts",
    };
    let inner = format!("entry_{name}{ending}");
    let mut parameters: Vec<String> = (procedure.arguments.iter())
        .map(|argument| format!("{}: {}", word(&argument.name), of_fortran(argument, form)))
        .collect();
    if procedure.has_error {
        parameters.push("ierror: *mut c_int".into());
    }
    if form != Form::Described {
        for argument in &procedure.arguments {
            if matches!(argument.of, Of::Text | Of::Texts(_)) {
                parameters.push(format!("{}_length: usize", word(&argument.name)));
            }
        }
    }
    let parameters = parameters.join(", ");
    let result = match procedure.result() {
        Some("DOUBLE PRECISION") => " -> f64",
        Some(_) => " -> i64",
        None => "",
    };
    let body = match is_special(procedure.name()) {
        true => special_body(&name, procedure),
        false => body(&name, procedure, form),
    };
    let names = quoted(&symbols(prefix, procedure, form));
    let binding = if prefix == "MPI" { ".weak" } else { ".globl" };
    let _ = writeln!(
        text,
        "unsafe extern \"C\" fn {inner}({parameters}){result} {{\n{body}}}\nexport!({inner}, \"{binding}\", [{names}]);"
    );
}

fn special_body(name: &str, procedure: &Procedure) -> String {
    let mut arguments = vec![format!("c::{name}")];
    for argument in &procedure.arguments {
        let word = word(&argument.name);
        arguments.push(match argument.of {
            Of::Text | Of::Texts(_) => format!("({word}, {word}_length)"),
            _ => word,
        });
    }
    let inner = procedure.name().to_ascii_lowercase();
    let arguments = arguments.join(", ");
    format!("let code = crate::special::{inner}({arguments});\nput(ierror, code);\n")
}

/// The parts of an entry's body.
#[derive(Default)]
struct Parts {
    before: String,
    after: String,
    /// What can fail before the call.
    checked: Vec<String>,
}

fn body(name: &str, procedure: &Procedure, form: Form) -> String {
    let mut parts = Parts::default();
    let mut replaced: Vec<(String, String)> = Vec::new();
    let mut values = Vec::new();
    if form == Form::Described {
        sections(procedure, &mut parts, &mut replaced);
    }
    for argument in &procedure.arguments {
        let as_given = replaced.iter().find(|(of, _)| *of == argument.name);
        let value = match as_given {
            Some((_, value)) => value.clone(),
            None => value(procedure, argument, form, &mut parts),
        };
        values.push((argument.name.clone(), value));
    }
    let mut arguments = Vec::new();
    let mut given = values.into_iter().map(|(_, value)| value);
    for parameter in &procedure.function.prototype.parameters {
        match &parameter.name[..] {
            "argc" if parameter.of == "int" => arguments.push("0".into()),
            "argc" => arguments.push("null_mut()".into()),
            "argv" if procedure.name() != "Comm_spawn" => arguments.push("null_mut()".into()),
            "" => {}
            _ => arguments.extend(given.next()),
        }
    }
    let call = format!("c::{name}({})", arguments.join(", "));
    let mut text = String::new();
    text += &parts.before;
    if procedure.result().is_some() {
        return text + &call + "\n";
    }
    if !parts.checked.is_empty() {
        let comm = procedure
            .arguments
            .iter()
            .find(|argument| argument.of == Of::Handle("Comm".into()) && argument.way == Way::In);
        let comm = comm.map_or("null_mut()".into(), |comm| word(&comm.name));
        let checked = parts.checked.join(", ");
        let _ = writeln!(
            text,
            "if let Some(code) = section::failed([{checked}], {comm}) {{ return put(ierror, code); }}"
        );
    }
    let _ = writeln!(text, "let code = {call};");
    text += &parts.after;
    if ["Init", "Init_thread", "Session_init"].contains(&procedure.name()) {
        text += "logical::announce(code);\n";
    }
    text += match procedure.has_error {
        true => "put(ierror, code);\n",
        false => "let _ = code;\n",
    };
    text
}

/// Buffers that are described.
fn sections(procedure: &Procedure, parts: &mut Parts, replaced: &mut Vec<(String, String)>) {
    for (index, argument) in procedure.arguments.iter().enumerate() {
        let Of::Buffer(is_const) = argument.of else {
            continue;
        };
        let name = word(&argument.name);
        let (made, more) = match buffer(procedure, index) {
            Buffer::Address => {
                replaced.push((argument.name.clone(), format!("section::address({name})")));
                continue;
            }
            Buffer::Section(count, datatype) => {
                let made = format!(
                    "section::Section::of({name}, *{count} as i64, Handle::from_int(*{datatype}))"
                );
                let of_count = if procedure.is_large() { "i64" } else { "c_int" };
                (
                    made,
                    vec![
                        (count, format!("{name}_c.count() as {of_count}")),
                        (datatype, format!("{name}_c.datatype()")),
                    ],
                )
            }
            Buffer::Copied => (
                format!("section::Copied::of({name}, {})", !is_const),
                vec![],
            ),
            Buffer::Whole => (format!("section::Whole::of({name})"), vec![]),
        };
        let _ = writeln!(parts.before, "let {name}_c = {made};");
        parts.checked.push(format!("{name}_c.code()"));
        replaced.push((argument.name.clone(), format!("{name}_c.at()")));
        replaced.extend(more);
    }
}

/// What C gets for an argument; statements around the call go to `parts`.
fn value(procedure: &Procedure, argument: &Argument, form: Form, parts: &mut Parts) -> String {
    let name = word(&argument.name);
    let is_read = argument.way != Way::Out;
    let is_written = argument.way != Way::In;
    match (&argument.of, argument.rank) {
        (Of::Buffer(_), _) => format!("address::buffer({name})"),
        (Of::Integer(_), 0) if !is_written => format!("*{name}"),
        (Of::Integer(_) | Of::AnyLogical | Of::Pointer | Of::Function(_), _) => name,
        (Of::Logical, 0) if !is_written => format!("logical::is_true(*{name})"),
        (Of::Logical, 0) => {
            let _ = writeln!(parts.before, "let mut {name}_c: c_int = 0;");
            let _ = writeln!(parts.after, "put({name}, logical::value({name}_c));");
            format!("&raw mut {name}_c")
        }
        (Of::Logical, _) => {
            let length = length(procedure, argument, form);
            let _ = writeln!(
                parts.before,
                "let mut {name}_c = logical::list({name}, {length});"
            );
            if is_written {
                let _ = writeln!(parts.after, "logical::put_list({name}, &mut {name}_c);");
            }
            format!("{name}_c.at()")
        }
        (Of::Index, 0) => {
            let _ = writeln!(parts.before, "let mut {name}_c: c_int = UNDEFINED;");
            let _ = writeln!(parts.after, "put({name}, one_more({name}_c));");
            format!("&raw mut {name}_c")
        }
        (Of::Index, _) => {
            let _ = writeln!(parts.after, "count_from_one({name}, *outcount);");
            name
        }
        (Of::Handle(_), 0) if !is_written => format!("Handle::from_int(*{name})"),
        (Of::Handle(of), 0) => {
            let first = match is_read {
                true => format!("Handle::from_int(*{name})"),
                false => format!("c::{of}::NULL"),
            };
            let _ = writeln!(parts.before, "let mut {name}_c: c::{of} = {first};");
            let _ = writeln!(parts.after, "put({name}, {name}_c.to_int());");
            format!("&raw mut {name}_c")
        }
        (Of::Handle(of), _) => {
            let length = length(procedure, argument, form);
            let reads = if is_read {
                "handles"
            } else {
                "room_for_handles"
            };
            // A schedule may read the list until the operation ends.
            let stays = argument.length.is_empty()
                && matches!(&procedure.function.body, Body::Collective { starts, .. } if *starts != Starts::Blocking);
            let _ = writeln!(
                parts.before,
                "let mut {name}_c: List<c::{of}> = {reads}({name}, {length});"
            );
            if is_written {
                let _ = writeln!(parts.after, "put_handles({name}, &mut {name}_c);");
            }
            match stays {
                true => format!("kept({name}_c)"),
                false => format!("{name}_c.at()"),
            }
        }
        (Of::Status, _) => format!("address::status({name})"),
        (Of::Weights | Of::Codes, _) => format!("address::list({name})"),
        (Of::Text, _) if !is_written => {
            let made = match form {
                Form::Described => format!("Text::described({name})"),
                _ if procedure.name().starts_with("Info_") => {
                    format!("Text::stripped({name}, {name}_length)")
                }
                _ => format!("Text::read({name}, {name}_length)"),
            };
            let _ = writeln!(parts.before, "let {name}_c = {made};");
            format!("{name}_c.at()")
        }
        (Of::Text, _) => {
            let _ = writeln!(parts.before, "let mut {name}_c = Room::new();");
            let _ = writeln!(parts.after, "{name}_c.write({name}, {name}_length, code);");
            format!("{name}_c.at()")
        }
        (Of::Detached, _) if form == Form::F08 => {
            let _ = writeln!(parts.after, "address::put_detached({name});");
            name
        }
        (Of::Detached, _) => {
            let _ = writeln!(
                parts.before,
                "let mut {name}_c: *mut c_void = null_mut();\nlet _ = {name};"
            );
            format!("(&raw mut {name}_c).cast()")
        }
        (Of::Texts(_) | Of::State, _) => unreachable!("functions with these are special"),
    }
}

/// The number of elements of a list.
fn length(procedure: &Procedure, argument: &Argument, form: Form) -> String {
    let name = procedure.name();
    match &argument.length[..] {
        "" if name == "Cart_sub" => "special::dimensions(comm)".into(),
        "" => {
            let buffer = if argument.name.starts_with("send") {
                "sendbuf"
            } else {
                "recvbuf"
            };
            let is_neighbour = name.to_ascii_lowercase().contains("neighbor");
            let of = match (is_neighbour, buffer) {
                (false, _) => "members",
                (true, "sendbuf") => "destinations",
                (true, _) => "sources",
            };
            // In place, what is sent has no types, and the list may be anything.
            let address = match form {
                Form::Described => format!("section::address({buffer})"),
                _ => format!("address::buffer({buffer})"),
            };
            format!("special::unless_in_place({address}, special::{of}(comm))")
        }
        length => format!("*{length} as i64"),
    }
}

/// The type of an argument in an entry.
fn of_fortran(argument: &Argument, form: Form) -> &'static str {
    match (&argument.of, argument.rank) {
        (Of::Buffer(_), _) if form == Form::Described => "*const Descriptor",
        (Of::Text, _) if form == Form::Described => "*const Descriptor",
        (Of::Text | Of::Texts(_), _) => "*mut c_char",
        (Of::Integer(""), 2) => "*mut [c_int; 3]",
        (Of::Integer(""), _) => "*mut c_int",
        (Of::Integer(_), _) => "*mut i64",
        (Of::Status, _) => "*mut c::Status",
        (Of::State, _) => "*mut c_void",
        (Of::Function(_), _) => "*const c_void",
        (Of::Buffer(_) | Of::Pointer | Of::Detached | Of::AnyLogical, _) => "*mut c_void",
        _ => "*mut c_int",
    }
}

/// A type of C in Rust.
fn of_c(of: &str) -> String {
    let word = of.trim_start_matches("const ");
    if word.contains("function") {
        return "*const c_void".into();
    }
    if let Some(plain) = word.strip_suffix("[][3]") {
        return format!("*mut [{}; 3]", of_c(plain));
    }
    let plain = word.trim_end_matches(['*', '[', ']']);
    let levels = word.matches('*').count() + word.matches('[').count();
    let plain = match plain {
        "void" => "c_void",
        "char" => "c_char",
        "int" => "c_int",
        "double" => "f64",
        "Aint" | "Count" | "Offset" => "i64",
        plain => plain,
    };
    format!("{}{plain}", "*mut ".repeat(levels))
}

/// A name that Rust allows.
fn word(name: &str) -> String {
    match name {
        "type" | "in" | "ref" => format!("{name}_"),
        name => name.to_owned(),
    }
}
