//! The model: a list of basics with their displacements, and of markers.

use refrain_datatypes::Basic;

#[derive(Clone, Debug, Default)]
pub struct TypeMap {
    pub entries: Vec<(Basic, i64)>,
    pub lower_marks: Vec<i64>,
    pub upper_marks: Vec<i64>,
}

impl TypeMap {
    pub fn append(&mut self, other: &Self, offset: i64) {
        let moved = |places: &[i64]| places.iter().map(|at| at + offset).collect::<Vec<_>>();
        let entries = other.entries.iter();
        self.entries
            .extend(entries.map(|(basic, at)| (*basic, at + offset)));
        self.lower_marks.extend(moved(&other.lower_marks));
        self.upper_marks.extend(moved(&other.upper_marks));
    }

    /// Blocks of (length, offset in bytes).
    pub fn blocks(of: &Self, blocks: impl IntoIterator<Item = (i64, i64)>) -> Self {
        let mut map = Self::default();
        for (length, offset) in blocks {
            (0..length).for_each(|item| map.append(of, offset + item * of.extent()));
        }
        map
    }

    pub fn resized(of: &Self, lb: i64, extent: i64) -> Self {
        Self {
            entries: of.entries.clone(),
            lower_marks: vec![lb],
            upper_marks: vec![lb + extent],
        }
    }

    pub fn size(&self) -> i64 {
        self.entries
            .iter()
            .map(|(basic, _)| i64::from(basic.bytes))
            .sum()
    }

    pub fn true_lb(&self) -> i64 {
        self.entries.iter().map(|(_, at)| *at).min().unwrap_or(0)
    }

    pub fn true_ub(&self) -> i64 {
        let ends = self
            .entries
            .iter()
            .map(|(basic, at)| at + i64::from(basic.bytes));
        ends.max().unwrap_or(0)
    }

    pub fn lb(&self) -> i64 {
        self.lower_marks
            .iter()
            .copied()
            .min()
            .unwrap_or(self.true_lb())
    }

    pub fn extent(&self) -> i64 {
        match self.upper_marks.iter().copied().max() {
            Some(ub) => ub - self.lb(),
            None => {
                let alignments = self
                    .entries
                    .iter()
                    .map(|(basic, _)| basic.alignment_bytes());
                let alignment = i64::from(alignments.max().unwrap_or(1));
                (self.true_ub() - self.lb() + alignment - 1) / alignment * alignment
            }
        }
    }

    /// The place of each byte of the message.
    pub fn places(&self) -> Vec<i64> {
        let bytes =
            |(basic, at): &(Basic, i64)| (*at..*at + i64::from(basic.bytes)).collect::<Vec<_>>();
        self.entries.iter().flat_map(bytes).collect()
    }
}
