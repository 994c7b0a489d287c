//! How a buffer with a descriptor goes to C.

use super::super::Body;
use super::{Of, Procedure, Way};

/// What becomes of a buffer that need not be contiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Buffer {
    /// Its address is all that counts.
    Address,
    /// A datatype describes it; with the names of its count and its datatype.
    Section(String, String),
    /// It is copied for the time of the call.
    Copied,
    /// It must be contiguous.
    Whole,
}

/// What becomes of the buffer at an index of the arguments.
pub fn buffer(procedure: &Procedure, index: usize) -> Buffer {
    let name = procedure.name().trim_end_matches("_c");
    let has = |of: &str, way: Way| {
        let of = Of::Handle(of.into());
        (procedure.arguments.iter()).any(|argument| argument.of == of && argument.way == way)
    };
    let is_one_sided = has("Win", Way::In);
    let one = match has("Request", Way::Out) {
        true => Buffer::Whole,
        false => Buffer::Copied,
    };
    let is_address = [
        "Get_address",
        "Free_mem",
        "Win_create",
        "Compare_and_swap",
        "Fetch_and_op",
    ]
    .contains(&name)
        || name.ends_with("tach") && is_one_sided
        || name.ends_with("_end");
    if is_address {
        return Buffer::Address;
    }
    if name.contains("attach") || ["Psend_init", "Precv_init"].contains(&name) {
        return Buffer::Whole;
    }
    if has("Op", Way::In) && !is_one_sided {
        return one;
    }
    let [buffer, following @ ..] = &procedure.arguments[index..] else {
        return one;
    };
    let described = match following {
        [count, datatype, ..] if count.rank == 0 && datatype.rank == 0 => {
            let is_count = matches!(count.of, Of::Integer(_)) && count.name.ends_with("count");
            let is_type = datatype.of == Of::Handle("Datatype".into());
            (is_count && is_type)
                .then(|| Buffer::Section(count.name.clone(), datatype.name.clone()))
        }
        _ => None,
    };
    let is_one_block = match &procedure.function.body {
        Body::Collective { name, .. } => match &buffer.name[..] {
            "sendbuf" => name.contains("gather"),
            "recvbuf" => name.starts_with("scatter"),
            _ => true,
        },
        _ => true,
    };
    described.filter(|_| is_one_block).unwrap_or(one)
}
