//! Why a datatype cannot be made or used.

use refrain_transport::layout::LayoutError;
use thiserror::Error;

/// Why a datatype cannot be made or used.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TypeError {
    /// A count, length or array of the constructor is out of range.
    #[error("{what} is {value}: give {allowed}")]
    Argument {
        /// The argument.
        what: &'static str,
        /// Its value.
        value: i64,
        /// What it may be.
        allowed: &'static str,
    },
    /// Two arrays of the constructor differ in length.
    #[error("the arrays of a datatype have {0} and {1} entries: give as many of each")]
    Lengths(usize, usize),
    /// A size, bound or number of elements is not a 64-bit number.
    #[error("the size or extent of a datatype exceeds 2^63 bytes: use smaller counts or strides")]
    TooLarge,
    /// Types in types in types.
    #[error("datatypes are nested more than {0} deep: build the type from fewer steps")]
    TooDeep(u32),
    /// A type without a regular pattern that has too many blocks.
    #[error("the datatype needs more than {0} blocks: use vectors, or send in several parts")]
    TooManyBlocks(usize),
    /// The bytes are not a layout of memory.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A value has no external form, or the other way round.
    #[error(
        "the value of an element of {native_bytes} bytes does not fit the {external_bytes} bytes that external32 has for its type: use a type of fixed size"
    )]
    Conversion {
        /// Bytes of the element in memory.
        native_bytes: u8,
        /// Bytes of the element in external32.
        external_bytes: u8,
    },
    /// The bytes to convert are not as many as the count of types has.
    #[error(
        "{count} items of the datatype have {expected} bytes, not {bytes}: give a buffer of that length"
    )]
    Buffer {
        /// Number of items.
        count: i64,
        /// Bytes of them.
        expected: i64,
        /// Bytes of the buffer.
        bytes: usize,
    },
}

/// Checks that an argument is at least `min`.
pub(crate) fn at_least(
    min: i64,
    what: &'static str,
    value: i64,
    allowed: &'static str,
) -> Result<(), TypeError> {
    match value >= min {
        true => Ok(()),
        false => Err(TypeError::Argument {
            what,
            value,
            allowed,
        }),
    }
}
