//! Datatypes by handle.

use super::abi::Datatype;
use super::attribute::Attributes;
use super::exports as abi;
use super::failure::{Failure, Result};
use super::handles::Table;
use super::state::made;
use refrain_datatypes::{Combiner, Datatype as Type, NAMED, Named, TypeError};
use std::sync::OnceLock;

/// A datatype as the program knows it.
#[derive(Clone, Debug)]
pub struct Known {
    pub of: Type,
    pub is_committed: bool,
    dense_bytes: i64,
    /// Also of types without a name that the library makes, as those of Fortran by precision.
    pub is_predefined: bool,
    pub name: Vec<u8>,
    pub attributes: Attributes,
}

impl Known {
    /// A type that the program has made.
    pub fn made(of: Type) -> Self {
        Self {
            of,
            is_committed: false,
            dense_bytes: 0,
            is_predefined: false,
            name: Vec::new(),
            attributes: Attributes::new(),
        }
    }

    fn predefined(of: Type, name: &str) -> Self {
        let mut known = Self::made(of);
        known.commit();
        known.is_predefined = true;
        known.name = name.into();
        known
    }

    pub fn commit(&mut self) {
        self.is_committed = true;
        if self.of.is_contiguous() && self.of.true_lb() == 0 {
            self.dense_bytes = self.of.size();
        }
    }

    /// The size of a committed type whose data are one block at its address; 0: it is another type.
    pub fn dense_bytes(&self) -> i64 {
        self.dense_bytes
    }
}

/// All datatypes.
pub struct Types {
    /// In the order of [`NAMED`]; made when one is first needed.
    named: OnceLock<Vec<Known>>,
    table: Table<Known>,
    /// Predefined types without a name.
    unnamed: Vec<Datatype>,
}

/// Sizes of the predefined types by handle; 0: there is none.
const SIZES: [u8; 1024] = {
    let mut sizes = [0; 1024];
    let mut index = 0;
    while index < NAMED.len() {
        let named = &NAMED[index];
        if named.index.is_none() {
            sizes[named.handle as usize] = named.value.bytes;
        }
        index += 1;
    }
    sizes
};

/// Places of the predefined types in [`NAMED`] by handle, from 1; 0: there is none.
const PLACES: [u8; 1024] = {
    assert!(NAMED.len() < 256);
    let mut places = [0; 1024];
    let mut place = 0;
    while place < NAMED.len() {
        places[NAMED[place].handle as usize] = place as u8 + 1;
        place += 1;
    }
    places
};

/// The size of a predefined type that is one value; 0: it is another type.
#[inline]
pub fn size_of_basic(datatype: Datatype) -> i64 {
    SIZES.get(datatype.0).copied().unwrap_or(0).into()
}

impl Types {
    pub const fn new() -> Self {
        Self {
            named: OnceLock::new(),
            table: Table::new(),
            unnamed: Vec::new(),
        }
    }

    fn named(&self) -> &Vec<Known> {
        let known = |named: &'static Named| Known::predefined(Type::named(named), named.name);
        self.named.get_or_init(|| NAMED.iter().map(known).collect())
    }

    pub fn get(&self, datatype: Datatype) -> Result<&Known> {
        let found = match place_of_named(datatype) {
            Some(place) => Some(&self.named()[place]),
            None => self.table.get(datatype.0),
        };
        found.ok_or_else(|| unknown(datatype))
    }

    pub fn get_mut(&mut self, datatype: Datatype) -> Result<&mut Known> {
        let found = match place_of_named(datatype) {
            Some(place) => {
                self.named();
                self.named.get_mut().and_then(|all| all.get_mut(place))
            }
            None => self.table.get_mut(datatype.0),
        };
        found.ok_or_else(|| unknown(datatype))
    }

    /// [`Known::dense_bytes`] of a type that the program has made; 0: it is another type.
    #[inline]
    pub fn size_of_dense(&self, datatype: Datatype) -> i64 {
        self.table
            .get(datatype.0)
            .map_or(0, |known| known.dense_bytes)
    }

    /// A type that a message can have.
    pub fn committed(&self, datatype: Datatype) -> Result<&Type> {
        Ok(&self.ready(datatype)?.of)
    }

    /// As [`committed`](Self::committed).
    pub fn ready(&self, datatype: Datatype) -> Result<&Known> {
        let known = self.get(datatype)?;
        match known.is_committed {
            true => Ok(known),
            false => Err(Failure::new(
                abi::ERR_TYPE,
                "the datatype is not committed: call MPI_Type_commit",
            )),
        }
    }

    pub fn add(&mut self, known: Known) -> Result<Datatype> {
        Ok(Datatype(made(self.table.add(known), "datatypes")?))
    }

    /// The handle of a type that the library makes: the same one for equal arguments.
    pub fn predefined(&mut self, of: Type) -> Result<Datatype> {
        if let Some(named) = of.as_named() {
            return Ok(Datatype(named.handle.into()));
        }
        let contents = of.contents();
        for handle in &self.unnamed {
            let known = self.get(*handle)?.of.contents();
            let types = known.types.iter().zip(&contents.types);
            let are_same = |(one, other): (&Type, &Type)| one.as_named() == other.as_named();
            if known.combiner == contents.combiner && known.integers == contents.integers && {
                types
            }
            .all(are_same)
            {
                return Ok(*handle);
            }
        }
        let handle = self.add(Known::predefined(of, ""))?;
        self.unnamed.push(handle);
        Ok(handle)
    }

    /// A handle of a type that another one was made from.
    pub fn handle_of(&mut self, of: &Type) -> Result<Datatype> {
        match of.envelope().combiner {
            Combiner::Named
            | Combiner::F90Real
            | Combiner::F90Complex
            | Combiner::F90Integer
            | Combiner::ValueIndex => self.predefined(of.clone()),
            _ => self.add(Known::made(of.clone())),
        }
    }

    /// Checks that the program may free a type.
    pub fn check_free(&self, datatype: Datatype) -> Result {
        match self.get(datatype)?.is_predefined {
            true => Err(Failure::new(
                abi::ERR_TYPE,
                "a predefined datatype cannot be freed",
            )),
            false => Ok(()),
        }
    }

    pub fn remove(&mut self, datatype: Datatype) -> Result<Known> {
        self.check_free(datatype)?;
        let removed = self.table.remove(datatype.0);
        removed.ok_or_else(|| unknown(datatype))
    }
}

fn place_of_named(datatype: Datatype) -> Option<usize> {
    let place = usize::from(*PLACES.get(datatype.0)?);
    place.checked_sub(1)
}

#[cold]
fn unknown(datatype: Datatype) -> Failure {
    Failure::new(
        abi::ERR_TYPE,
        match datatype {
            abi::DATATYPE_NULL => "the datatype is MPI_DATATYPE_NULL".to_owned(),
            Datatype(handle) => {
                format!("datatype {handle} does not exist: it was freed, or never made")
            }
        },
    )
}

impl From<TypeError> for Failure {
    fn from(error: TypeError) -> Self {
        let code = match &error {
            TypeError::Argument { .. } | TypeError::Lengths(..) => abi::ERR_ARG,
            TypeError::Conversion { .. } => abi::ERR_CONVERSION,
            _ => abi::ERR_TYPE,
        };
        Self::new(code, error)
    }
}
