//! One-sided commits by verbs themselves.

mod port;
mod rings;

pub use port::VerbsPort;
pub(super) use rings::open as open_rings;

use crate::remote::RemoteError;
use refrain_verbs::{Chosen, Library, PortChoice, choose};
use std::path::Path;

/// The provider that is none of libfabric but libibverbs.
pub const VERBS: &str = "verbs";

/// Loads libibverbs and chooses a port.
fn choose_port(
    library: Option<&Path>,
    wanted: &PortChoice,
) -> Result<(Library, Chosen), RemoteError> {
    let library = Library::load(library)?;
    let chosen = choose(&library.devices()?, wanted)?;
    Ok((library, chosen))
}
