//! A datatype: its shape, and how the program made it.

use crate::basic::{Basic, Class};
use crate::contents::{Combiner, Construction};
use crate::error::TypeError;
use crate::named::Named;
use crate::shape::{Map, Part, Shape};
use crate::signature::Signature;
use refrain_collectives::reduction::Element;
use refrain_transport::layout::Layout;
use std::sync::{Arc, OnceLock};

/// A datatype. Cheap to clone; clones are the same type.
#[derive(Clone, Debug)]
pub struct Datatype(Arc<Type>);

#[derive(Debug)]
struct Type {
    shape: Arc<Shape>,
    construction: Construction,
    /// Made when it is first asked for.
    layout: OnceLock<Result<Arc<Layout>, TypeError>>,
}

impl Datatype {
    pub(crate) fn new(shape: Arc<Shape>, construction: Construction) -> Self {
        Self(Arc::new(Type {
            shape,
            construction,
            layout: OnceLock::new(),
        }))
    }

    /// A predefined type.
    pub fn named(named: &'static Named) -> Self {
        let shape = match named.index {
            None => Arc::new(Shape::basic(named.value)),
            Some(index) => Arc::new(pair(named.value, index)),
        };
        Self::new(shape, Construction::named(named))
    }

    /// The type of a value and its index, for MPI_MINLOC and MPI_MAXLOC (MPI-5.0,
    /// MPI_Type_get_value_index). `None` when the types are not numbers of a kind that reductions
    /// have.
    pub fn value_index(value: &'static Named, index: &'static Named) -> Option<Self> {
        let has_both =
            |named: &&Named| named.value == value.value && named.index == Some(index.value);
        let is_integer = matches!(index.value.class, Class::Signed | Class::Unsigned);
        if value.index.is_some() || index.index.is_some() || !is_integer {
            return None;
        }
        if let Some(named) = crate::named::NAMED.iter().find(has_both) {
            return Some(Self::named(named));
        }
        value.value.number().zip(index.value.number())?;
        let types = [value, index].map(Self::named).to_vec();
        let construction = Construction::new(Combiner::ValueIndex, [], types);
        Some(Self::new(
            Arc::new(pair(value.value, index.value)),
            construction,
        ))
    }

    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.0.shape
    }

    pub(crate) fn construction(&self) -> &Construction {
        &self.0.construction
    }

    /// Remembers that the constructor was called with large counts: see
    /// [`contents`](Self::contents). To be called on a type that has no clones yet.
    #[must_use]
    pub fn with_large_counts(mut self) -> Self {
        if let Some(fresh) = Arc::get_mut(&mut self.0) {
            fresh.construction.set_large();
        }
        self
    }

    /// Whether both are the same type: not merely equal ones.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Bytes of the data (MPI_Type_size).
    #[inline]
    pub fn size(&self) -> i64 {
        self.0.shape.bytes
    }

    /// The lower bound.
    pub fn lb(&self) -> i64 {
        self.0.shape.bounds.lb()
    }

    /// Distance from one item to the next.
    #[inline]
    pub fn extent(&self) -> i64 {
        self.0.shape.bounds.extent()
    }

    /// The lowest byte of the data.
    pub fn true_lb(&self) -> i64 {
        self.0.shape.bounds.true_lb()
    }

    /// Distance from the lowest byte of the data to the end of the highest.
    pub fn true_extent(&self) -> i64 {
        self.0.shape.bounds.true_extent()
    }

    /// The basic types and their order.
    pub fn signature(&self) -> Signature {
        self.0.shape.signature
    }

    /// The basic type, if the type is one.
    pub fn basic(&self) -> Option<Basic> {
        match self.0.shape.map {
            Map::Basic(basic) => Some(basic),
            _ => None,
        }
    }

    /// As the operand of a reduction, if it is a predefined type that can be one.
    pub fn element(&self) -> Option<Element> {
        if let Some(named) = self.as_named() {
            return named.element();
        }
        match (&self.0.shape.map, self.construction().combiner()) {
            (Map::Basic(basic), _) => basic.element(),
            (Map::List(parts), Combiner::ValueIndex) => {
                let number = |part: &Part| match part.of.map {
                    Map::Basic(basic) => basic.number(),
                    _ => None,
                };
                Some(Element::Located {
                    value: number(&parts[0])?,
                    index: number(&parts[1])?,
                })
            }
            _ => None,
        }
    }

    /// The predefined type, if it is a named one.
    pub fn as_named(&self) -> Option<&'static Named> {
        self.construction().as_named()
    }

    /// Where the data of one item is; the extent of the layout is that of the type. Compiled when
    /// first called (at MPI_Type_commit).
    ///
    /// # Errors
    /// [`TypeError::TooManyBlocks`], [`TypeError::Layout`].
    pub fn layout(&self) -> Result<Arc<Layout>, TypeError> {
        let compiled = self
            .0
            .layout
            .get_or_init(|| self.layout_of(1).map(Arc::new));
        compiled.clone()
    }

    /// Where the data of `count` items is. For messages give the layout of one item to the engine,
    /// with the count: nothing is compiled then.
    ///
    /// # Errors
    /// As [`layout`](Self::layout).
    pub fn layout_of(&self, count: i64) -> Result<Layout, TypeError> {
        crate::compile::layout(&self.0.shape, count)
    }

    /// Whether items follow one another in memory without gaps, in the order of the message.
    pub fn is_contiguous(&self) -> bool {
        let is_dense = self.extent() == self.size() && self.true_lb() == self.lb();
        let compiled = |layout: Arc<Layout>| layout.is_contiguous().is_some();
        self.basic().is_some() || is_dense && self.layout().is_ok_and(compiled)
    }
}

/// A value, and an index behind it where C would put it.
fn pair(value: Basic, index: Basic) -> Shape {
    let alignment = i64::from(index.alignment_bytes());
    let offset = (i64::from(value.bytes) + alignment - 1) / alignment * alignment;
    let part = |offset, basic| Part {
        offset,
        count: 1,
        of: Arc::new(Shape::basic(basic)),
    };
    let list = Shape::list(Box::new([part(0, value), part(offset, index)]));
    list.expect("two small types")
}
