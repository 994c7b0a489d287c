//! Envelope and contents: the constructor of a type and its arguments (MPI-5.0, 5.1.13).

use crate::datatype::Datatype;
use crate::named::Named;

/// The constructor of a type; the values are those of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are those of the constructors")]
pub enum Combiner {
    Named = 101,
    Dup = 102,
    Contiguous = 103,
    Vector = 104,
    Hvector = 105,
    Indexed = 106,
    Hindexed = 107,
    IndexedBlock = 108,
    HindexedBlock = 109,
    Struct = 110,
    Subarray = 111,
    Darray = 112,
    F90Real = 113,
    F90Complex = 114,
    F90Integer = 115,
    Resized = 116,
    ValueIndex = 117,
}

/// Arguments of one kind, as the constructor had them.
#[derive(Clone, Debug)]
pub(crate) enum Arguments {
    /// An `int` in both forms of the constructor.
    Integers(Box<[i32]>),
    /// An `int`, or a large count.
    Counts(Box<[i64]>),
    /// An address, or a large count.
    Addresses(Box<[i64]>),
}

/// How a type was made.
#[derive(Clone, Debug)]
pub(crate) struct Construction {
    combiner: Combiner,
    named: Option<&'static Named>,
    arguments: Box<[Arguments]>,
    types: Vec<Datatype>,
    is_large: bool,
}

/// How many arguments of each kind a constructor had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The constructor.
    pub combiner: Combiner,
    /// Number of integers.
    pub integers: usize,
    /// Number of addresses.
    pub addresses: usize,
    /// Number of large counts: none, if the constructor was called without them.
    pub large_counts: usize,
    /// Number of types.
    pub types: usize,
}

/// The arguments of a constructor, in the standard's order.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as in the envelope")]
pub struct Contents {
    pub combiner: Combiner,
    pub integers: Vec<i32>,
    pub addresses: Vec<i64>,
    pub large_counts: Vec<i64>,
    pub types: Vec<Datatype>,
}

impl Arguments {
    pub(crate) fn integers(values: impl IntoIterator<Item = i32>) -> Self {
        Self::Integers(values.into_iter().collect())
    }

    pub(crate) fn counts(values: impl IntoIterator<Item = i64>) -> Self {
        Self::Counts(values.into_iter().collect())
    }

    pub(crate) fn addresses(values: impl IntoIterator<Item = i64>) -> Self {
        Self::Addresses(values.into_iter().collect())
    }
}

impl Construction {
    pub(crate) fn new(
        combiner: Combiner,
        arguments: impl Into<Box<[Arguments]>>,
        types: Vec<Datatype>,
    ) -> Self {
        let arguments = arguments.into();
        // A caller that forgets to say so gets an envelope of large counts, not wrong numbers.
        let is_large = arguments.iter().any(|arguments| match arguments {
            Arguments::Counts(counts) => counts.iter().any(|&count| i32::try_from(count).is_err()),
            _ => false,
        });
        Self {
            combiner,
            named: None,
            arguments,
            types,
            is_large,
        }
    }

    pub(crate) fn named(named: &'static Named) -> Self {
        Self {
            named: Some(named),
            ..Self::new(Combiner::Named, [], Vec::new())
        }
    }

    pub(crate) fn set_large(&mut self) {
        self.is_large = true;
    }

    pub(crate) fn combiner(&self) -> Combiner {
        self.combiner
    }

    pub(crate) fn as_named(&self) -> Option<&'static Named> {
        self.named
    }
}

impl Datatype {
    /// The constructor, and how many arguments it had. A type that was made
    /// [with large counts](Self::with_large_counts) has them here and in the
    /// [contents](Self::contents), in the place of counts and addresses: MPI_Type_get_envelope
    /// without `_c` is an error for it.
    pub fn envelope(&self) -> Envelope {
        let construction = self.construction();
        let mut envelope = Envelope {
            combiner: construction.combiner,
            integers: 0,
            addresses: 0,
            large_counts: 0,
            types: construction.types.len(),
        };
        for arguments in &construction.arguments {
            match (arguments, construction.is_large) {
                (Arguments::Integers(values), _) => envelope.integers += values.len(),
                (Arguments::Counts(values), false) => envelope.integers += values.len(),
                (Arguments::Addresses(values), false) => envelope.addresses += values.len(),
                (Arguments::Counts(values) | Arguments::Addresses(values), true) => {
                    envelope.large_counts += values.len();
                }
            }
        }
        envelope
    }

    /// The arguments of the constructor. Empty for a predefined type, of which MPI_Type_get_contents
    /// is an error.
    pub fn contents(&self) -> Contents {
        let construction = self.construction();
        let mut contents = Contents {
            combiner: construction.combiner,
            integers: Vec::new(),
            addresses: Vec::new(),
            large_counts: Vec::new(),
            types: construction.types.clone(),
        };
        for arguments in &construction.arguments {
            match (arguments, construction.is_large) {
                (Arguments::Integers(values), _) => contents.integers.extend(values),
                (Arguments::Counts(values), false) => {
                    // Larger ones made the construction large.
                    contents
                        .integers
                        .extend(values.iter().map(|&value| value as i32));
                }
                (Arguments::Addresses(values), false) => contents.addresses.extend(values),
                (Arguments::Counts(values) | Arguments::Addresses(values), true) => {
                    contents.large_counts.extend(values);
                }
            }
        }
        contents
    }
}
