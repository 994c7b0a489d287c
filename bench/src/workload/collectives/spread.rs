//! Layouts of the workload: each element of 8 bytes is somewhere in a space of its own.

use refrain::collective::LaidOutBlocks;
use refrain::{Error, Layout};
use std::sync::Arc;

/// What no collective writes.
pub const UNTOUCHED: u64 = 0x5ca1_ab1e_5ca1_ab1e;

/// Where the bytes of an element are, and how far it is to the next one.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    blocks: &'static [(i64, u64)],
    words: usize,
}

impl Spread {
    /// Elements one behind the other, with gaps, and with their halves exchanged.
    pub const ALL: [Self; 4] = [
        Self {
            blocks: &[(0, 8)],
            words: 1,
        },
        Self {
            blocks: &[(0, 8)],
            words: 3,
        },
        Self {
            blocks: &[(8, 4), (4, 4)],
            words: 2,
        },
        Self {
            blocks: &[(13, 3), (0, 5)],
            words: 2,
        },
    ];

    fn element_bytes(&self) -> usize {
        8 * self.words
    }

    /// The layout of an element.
    pub fn layout(&self) -> Result<Arc<Layout>, Error> {
        self.elements(1)
    }

    /// The layout of several elements.
    fn elements(&self, count: u64) -> Result<Arc<Layout>, Error> {
        let extent = self.element_bytes() as i64;
        let layout = Layout::signed(self.blocks, extent, count);
        let layout = layout.map_err(|why| Error::Argument(why.to_string()))?;
        Ok(Arc::new(layout.with_extent(extent)))
    }

    /// Blocks of elements: every second one has a layout for itself.
    pub fn blocks(&self, counts: &[u64], starts: &[u64]) -> Result<LaidOutBlocks, Error> {
        let layouts = (0..).zip(counts).map(|(index, count)| match index % 2 {
            0 => Ok((*count, self.layout()?)),
            _ => Ok((1, self.elements(*count)?)),
        });
        let layouts = layouts.collect::<Result<Vec<_>, Error>>()?;
        let offsets = starts
            .iter()
            .map(|start| *start as i64 * self.element_bytes() as i64);
        let blocks = offsets.zip(&layouts);
        LaidOutBlocks::new(blocks.map(|(offset, (copies, layout))| (offset, *copies, layout)))
    }

    /// Memory with the elements where the layout has them.
    pub fn memory(&self, elements: &[u64]) -> Vec<u64> {
        let mut bytes = UNTOUCHED.to_ne_bytes().repeat(self.words * elements.len());
        let spaces = bytes.chunks_exact_mut(self.element_bytes());
        for (space, element) in spaces.zip(elements) {
            let mut rest = &element.to_ne_bytes()[..];
            for (offset, length) in self.blocks {
                let (part, behind) = rest.split_at(*length as usize);
                space[*offset as usize..][..part.len()].copy_from_slice(part);
                rest = behind;
            }
        }
        let words = bytes.as_chunks().0.iter();
        words.map(|word| u64::from_ne_bytes(*word)).collect()
    }
}
