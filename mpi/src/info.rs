//! Info objects: ordered pairs of texts (MPI-5.0, chapter 10).

use super::abi::Info;
use super::exports as abi;
use super::failure::{Failure, Result};
use super::handles::Table;
use super::state::made;
use std::os::unix::ffi::OsStringExt;

/// Keys with their values, in the order in which they were set.
pub type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// All info objects.
pub struct Infos(Table<Pairs>);

impl Infos {
    pub const fn new() -> Self {
        Self(Table::new())
    }

    pub fn get(&self, info: Info) -> Result<Pairs> {
        match info {
            abi::INFO_ENV => Ok(environment()),
            Info(handle) => self.0.get(handle).cloned().ok_or_else(|| unknown(info)),
        }
    }

    /// The hints of an object that a call may be given, or none. The library knows those of the
    /// standard; others are ignored (section 10).
    pub fn hints(&self, info: Info) -> Result<Pairs> {
        if info == abi::INFO_NULL {
            return Ok(Pairs::new());
        }
        let mut pairs = self.get(info)?;
        pairs.retain(|(key, _)| key.starts_with(b"mpi_"));
        Ok(pairs)
    }

    pub fn get_mut(&mut self, info: Info) -> Result<&mut Pairs> {
        self.0.get_mut(info.0).ok_or_else(|| unknown(info))
    }

    pub fn add(&mut self, pairs: Pairs) -> Result<Info> {
        Ok(Info(made(self.0.add(pairs), "info objects")?))
    }

    pub fn remove(&mut self, info: Info) -> Result {
        self.0.remove(info.0).map(drop).ok_or_else(|| unknown(info))
    }
}

#[cold]
fn unknown(info: Info) -> Failure {
    Failure::new(
        abi::ERR_INFO,
        match info {
            abi::INFO_NULL => "the info object is MPI_INFO_NULL".to_owned(),
            abi::INFO_ENV => "MPI_INFO_ENV cannot be changed".to_owned(),
            Info(handle) => {
                format!("info object {handle} does not exist: it was freed, or never made")
            }
        },
    )
}

/// `MPI_INFO_ENV`: what is known of the start of this process (section 11.2.1).
fn environment() -> Pairs {
    let arguments = std::env::args_os();
    let mut arguments = arguments.map(OsStringExt::into_vec);
    let command = arguments.next().unwrap_or_default();
    let mut pairs: Pairs = vec![("command".into(), command)];
    let arguments: Vec<Vec<u8>> = arguments.collect();
    if !arguments.is_empty() {
        pairs.push(("argv".into(), arguments.join(&b' ')));
    }
    if let Some(size) = std::env::var_os("REFRAIN_SIZE") {
        pairs.push(("maxprocs".into(), size.into_vec()));
    }
    pairs.push(("thread_level".into(), "MPI_THREAD_SERIALIZED".into()));
    pairs
}
