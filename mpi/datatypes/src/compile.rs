//! Shapes as layouts of memory.
//!
//! A layout is a list of blocks, each with rows at a pitch, and the list may come again at a stride.
//! A block of an array of three dimensions is one of them, repeated; one of an array of four
//! dimensions is a list as long as its second dimension. More levels of repetition, and structs that
//! are repeated inside of other types, are listed block by block. No more than [`STEPS_MAX`] steps
//! are made, each of which lists a block or enters a shape.

use crate::error::{TypeError, at_least};
use crate::shape::{Map, Part, Shape};
use refrain_transport::layout::{Layout, Rows};
use std::sync::Arc;

/// Keeps the memory of a list of blocks below 1.5 GiB, and the time below some seconds.
const STEPS_MAX: usize = 1 << 24;

/// Blocks, and how often they come again.
#[derive(Clone, Debug)]
struct Plan {
    blocks: Vec<Rows>,
    stride: i64,
    count: i64,
}

/// Counts steps.
struct Steps(usize);

/// Where the data of `count` items of a shape is.
pub(crate) fn layout(shape: &Shape, count: i64) -> Result<Layout, TypeError> {
    at_least(0, "the number of items", count, "0 or more")?;
    let extent = shape.bounds.extent();
    // Then all numbers below fit.
    let bounds = shape.bounds.repeated(0, count.max(1), extent);
    (bounds.zip(shape.bytes.checked_mul(count))).ok_or(TypeError::TooLarge)?;
    let mut steps = Steps(0);
    let plan = steps.compile(shape)?;
    let plan = steps.repeated(plan, count, extent)?;
    let layout = Layout::rows(&plan.blocks, plan.stride, plan.count as u64)?;
    let extent = extent.checked_mul(count).ok_or(TypeError::TooLarge)?;
    Ok(layout.with_extent(extent))
}

impl Plan {
    fn once(blocks: Vec<Rows>) -> Self {
        Self {
            blocks,
            stride: 0,
            count: 1,
        }
    }

    fn moved(mut self, offset: i64) -> Self {
        // Bounds of shapes have been checked.
        let blocks = self.blocks.iter_mut();
        blocks.for_each(|rows| rows.offset_bytes += offset);
        self
    }
}

impl Steps {
    fn make(&mut self, steps: usize) -> Result<(), TypeError> {
        self.0 = self.0.saturating_add(steps);
        match self.0 <= STEPS_MAX {
            true => Ok(()),
            false => Err(TypeError::TooManyBlocks(STEPS_MAX)),
        }
    }

    fn compile(&mut self, shape: &Shape) -> Result<Plan, TypeError> {
        self.make(1)?;
        if shape.bytes == 0 {
            return Ok(Plan::once(Vec::new()));
        }
        match &shape.map {
            Map::Basic(basic) => Ok(Plan::once(vec![Rows::one(0, basic.bytes.into())])),
            Map::Repeat { count, stride, of } => {
                let plan = self.compile(of)?;
                self.repeated(plan, *count, *stride)
            }
            Map::List(parts) => self.sequence(parts),
        }
    }

    fn part(&mut self, part: &Part) -> Result<Plan, TypeError> {
        let plan = self.compile(&part.of)?;
        self.repeated(plan, part.count, part.of.bounds.extent())
    }

    fn sequence(&mut self, parts: &[Part]) -> Result<Plan, TypeError> {
        if let [part] = parts {
            return Ok(self.part(part)?.moved(part.offset));
        }
        let mut blocks = Vec::with_capacity(parts.len());
        // Parts are often of one type.
        let mut last: Option<(&Arc<Shape>, Plan)> = None;
        for part in parts.iter().filter(|part| part.count > 0) {
            let (of, plan) = match last.take().filter(|(of, _)| Arc::ptr_eq(of, &part.of)) {
                Some(last) => last,
                None => (&part.of, self.compile(&part.of)?),
            };
            self.append(&mut blocks, part, &plan)?;
            last = Some((of, plan));
        }
        Ok(Plan::once(blocks))
    }

    /// Appends the blocks of a part, of which `plan` is one item.
    fn append(
        &mut self,
        blocks: &mut Vec<Rows>,
        part: &Part,
        plan: &Plan,
    ) -> Result<(), TypeError> {
        let extent = part.of.bounds.extent();
        let moved = |rows: &Rows| Rows {
            offset_bytes: rows.offset_bytes + part.offset,
            ..*rows
        };
        if let ([rows], 1) = (&plan.blocks[..], plan.count) {
            let mut rows = moved(rows);
            if part.count == 1 || repeat_rows(&mut rows, part.count, extent) {
                blocks.push(rows);
                return self.make(1);
            }
        }
        let plan = self.repeated(plan.clone(), part.count, extent)?;
        let plan = self.expanded(plan)?;
        self.make(plan.blocks.len())?;
        blocks.extend(plan.blocks.iter().map(moved));
        Ok(())
    }

    /// The plan `count` times, at a stride.
    fn repeated(&mut self, plan: Plan, count: i64, stride: i64) -> Result<Plan, TypeError> {
        if count == 0 || plan.blocks.is_empty() {
            return Ok(Plan::once(Vec::new()));
        }
        if count == 1 {
            return Ok(plan);
        }
        let mut plan = match plan.count == 1 || plan.stride.checked_mul(plan.count) == Some(stride)
        {
            true => plan,
            false => self.expanded(plan)?,
        };
        if plan.count > 1 {
            plan.count = plan.count.checked_mul(count).ok_or(TypeError::TooLarge)?;
            return Ok(plan);
        }
        if let [rows] = &mut plan.blocks[..]
            && repeat_rows(rows, count, stride)
        {
            return Ok(plan);
        }
        Ok(Plan {
            stride,
            count,
            ..plan
        })
    }

    /// The plan with all its blocks listed.
    fn expanded(&mut self, plan: Plan) -> Result<Plan, TypeError> {
        if plan.count == 1 {
            return Ok(plan);
        }
        let count = usize::try_from(plan.count).map_err(|_| TypeError::TooLarge)?;
        self.make(plan.blocks.len().saturating_mul(count))?;
        let mut blocks = Vec::with_capacity(plan.blocks.len() * count);
        for item in 0..plan.count {
            blocks.extend(plan.blocks.iter().map(|rows| Rows {
                offset_bytes: rows.offset_bytes + item * plan.stride,
                ..*rows
            }));
        }
        Ok(Plan::once(blocks))
    }
}

/// Repeats a block at a stride if it can stay one block; tells whether it can.
fn repeat_rows(rows: &mut Rows, count: i64, stride: i64) -> bool {
    // The bytes of shapes have been checked.
    let (count, is_row) = (count as u64, rows.rows == 1);
    let is_dense = is_row && u64::try_from(stride) == Ok(rows.row_bytes);
    let span = i128::from(rows.pitch_bytes) * i128::from(rows.rows);
    if is_dense {
        rows.row_bytes *= count;
    } else if is_row {
        (rows.rows, rows.pitch_bytes) = (count, stride);
    } else if span == i128::from(stride) {
        rows.rows *= count;
    } else {
        return false;
    }
    true
}
