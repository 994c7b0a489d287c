//! Lower bounds and extents (MPI-5.0, 5.1.6 to 5.1.8).

/// Where a type begins and ends, in bytes from the address of its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// The lowest byte and the end of the highest, if there is one.
    data: Option<(i64, i64)>,
    /// The lowest and highest marker that MPI_Type_create_resized has set, if there is one.
    marks: Option<(i64, i64)>,
    /// The strictest alignment of its basic types.
    alignment: i64,
}

type Range = Option<(i64, i64)>;

fn joined(left: Range, right: Range) -> Range {
    match (left, right) {
        (Some(left), Some(right)) => Some((left.0.min(right.0), left.1.max(right.1))),
        (one, None) | (None, one) => one,
    }
}

/// The range and all its copies up to a distance; `None` when the numbers do not fit.
fn spread(range: Range, distance: i64) -> Option<Range> {
    let Some((low, end)) = range else {
        return Some(None);
    };
    let low = low.checked_add(distance.min(0))?;
    Some(Some((low, end.checked_add(distance.max(0))?)))
}

impl Bounds {
    /// Those of nothing.
    pub(crate) const EMPTY: Self = Self {
        data: None,
        marks: None,
        alignment: 1,
    };

    pub(crate) fn basic(bytes: i64, alignment: i64) -> Self {
        Self {
            data: Some((0, bytes)),
            marks: None,
            alignment,
        }
    }

    /// Those of `count` items at a stride, the first at `offset`.
    pub(crate) fn repeated(self, offset: i64, count: i64, stride: i64) -> Option<Self> {
        let distance = (count - 1).checked_mul(stride)?;
        let moved = |range: Range| match spread(range, distance)? {
            None => Some(None),
            Some((low, end)) => Some(Some((low.checked_add(offset)?, end.checked_add(offset)?))),
        };
        let bounds = Self {
            data: moved(self.data)?,
            marks: moved(self.marks)?,
            ..self
        };
        bounds.is_in_range().then_some(bounds)
    }

    /// Those of both together.
    pub(crate) fn union(self, other: Self) -> Option<Self> {
        let bounds = Self {
            data: joined(self.data, other.data),
            marks: joined(self.marks, other.marks),
            alignment: self.alignment.max(other.alignment),
        };
        bounds.is_in_range().then_some(bounds)
    }

    /// The same data between other markers.
    pub(crate) fn resized(self, lb: i64, extent: i64) -> Option<Self> {
        let marks = Some((lb, lb.checked_add(extent)?));
        Some(Self { marks, ..self })
    }

    /// Whether all differences can be computed.
    fn is_in_range(&self) -> bool {
        let fits = |(low, end): (i64, i64)| {
            let extent = end.checked_sub(low);
            extent.is_some_and(|extent| extent <= i64::MAX - self.alignment)
        };
        self.data.is_none_or(fits) && self.marks.is_none_or(fits)
    }

    pub(crate) fn lb(&self) -> i64 {
        self.marks.or(self.data).map_or(0, |(low, _)| low)
    }

    /// From the lower to the upper bound; without markers as far as the alignment asks.
    pub(crate) fn extent(&self) -> i64 {
        match (self.marks, self.data) {
            (Some((low, end)), _) => end - low,
            (None, Some((low, end))) => round_up(end - low, self.alignment),
            (None, None) => 0,
        }
    }

    pub(crate) fn true_lb(&self) -> i64 {
        self.data.map_or(0, |(low, _)| low)
    }

    pub(crate) fn true_extent(&self) -> i64 {
        self.data.map_or(0, |(low, end)| end - low)
    }
}

fn round_up(bytes: i64, alignment: i64) -> i64 {
    match bytes % alignment {
        0 => bytes,
        rest => bytes + alignment - rest,
    }
}
