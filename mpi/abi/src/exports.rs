//! Makes the exported functions, in Rust: each converts its arguments and calls its body.

use super::prototype::{Parameter, Prototype, counted};
use super::{Body, Function, HANDLES, Starts, constants, functions};
use core::fmt::Write as _;

/// The source of all exports and of the constants that the bodies use. It is included in a module of
/// the library, beside `abi` (types, [`Subject`](#)), `border` and `calls`.
pub fn exports() -> String {
    let mut text = String::new();
    for constant in constants().iter().filter(|constant| constant.of == "int") {
        let (name, value) = (constant.name, constant.value);
        let _ = writeln!(text, "pub const {name}: c_int = {value};");
    }
    for constant in constants() {
        let is_handle =
            HANDLES.iter().any(|(of, _)| *of == constant.of) || TOOL_HANDLES.contains(&constant.of);
        // Rust has no names like 2INT.
        if is_handle
            && constant
                .name
                .starts_with(|first: char| first.is_ascii_uppercase())
        {
            let (name, of, value) = (constant.name, rust_word(constant.of), constant.value);
            let _ = writeln!(text, "pub const {name}: {of} = {of}({value});");
        }
    }
    text += "/// The error classes, with their values.\npub const ERROR_CLASSES: &[(&str, c_int)] = &[\n";
    for constant in constants() {
        let (name, value) = (constant.name, constant.value);
        if name == "SUCCESS" || name.starts_with("ERR_") || name.starts_with("T_ERR_") {
            let _ = writeln!(text, "(\"{name}\", {value}),");
        }
    }
    text += "];\n";
    for function in functions() {
        write_function(&mut text, &function);
    }
    text
}

/// The linker's list of exported symbols.
pub fn version_script() -> &'static str {
    "{ global: MPI_*; PMPI_*; };\n"
}

fn write_function(text: &mut String, function: &Function) {
    let name = &function.name;
    let inner = format!("export_{name}");
    let prototype = &function.prototype;
    let parameters: Vec<String> = (prototype.parameters.iter())
        .filter(|parameter| !parameter.name.is_empty())
        .map(|parameter| {
            format!(
                "{}: {}",
                rust_name(parameter),
                rust_type(prototype, parameter)
            )
        })
        .collect();
    let parameters = parameters.join(", ");
    let result = rust_word(&prototype.result);
    let call = call(function);
    let _ = writeln!(
        text,
        "unsafe extern \"C\" fn {inner}({parameters}) -> {result} {{ {call} }}
export!(\"{name}\", {inner});"
    );
}

/// Types of handles for tools.
const TOOL_HANDLES: [&str; 4] = ["T_cvar_handle", "T_enum", "T_pvar_handle", "T_pvar_session"];

/// Functions that may join the job.
const JOINING: [&str; 3] = ["Init", "Init_thread", "Session_init"];

fn call(function: &Function) -> String {
    let (name, prototype) = (&function.name, &function.prototype);
    let subject = subject(name, prototype);
    let arguments = |parameters: &[Parameter]| {
        let named = parameters
            .iter()
            .filter(|parameter| !parameter.name.is_empty());
        let all: Vec<String> = named
            .map(|parameter| argument(prototype, parameter))
            .collect();
        all.join(", ")
    };
    let all = &prototype.parameters;
    match &function.body {
        Body::Missing => format!("border::missing(\"MPI_{name}\", {subject})"),
        Body::Conversion if prototype.result == "int" => "handle.0 as c_int".into(),
        Body::Conversion => format!("{}(handle as usize)", prototype.result),
        Body::Function {
            module,
            name: body,
            is_told,
        } if prototype.result == "int" => {
            let crossing = if JOINING.contains(&&name[..]) {
                "join"
            } else {
                "call"
            };
            let mut arguments = arguments(all);
            if *is_told {
                let _ = write!(arguments, ", {}", prototype.is_large == Some(true));
            }
            if *module == "tools" {
                return format!("border::tool(|| calls::{module}::{body}({arguments}))");
            }
            let check = check_places(prototype);
            format!(
                "border::{crossing}(\"MPI_{name}\", {subject}, || {{ {check}calls::{module}::{body}({arguments}) }})"
            )
        }
        Body::Function {
            module, name: body, ..
        } => {
            format!("calls::{module}::{body}({})", arguments(all))
        }
        Body::Collective { name: body, starts } => {
            let (own, start) = match starts {
                Starts::Blocking => (all.len(), "Start::Blocking"),
                Starts::Begun => (all.len() - 1, "Start::Begun(request)"),
                Starts::Prepared => (all.len() - 2, "Start::Prepared(request)"),
            };
            let arguments = arguments(&all[..own]);
            let check = check_places(prototype);
            format!(
                "border::call(\"MPI_{name}\", {subject}, || {{ {check}calls::collectives::{body}({arguments}, {start}) }})"
            )
        }
    }
}

/// Refuses null pointers to places for results. Statuses and weights may be null.
fn check_places(prototype: &Prototype) -> String {
    let is_place = |parameter: &&Parameter| {
        let of = prototype.type_of(parameter);
        let plain = of.strip_suffix('*').filter(|plain| !plain.ends_with('*'));
        let is_result = plain.is_some_and(|plain| {
            !plain.starts_with("const ")
                && !plain.contains("function")
                && !["void", "char", "Status"].contains(&plain)
        });
        is_result && !parameter.name.ends_with("weights") && parameter.name != "argc"
    };
    let places = prototype.parameters.iter().filter(is_place);
    let made = |place: &Parameter| match &place.of[..] {
        // A communicator that could not be made is null.
        "Comm*" if place.name.starts_with("new") || place.name.starts_with("comm_") => {
            format!("put({}, COMM_NULL); ", rust_name(place))
        }
        _ => String::new(),
    };
    let checks = places.map(|place| {
        let name = rust_name(place);
        format!("border::given(\"{name}\", {name})?; {}", made(place))
    });
    checks.collect()
}

/// The object whose error handler gets an error.
fn subject(name: &str, prototype: &Prototype) -> String {
    let of = |of: &str| {
        prototype
            .parameters
            .iter()
            .find(|parameter| parameter.of == of)
    };
    if name.starts_with("File_") {
        return "Subject::File".into();
    }
    for kind in ["Comm", "Session"] {
        if let Some(parameter) = of(kind) {
            return format!("Subject::{kind}({})", rust_name(parameter));
        }
    }
    // A communicator that is made from groups.
    match (of("Group"), of("Errhandler")) {
        (Some(_), Some(handler)) => format!("Subject::New({})", rust_name(handler)),
        _ => "Subject::None".into(),
    }
}

/// The argument for the body: counts are wide there.
fn argument(prototype: &Prototype, parameter: &Parameter) -> String {
    let name = rust_name(parameter);
    let Some((_, [small, large])) = counted(&parameter.of) else {
        return name;
    };
    let of = if prototype.is_large == Some(true) {
        large
    } else {
        small
    };
    let is_int = of == "int";
    let is_list = parameter.of.ends_with(']');
    match (
        parameter.of.starts_with("const "),
        is_list,
        parameter.of.ends_with('*'),
    ) {
        (true, ..) if is_int => format!("Numbers::Int({name})"),
        (true, ..) => format!("Numbers::Long({name})"),
        (false, _, true) | (false, true, _) if is_int => format!("Place::Int({name})"),
        (false, _, true) | (false, true, _) => format!("Place::Long({name})"),
        _ if is_int => format!("i64::from({name})"),
        _ => name,
    }
}

fn rust_name(parameter: &Parameter) -> String {
    match &parameter.name[..] {
        name @ ("type" | "in" | "ref") => format!("{name}_"),
        name => name.to_owned(),
    }
}

fn rust_type(prototype: &Prototype, parameter: &Parameter) -> String {
    let of = prototype.type_of(parameter);
    let (is_const, word) = match of.strip_prefix("const ") {
        Some(word) => (true, word),
        None => (false, &of[..]),
    };
    if let Some(plain) = word.strip_suffix("[][3]") {
        return format!("*mut [{}; 3]", rust_word(plain));
    }
    let function = word.trim_end_matches('*');
    if function.ends_with("function") || function.ends_with("function_c") {
        return format!("Option<{}>", rust_word(function));
    }
    let plain = word.trim_end_matches(['*', '[', ']']);
    let levels = word.matches('*').count() + word.matches('[').count();
    let pointer = if is_const { "*const " } else { "*mut " };
    format!("{}{}", pointer.repeat(levels), rust_word(plain))
}

fn rust_word(word: &str) -> String {
    match word {
        "void" => "c_void".into(),
        "char" => "c_char".into(),
        "int" => "c_int".into(),
        "double" => "f64".into(),
        "Aint" | "Count" | "Offset" => "i64".into(),
        _ => word.replace('_', ""),
    }
}
