//! Collectives over layouts.
//!
//! Counts and starts of a collective are in elements, which lie one behind the other in the dense
//! form of a buffer. A [`Layout`] says where the bytes of the dense form are. Each side has its
//! own, and members may have different ones.

use super::{Collective, Datum, Input, Neighbours};
use crate::{Error, Group, Layout};
use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use refrain_collectives::{Arguments, Blocks, Chosen};
use refrain_rank::collective::{Layouts, Stretch};
use refrain_transport::layout::LayoutError;
use std::sync::Arc;

/// Blocks of a buffer that have layouts of their own, for [`alltoallw`] and
/// [`neighbour_alltoallw`].
#[derive(Clone, Debug)]
pub struct LaidOutBlocks {
    counts: Vec<u64>,
    starts: Vec<u64>,
    stretches: Arc<[Stretch]>,
}

impl LaidOutBlocks {
    /// Each block has an offset from the beginning of the buffer in bytes, a number of copies of a
    /// layout, each an extent behind the previous one, and this layout.
    ///
    /// # Errors
    /// [`Error::Argument`] when the blocks have more bytes than a memory can hold.
    pub fn new<'a>(
        blocks: impl IntoIterator<Item = (i64, u64, &'a Arc<Layout>)>,
    ) -> Result<Self, Error> {
        let (mut counts, mut starts, mut end) = (Vec::new(), Vec::new(), 0u64);
        let stretches = blocks.into_iter().map(|(offset_bytes, copies, layout)| {
            let start = end;
            let bytes = layout.message_bytes().checked_mul(copies);
            let new_end = bytes.and_then(|bytes| start.checked_add(bytes));
            end = new_end.ok_or_else(|| Error::Argument(LayoutError::Message.to_string()))?;
            counts.push(end - start);
            starts.push(start);
            Ok(Stretch {
                start,
                offset_bytes: offset_bytes as isize,
                layout: Arc::clone(layout),
            })
        });
        let stretches = stretches.collect::<Result<_, Error>>()?;
        Ok(Self {
            counts,
            starts,
            stretches,
        })
    }

    /// The blocks in the dense form, whose elements are bytes.
    pub fn blocks(&self) -> Blocks<'_> {
        Blocks::Listed {
            counts: &self.counts,
            starts: &self.starts,
        }
    }
}

/// As [`alltoallv`](super::alltoallv), with blocks of any layouts: block `b` of `send` at place
/// `a` has as many bytes as block `a` of `receive` at place `b`. `send` is not read in place.
pub fn alltoallw<'a, T: Datum>(
    group: Group,
    input: impl Into<Input<'a, T>>,
    send: &'a LaidOutBlocks,
    output: &'a mut [T],
    receive: &'a LaidOutBlocks,
) -> Collective<'a> {
    let arguments = Arguments::Alltoall {
        send: send.blocks(),
        receive: receive.blocks(),
    };
    let in_bytes = Collective::new(group, input, output, arguments).in_bytes();
    in_bytes.with_own(Some(send), Some(receive))
}

/// As [`neighbour_alltoallv`](super::neighbour_alltoallv), with blocks of any layouts: `send` has
/// one for each destination, `receive` one for each source.
pub fn neighbour_alltoallw<'a, T: Datum>(
    group: Group,
    neighbours: Neighbours<'a>,
    input: &'a [T],
    send: &'a LaidOutBlocks,
    output: &'a mut [T],
    receive: &'a LaidOutBlocks,
) -> Collective<'a> {
    let arguments = Arguments::NeighbourAlltoall {
        sources: neighbours.sources,
        destinations: neighbours.destinations,
        send: send.blocks(),
        receive: receive.blocks(),
    };
    let in_bytes = Collective::new(group, input, output, arguments).in_bytes();
    in_bytes.with_own(Some(send), Some(receive))
}

impl Collective<'_> {
    /// Sets the layouts of input and output. The elements of a buffer fill the bytes that its layout
    /// picks, then those of a copy of the layout one extent further, and so on. The elements of a
    /// collective end with a copy. `None`: the elements lie one behind the other.
    ///
    /// For collectives that combine nothing. Copies in the output must not pick a byte twice. With a
    /// null pointer the offsets of a layout are addresses.
    #[must_use]
    pub fn with_layouts(self, input: Option<&Arc<Layout>>, output: Option<&Arc<Layout>>) -> Self {
        let everywhere = |layout: &Arc<Layout>| {
            let layout = Arc::clone(layout);
            let (start, offset_bytes) = (0, 0);
            Arc::from([Stretch {
                start,
                offset_bytes,
                layout,
            }])
        };
        self.laid_out(Layouts {
            input: input.map(everywhere),
            output: output.map(everywhere),
        })
    }

    /// Says where the blocks of input and output are, for a collective that was made
    /// [by pointer](Self::by_pointer). `None`: as without this call.
    ///
    /// # Safety
    /// The blocks of the buffer in the arguments are [those](LaidOutBlocks::blocks) given here.
    #[must_use]
    pub unsafe fn with_blocks(
        self,
        input: Option<&LaidOutBlocks>,
        output: Option<&LaidOutBlocks>,
    ) -> Self {
        self.with_own(input, output)
    }

    /// Counts bytes instead of elements.
    fn in_bytes(mut self) -> Self {
        let element_bytes = core::mem::replace(&mut self.memory.element_bytes, 1);
        self.elements = self.elements.map(|elements| elements * element_bytes);
        self
    }

    fn with_own(self, input: Option<&LaidOutBlocks>, output: Option<&LaidOutBlocks>) -> Self {
        let stretches = |of: &LaidOutBlocks| Arc::clone(&of.stretches);
        self.laid_out(Layouts {
            input: input.map(stretches),
            output: output.map(stretches),
        })
    }

    fn laid_out(mut self, layouts: Layouts) -> Self {
        let Layouts { input, output } = &layouts;
        let mut into = output.iter().flat_map(|it| it.iter());
        if into.any(|stretch| stretch.layout.overlaps()) {
            self.refused = Some(LayoutError::Overlap.to_string());
        }
        // Only buffers by pointer are null.
        let memory = &mut self.memory;
        if input.is_some() && memory.input.is_null() {
            (memory.input, self.elements[0]) = (with_exposed_provenance(0), u64::MAX);
        }
        if output.is_some() && memory.output.is_null() {
            (memory.output, self.elements[1]) = (with_exposed_provenance_mut(0), u64::MAX);
        }
        self.layouts = Some(Arc::new(layouts));
        self
    }

    /// Checks that the buffers have all elements that a schedule uses.
    #[inline(always)]
    pub(super) fn check_buffers(&self, chosen: &Chosen) -> Result<(), String> {
        let [input, output] = self.elements;
        let are_long = input >= chosen.input_elements && output >= chosen.output_elements;
        match are_long && self.layouts.is_none() {
            true => Ok(()),
            false => self.check_each(chosen),
        }
    }

    #[cold]
    #[inline(never)]
    fn check_each(&self, chosen: &Chosen) -> Result<(), String> {
        let none = Layouts::default();
        let layouts = self.layouts.as_deref().unwrap_or(&none);
        let sides = [
            ("input", chosen.input_elements, &layouts.input),
            ("output", chosen.output_elements, &layouts.output),
        ];
        for ((name, needed, stretches), has) in sides.into_iter().zip(self.elements) {
            if let Some(stretches) = stretches {
                let element_bytes = self.memory.element_bytes;
                let room = (has < u64::MAX).then(|| (has * element_bytes) as usize);
                check(stretches, needed * element_bytes, room)
                    .map_err(|why| format!("the {name}: {why}"))?;
            } else if has < needed {
                return Err(format!("the {name} has {has} elements, and needs {needed}"));
            }
        }
        Ok(())
    }
}

/// Checks that `dense_bytes` bytes are whole copies of the layouts, and inside of a buffer of
/// `room` bytes, if that is known.
fn check(stretches: &[Stretch], dense_bytes: u64, room: Option<usize>) -> Result<(), String> {
    let ends = stretches.iter().skip(1).map(|next| next.start);
    for (stretch, end) in stretches.iter().zip(ends.chain([dense_bytes])) {
        let bytes = end.min(dense_bytes).saturating_sub(stretch.start);
        let in_layout = stretch.layout.message_bytes();
        if bytes == 0 {
            continue;
        }
        if in_layout == 0 || !bytes.is_multiple_of(in_layout) {
            return Err(format!(
                "elements of {bytes} bytes are not a whole number of layouts of {in_layout} bytes: check counts and element type"
            ));
        }
        if let Some(room) = room {
            check_inside(stretch, bytes / in_layout, room).map_err(|why| why.to_string())?;
        }
    }
    Ok(())
}

/// Checks that copies of the layout are inside of a buffer of `room` bytes.
fn check_inside(stretch: &Stretch, copies: u64, room: usize) -> Result<(), LayoutError> {
    let (low, end) = stretch.layout.bounds();
    let last = i128::from(copies - 1) * stretch.layout.extent_bytes() as i128;
    let offset = stretch.offset_bytes as i128;
    let (low, end) = (low as i128 + last.min(0), end as i128 + last.max(0));
    let (low, end) = (offset + low, offset + end);
    let bytes = |it: i128| usize::try_from(it).unwrap_or(usize::MAX);
    if low < 0 {
        let before_bytes = bytes(-low);
        return Err(LayoutError::Before { before_bytes });
    }
    if end > room as i128 {
        let (span_bytes, buffer_bytes) = (bytes(end), room);
        return Err(LayoutError::Buffer {
            span_bytes,
            buffer_bytes,
        });
    }
    Ok(())
}
