//! Layouts as C describes them: read anew in each call, so that there is nothing to release.

#![allow(unsafe_code, reason = "reads lists of C")]

use super::failure::Failure;
use super::memory::list;
use refrain::Layout;
use refrain::collective::LaidOutBlocks;
use std::sync::Arc;

/// `refrain_span` of the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct Span {
    offset: i64,
    bytes: u64,
}

/// `refrain_layout` of the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LayoutOfC {
    spans: *const Span,
    span_count: u64,
    stride: i64,
    repeats: u64,
    extent: i64,
}

/// `refrain_laid_out` of the header.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BlockOfC {
    layout: *const LayoutOfC,
    count: u64,
    offset: i64,
}

const _: () = assert!(size_of::<LayoutOfC>() == 40 && size_of::<BlockOfC>() == 24);

/// The layout at `place`.
///
/// # Safety
/// As [`list`], for the layout and its spans.
unsafe fn layout(place: *const LayoutOfC) -> Result<Arc<Layout>, Failure> {
    // SAFETY: the caller's promise.
    let described = unsafe { list("layout", place, 1) }?[0];
    // SAFETY: likewise.
    let spans = unsafe { list("spans", described.spans, described.span_count as usize) }?;
    let spans: Vec<_> = spans.iter().map(|span| (span.offset, span.bytes)).collect();
    let layout = Layout::signed(&spans, described.stride, described.repeats);
    let layout = layout.map_err(Failure::argument)?;
    Ok(Arc::new(layout.with_extent(described.extent)))
}

/// As [`layout`], unless `place` is null.
///
/// # Safety
/// As [`layout`].
pub unsafe fn optional(place: *const LayoutOfC) -> Result<Option<Arc<Layout>>, Failure> {
    match place.is_null() {
        true => Ok(None),
        // SAFETY: the caller's promise.
        false => unsafe { layout(place) }.map(Some),
    }
}

/// `number` blocks with layouts of their own.
///
/// # Safety
/// As [`list`], for the blocks, and as [`layout`], for their layouts.
pub unsafe fn blocks(place: *const BlockOfC, number: usize) -> Result<LaidOutBlocks, Failure> {
    // SAFETY: the caller's promise.
    let blocks = unsafe { list("blocks", place, number) }?;
    let mut layouts: Vec<Arc<Layout>> = Vec::with_capacity(number);
    for (index, block) in blocks.iter().enumerate() {
        let before = index.checked_sub(1);
        let same = before.filter(|before| blocks[*before].layout == block.layout);
        layouts.push(match same {
            Some(before) => Arc::clone(&layouts[before]),
            // SAFETY: likewise.
            None => unsafe { layout(block.layout) }?,
        });
    }
    let described = blocks.iter().zip(&layouts);
    let described = described.map(|(block, layout)| (block.offset, block.count, layout));
    Ok(LaidOutBlocks::new(described)?)
}
