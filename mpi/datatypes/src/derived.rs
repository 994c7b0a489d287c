//! The constructors of derived types (MPI-5.0, 5.1.2 to 5.1.5, 5.1.7, 5.1.10).

use crate::contents::{Arguments, Combiner, Construction};
use crate::datatype::Datatype;
use crate::error::{TypeError, at_least};
use crate::shape::{Part, Shape};
use std::sync::Arc;

/// A member of a struct.
#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    /// Number of items.
    pub blocklength: i64,
    /// Bytes from the address of the struct.
    pub displacement: i64,
    /// Their type.
    pub of: &'a Datatype,
}

fn count_of(count: i64) -> Result<(), TypeError> {
    at_least(0, "the count of a datatype", count, "0 or more")
}

fn blocklength_of(blocklength: i64) -> Result<(), TypeError> {
    at_least(0, "a block length", blocklength, "0 or more")
}

impl Datatype {
    /// `count` items, one behind the other.
    ///
    /// # Errors
    /// [`TypeError::Argument`] for a negative count; [`TypeError::TooLarge`], [`TypeError::TooDeep`]
    /// as all constructors.
    pub fn contiguous(count: i64, of: &Self) -> Result<Self, TypeError> {
        count_of(count)?;
        let shape = Shape::repeat(count, of.extent(), Arc::clone(of.shape()))?;
        Ok(of.with(shape, Combiner::Contiguous, [Arguments::counts([count])]))
    }

    /// `count` blocks of `blocklength` items; each block begins `stride` extents behind the previous
    /// one.
    ///
    /// # Errors
    /// As [`contiguous`](Self::contiguous).
    pub fn vector(count: i64, blocklength: i64, stride: i64, of: &Self) -> Result<Self, TypeError> {
        let stride_bytes = stride.checked_mul(of.extent()).ok_or(TypeError::TooLarge)?;
        let shape = of.blocks_at_stride(count, blocklength, stride_bytes)?;
        let counts = Arguments::counts([count, blocklength, stride]);
        Ok(of.with(shape, Combiner::Vector, [counts]))
    }

    /// As [`vector`](Self::vector), with the stride in bytes.
    ///
    /// # Errors
    /// As [`contiguous`](Self::contiguous).
    pub fn hvector(
        count: i64,
        blocklength: i64,
        stride_bytes: i64,
        of: &Self,
    ) -> Result<Self, TypeError> {
        let shape = of.blocks_at_stride(count, blocklength, stride_bytes)?;
        let counts = Arguments::counts([count, blocklength]);
        let stride = Arguments::addresses([stride_bytes]);
        Ok(of.with(shape, Combiner::Hvector, [counts, stride]))
    }

    /// Blocks with displacements in extents.
    ///
    /// # Errors
    /// As [`contiguous`](Self::contiguous); [`TypeError::Lengths`].
    pub fn indexed(
        blocklengths: &[i64],
        displacements: &[i64],
        of: &Self,
    ) -> Result<Self, TypeError> {
        same_length(blocklengths, displacements)?;
        let shape = of.blocks_at(blocklengths.iter().copied(), displacements, of.extent())?;
        let count = Arguments::counts([blocklengths.len() as i64]);
        let [lengths, places] = [blocklengths, displacements].map(|it| it.iter().copied());
        let arguments = [count, Arguments::counts(lengths), Arguments::counts(places)];
        Ok(of.with(shape, Combiner::Indexed, arguments))
    }

    /// Blocks with displacements in bytes.
    ///
    /// # Errors
    /// As [`indexed`](Self::indexed).
    pub fn hindexed(
        blocklengths: &[i64],
        displacements: &[i64],
        of: &Self,
    ) -> Result<Self, TypeError> {
        same_length(blocklengths, displacements)?;
        let shape = of.blocks_at(blocklengths.iter().copied(), displacements, 1)?;
        let count = Arguments::counts([blocklengths.len() as i64]);
        let [lengths, places] = [blocklengths, displacements].map(|it| it.iter().copied());
        let arguments = [
            count,
            Arguments::counts(lengths),
            Arguments::addresses(places),
        ];
        Ok(of.with(shape, Combiner::Hindexed, arguments))
    }

    /// Blocks of one length with displacements in extents.
    ///
    /// # Errors
    /// As [`contiguous`](Self::contiguous).
    pub fn indexed_block(
        blocklength: i64,
        displacements: &[i64],
        of: &Self,
    ) -> Result<Self, TypeError> {
        let lengths = core::iter::repeat_n(blocklength, displacements.len());
        let shape = of.blocks_at(lengths, displacements, of.extent())?;
        let counts = Arguments::counts([displacements.len() as i64, blocklength]);
        let places = Arguments::counts(displacements.iter().copied());
        Ok(of.with(shape, Combiner::IndexedBlock, [counts, places]))
    }

    /// Blocks of one length with displacements in bytes.
    ///
    /// # Errors
    /// As [`contiguous`](Self::contiguous).
    pub fn hindexed_block(
        blocklength: i64,
        displacements: &[i64],
        of: &Self,
    ) -> Result<Self, TypeError> {
        let lengths = core::iter::repeat_n(blocklength, displacements.len());
        let shape = of.blocks_at(lengths, displacements, 1)?;
        let counts = Arguments::counts([displacements.len() as i64, blocklength]);
        let places = Arguments::addresses(displacements.iter().copied());
        Ok(of.with(shape, Combiner::HindexedBlock, [counts, places]))
    }

    /// Blocks of several types.
    ///
    /// # Errors
    /// As [`contiguous`](Self::contiguous).
    pub fn structure(fields: &[Field<'_>]) -> Result<Self, TypeError> {
        let part = |field: &Field<'_>| {
            blocklength_of(field.blocklength)?;
            Ok(Part {
                offset: field.displacement,
                count: field.blocklength,
                of: Arc::clone(field.of.shape()),
            })
        };
        let parts: Result<_, TypeError> = fields.iter().map(part).collect();
        let shape = Shape::list(parts?)?;
        let arguments = [
            Arguments::counts([fields.len() as i64]),
            Arguments::counts(fields.iter().map(|field| field.blocklength)),
            Arguments::addresses(fields.iter().map(|field| field.displacement)),
        ];
        let types = fields.iter().map(|field| field.of.clone()).collect();
        let construction = Construction::new(Combiner::Struct, arguments, types);
        Ok(Self::new(Arc::new(shape), construction))
    }

    /// The same data with another lower bound and extent.
    ///
    /// # Errors
    /// As all constructors.
    pub fn resized(of: &Self, lb: i64, extent: i64) -> Result<Self, TypeError> {
        let shape = Shape::resized(Arc::clone(of.shape()), lb, extent)?;
        Ok(of.with(
            shape,
            Combiner::Resized,
            [Arguments::addresses([lb, extent])],
        ))
    }

    /// The same type again.
    ///
    /// # Errors
    /// [`TypeError::TooDeep`].
    pub fn duplicate(of: &Self) -> Result<Self, TypeError> {
        let shape = Shape::repeat(1, 0, Arc::clone(of.shape()))?;
        Ok(of.with(shape, Combiner::Dup, []))
    }

    /// A type made from this one.
    pub(crate) fn with(
        &self,
        shape: Shape,
        combiner: Combiner,
        arguments: impl Into<Box<[Arguments]>>,
    ) -> Self {
        let construction = Construction::new(combiner, arguments, vec![self.clone()]);
        Self::new(Arc::new(shape), construction)
    }

    fn blocks_at_stride(
        &self,
        count: i64,
        blocklength: i64,
        stride_bytes: i64,
    ) -> Result<Shape, TypeError> {
        count_of(count)?;
        blocklength_of(blocklength)?;
        let block = Shape::repeat(blocklength, self.extent(), Arc::clone(self.shape()))?;
        Shape::repeat(count, stride_bytes, Arc::new(block))
    }

    fn blocks_at(
        &self,
        blocklengths: impl Iterator<Item = i64>,
        displacements: &[i64],
        unit_bytes: i64,
    ) -> Result<Shape, TypeError> {
        let part = |(count, displacement): (i64, &i64)| {
            blocklength_of(count)?;
            let offset = displacement.checked_mul(unit_bytes);
            Ok(Part {
                offset: offset.ok_or(TypeError::TooLarge)?,
                count,
                of: Arc::clone(self.shape()),
            })
        };
        let parts: Result<_, TypeError> = blocklengths.zip(displacements).map(part).collect();
        Shape::list(parts?)
    }
}

fn same_length(left: &[i64], right: &[i64]) -> Result<(), TypeError> {
    match left.len() == right.len() {
        true => Ok(()),
        false => Err(TypeError::Lengths(left.len(), right.len())),
    }
}
