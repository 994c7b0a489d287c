//! Makes the sources of the modules `mpi` and `mpi_f08`: explicit interfaces of what the library
//! has, and no code of their own.

use super::super::HANDLES;
use super::constants::{BLOCKS, CONVERSIONS, PREDEFINED, integer, parameters};
use super::{Argument, Of, Procedure, Way, broken, procedures};
use core::fmt::Write as _;

/// Types that both modules have.
const TYPES: &str = include_str!("../../fortran/types.f90");
/// What `mpi` has that is not made from the table.
const MPI: &str = include_str!("../../fortran/mpi.f90");
/// As above, of `mpi_f08`.
const MPI_F08: &str = include_str!("../../fortran/mpi_f08.f90");

/// The place in the texts above where things are put that the table has.
const HERE: &str = "!HERE\n";

/// Which module an interface is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Module {
    Mpi,
    F08,
}

/// The source of the module `mpi`, and of `mpi_types`, which it uses.
pub fn mpi_module() -> String {
    let mut text = String::new();
    for constant in parameters() {
        let (name, of, value) = (constant.name, integer(&constant), constant.value);
        let is_kind = name.ends_with("_KIND") || name == "STATUS_SIZE";
        if !is_kind {
            let _ = writeln!(text, "  {of}, parameter :: MPI_{name} = {value}");
        }
    }
    blocks(&mut text, false);
    for name in PREDEFINED.iter().chain(&CONVERSIONS) {
        let _ = writeln!(text, "  external :: MPI_{name}");
    }
    text += "  interface\n";
    let all = procedures();
    for procedure in all.iter().filter(|procedure| !procedure.is_large()) {
        for prefix in ["MPI", "PMPI"] {
            let name = format!("{prefix}_{}", procedure.name());
            if has_pointer(procedure) {
                text += "  end interface\n";
                let _ = writeln!(text, "  interface {name}");
                interface(&mut text, Module::Mpi, procedure, &name, &name, false);
                let specific = format!("{name}_cptr");
                interface(&mut text, Module::Mpi, procedure, &specific, "", true);
                text += "  end interface\n  interface\n";
            } else {
                interface(&mut text, Module::Mpi, procedure, &name, "", false);
            }
        }
    }
    text += "  end interface\n";
    types() + &MPI.replace(HERE, &text)
}

/// The source of the module `mpi_f08`; it uses `mpi_types`.
pub fn mpi_f08_module() -> String {
    let mut text = String::new();
    for constant in parameters() {
        let (name, value) = (constant.name, constant.value);
        let is_kind = name.ends_with("_KIND") || name == "STATUS_SIZE";
        let _ = match constant.of {
            "int" if is_kind => Ok(()),
            "int" => writeln!(
                text,
                "  {}, parameter :: MPI_{name} = {value}",
                integer(&constant)
            ),
            of => writeln!(
                text,
                "  type(MPI_{of}), parameter :: MPI_{name} = MPI_{of}({value})"
            ),
        };
    }
    blocks(&mut text, true);
    let all = procedures();
    let of_f08 = |procedure: &&Procedure| !procedure.is_old();
    for procedure in all.iter().filter(of_f08) {
        let name = procedure.name();
        // Procedures as arguments tell nothing apart: these have names of their own.
        let is_alone = ["Op_create_c", "Register_datarep_c"].contains(&name);
        if procedure.is_large() && !is_alone {
            continue;
        }
        let large = all.iter().find(|large| {
            large.name().strip_suffix("_c") == Some(name) && large.differs_from_small() && !is_alone
        });
        let large = large.filter(|_| !["Op_create", "Register_datarep"].contains(&name));
        for prefix in ["MPI", "PMPI"] {
            if procedure.result().is_some() {
                text += "  interface\n";
                let name = format!("{prefix}_{name}");
                interface(&mut text, Module::F08, procedure, &name, "", false);
            } else {
                let _ = writeln!(text, "  interface {prefix}_{name}");
                for procedure in [Some(procedure), large].into_iter().flatten() {
                    let specific = specific(prefix, procedure);
                    let linked = specific.to_ascii_lowercase() + "_";
                    let linked = if procedure.has_buffers() { &linked } else { "" };
                    interface(&mut text, Module::F08, procedure, &specific, linked, false);
                }
            }
            text += "  end interface\n";
        }
    }
    MPI_F08.replace(HERE, &text)
}

/// The name of a procedure of `mpi_f08` behind its generic name (MPI-5.0, section 19.1.5).
fn specific(prefix: &str, procedure: &Procedure) -> String {
    let ending = if procedure.has_buffers() {
        "f08ts"
    } else {
        "f08"
    };
    format!("{prefix}_{}_{ending}", procedure.name())
}

fn types() -> String {
    let mut text = String::new();
    for (of, _) in HANDLES {
        let _ = writeln!(
            text,
            "  type, bind(C) :: MPI_{of}\n    integer :: MPI_VAL\n  end type MPI_{of}"
        );
    }
    for (operator, name) in [("==", "eq"), ("/=", "ne")] {
        let _ = writeln!(text, "  interface operator({operator})");
        for (of, _) in HANDLES {
            let _ = writeln!(
                text,
                "    elemental logical function MPI_{of}_{name}(a, b)\n      import\n      implicit none\n      type(MPI_{of}), intent(in) :: a, b\n    end function MPI_{of}_{name}"
            );
        }
        text += "  end interface\n";
    }
    TYPES.replace(HERE, &text)
}

/// The constants that are known by their addresses.
fn blocks(text: &mut String, has_types: bool) {
    for (block, of, names) in BLOCKS {
        let is_typed = has_types && block == "MPIFSTS";
        for name in names {
            let _ = match is_typed {
                true => writeln!(
                    text,
                    "  type(MPI_Status) :: {}",
                    name.replace("(MPI_STATUS_SIZE)", "")
                        .replace("MPI_STATUS_SIZE,", "")
                ),
                // Programs may take the address of MPI_BUFFER_AUTOMATIC.
                false if block == "MPIFBUF" => writeln!(text, "  {of}, target :: {name}"),
                false => writeln!(text, "  {of} :: {name}"),
            };
        }
        let names = names
            .iter()
            .map(|name| name.split('(').next().unwrap_or(name));
        let names: Vec<_> = names.collect();
        let _ = writeln!(text, "  common /{block}/ {}", names.join(", "));
    }
}

fn has_pointer(procedure: &Procedure) -> bool {
    (procedure.arguments.iter()).any(|argument| argument.of == Of::Pointer)
}

/// Writes the interface of a procedure. A name for the linker makes it one with C's descriptors, in
/// `mpi_f08`.
fn interface(
    text: &mut String,
    module: Module,
    procedure: &Procedure,
    name: &str,
    linked: &str,
    has_c_pointer: bool,
) {
    let mut names: Vec<&str> = (procedure.arguments.iter())
        .map(|argument| &argument.name[..])
        .collect();
    if procedure.has_error {
        names.push("ierror");
    }
    let result = procedure.result();
    let kind = if result.is_some() {
        "function"
    } else {
        "subroutine"
    };
    let binding = match (module, linked) {
        (Module::Mpi, _) | (_, "") => String::new(),
        (Module::F08, linked) => format!(" bind(C, name=\"{linked}\")"),
    };
    let head = format!("{kind} {name}({}){binding}", names.join(", "));
    let _ = writeln!(
        text,
        "    {}\n      import\n      implicit none",
        broken(&head)
    );
    if let Some(result) = result {
        let _ = writeln!(text, "      {result} :: {name}");
    }
    for argument in &procedure.arguments {
        match module {
            Module::Mpi => declare(text, procedure, argument, has_c_pointer),
            Module::F08 => declare_f08(text, procedure, argument),
        }
    }
    let _ = match (procedure.has_error, module) {
        (false, _) => Ok(()),
        (true, Module::Mpi) => writeln!(text, "      integer :: ierror"),
        (true, Module::F08) => writeln!(text, "      integer, optional, intent(out) :: ierror"),
    };
    let _ = writeln!(text, "    end {kind} {name}");
}

/// Directives that let a buffer be of each type and rank.
fn choice(text: &mut String, name: &str) {
    let _ = writeln!(
        text,
        "      !GCC$ ATTRIBUTES NO_ARG_CHECK :: {name}\n      !DIR$ IGNORE_TKR {name}\n      type(*) :: {name}(*)"
    );
}

fn integers(kind: &str) -> String {
    match kind {
        "" => "integer".into(),
        kind => format!("integer(kind={kind})"),
    }
}

fn declare(text: &mut String, procedure: &Procedure, argument: &Argument, has_c_pointer: bool) {
    let name = &argument.name;
    let of = match &argument.of {
        Of::Buffer(_) | Of::Detached => return choice(text, name),
        Of::Integer(kind) => integers(kind),
        Of::Handle(_) | Of::Index | Of::Weights | Of::Codes | Of::Status => "integer".into(),
        Of::State if procedure.is_old() => "integer".into(),
        Of::State => integers("MPI_ADDRESS_KIND"),
        Of::Pointer if has_c_pointer => "type(c_ptr)".into(),
        Of::Pointer => integers("MPI_ADDRESS_KIND"),
        Of::Logical | Of::AnyLogical => "logical".into(),
        Of::Text | Of::Texts(_) => "character(len=*)".into(),
        Of::Function(_) => "external".into(),
    };
    let dimensions = match (&argument.of, argument.rank) {
        (Of::Status, 0) => "(MPI_STATUS_SIZE)",
        (Of::Status, _) => "(MPI_STATUS_SIZE, *)",
        (Of::Texts(2), _) => "(count, *)",
        (_, 0) => "",
        (_, 1) => "(*)",
        (..) => "(3, *)",
    };
    let _ = writeln!(text, "      {of} :: {name}{dimensions}");
}

fn declare_f08(text: &mut String, procedure: &Procedure, argument: &Argument) {
    let name = &argument.name;
    let way = match argument.way {
        Way::In => ", intent(in)",
        // C has a pointer for no reason.
        _ if procedure.name() == "Cancel" => ", intent(in)",
        Way::Out => ", intent(out)",
        Way::InOut => ", intent(inout)",
    };
    let is_asynchronous = is_asynchronous(procedure);
    let (of, way) = match &argument.of {
        Of::Buffer(is_const) => {
            let of = format!(
                "type(*), dimension(..){}",
                if is_asynchronous {
                    ", asynchronous"
                } else {
                    ""
                }
            );
            let is_read = *is_const && procedure.name() != "Get_address";
            (of, if is_read { ", intent(in)" } else { "" })
        }
        // Of procedures with descriptors; a text's length is in its own.
        Of::Text if procedure.has_buffers() => {
            ("type(*), dimension(..)".to_owned(), ", intent(in)")
        }
        Of::Integer(kind) => (integers(kind), way),
        Of::Index => ("integer".into(), way),
        Of::Handle(of) => (format!("type(MPI_{of})"), way),
        Of::Weights | Of::Codes => {
            let way = if argument.way == Way::In { way } else { "" };
            ("integer".into(), way)
        }
        Of::Status => {
            let is_set = procedure.name().starts_with("Status_set");
            let way = match argument.way {
                Way::In => way,
                _ if is_set => ", intent(inout)",
                _ => "",
            };
            ("type(MPI_Status)".into(), way)
        }
        Of::State => (integers("MPI_ADDRESS_KIND"), way),
        Of::Pointer | Of::Detached => ("type(c_ptr)".into(), ", intent(out)"),
        Of::Logical | Of::AnyLogical => ("logical".into(), way),
        Of::Text | Of::Texts(_) => ("character(len=*)".into(), way),
        Of::Function(of) => (format!("procedure(MPI_{of})"), ""),
    };
    let dimensions = match (&argument.of, argument.rank) {
        (Of::Texts(2), _) => "(count, *)",
        (_, 0) => "",
        (_, 1) => "(*)",
        (..) => "(3, *)",
    };
    let _ = writeln!(text, "      {of}{way} :: {name}{dimensions}");
}

/// Whether the buffers are used after the call has returned.
fn is_asynchronous(procedure: &Procedure) -> bool {
    let name = procedure.name();
    let has_later_use = procedure.arguments.iter().any(|argument| {
        matches!(&argument.of, Of::Handle(of) if (of == "Request" && argument.way == Way::Out) || of == "Win")
    });
    has_later_use
        || [
            "_begin",
            "_end",
            "attach",
            "attach_c",
            "begin_c",
            "Get_address",
            "Free_mem",
        ]
        .iter()
        .any(|ending| name.ends_with(ending))
        || name.starts_with("Win_")
        || name.contains("_attach_buffer")
}
