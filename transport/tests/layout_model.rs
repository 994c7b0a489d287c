//! Layouts against a model that lists the buffer address of every message byte.

mod seed;

use proptest::prelude::*;
use proptest::sample::Index;
use refrain_transport::layout::{Layout, Rows};
use std::collections::HashSet;

/// A layout, and the addresses of its message's bytes.
#[derive(Clone, Debug)]
struct Sample {
    layout: Layout,
    addresses: Vec<usize>,
}

impl Sample {
    fn new(layout: Layout, blocks: impl Iterator<Item = (usize, usize)>) -> Self {
        let addresses = blocks.flat_map(|(offset, bytes)| offset..offset + bytes);
        Self {
            layout,
            addresses: addresses.collect(),
        }
    }

    fn span(&self) -> usize {
        self.addresses.iter().max().map_or(0, |last| last + 1)
    }

    fn overlaps(&self) -> bool {
        let mut seen = HashSet::new();
        !self.addresses.iter().all(|address| seen.insert(address))
    }
}

fn contiguous() -> impl Strategy<Value = Sample> {
    (0..300usize).prop_map(|bytes| Sample::new(Layout::contiguous(bytes), [(0, bytes)].into_iter()))
}

/// Blocks of all lengths with a copy loop of their own, and others; gaps from none to some;
/// sometimes a stride below the block length.
fn vector() -> impl Strategy<Value = Sample> {
    let block = prop_oneof![
        prop::sample::select(vec![1, 2, 4, 8, 16, 32, 64]),
        0..150usize
    ];
    let stride = |block: usize| prop_oneof![block..block + 20, 0..block + 1];
    (0..40usize, block)
        .prop_flat_map(move |(count, block)| (Just(count), Just(block), stride(block)))
        .prop_map(|(count, block, stride)| {
            let layout = Layout::vector(count, block, stride).unwrap();
            Sample::new(layout, (0..count).map(|item| (item * stride, block)))
        })
}

/// Blocks anywhere, often empty, adjacent or overlapping.
fn indexed() -> impl Strategy<Value = Sample> {
    prop::collection::vec((0..200usize, 0..20usize), 0..12).prop_map(|blocks| {
        let layout = Layout::indexed(&blocks).unwrap();
        Sample::new(layout, blocks.into_iter())
    })
}

/// Fields anywhere, items apart or interleaved.
fn structure() -> impl Strategy<Value = Sample> {
    let fields = prop_oneof![
        prop::collection::vec((0..60usize, 0..10usize), 0..4),
        // in order and apart: what structs are like
        prop::collection::vec((0..9usize, 1..70usize), 1..5).prop_map(|gaps| {
            let mut end = 0;
            let field = |(gap, bytes)| {
                let offset = end + gap;
                end = offset + bytes;
                (offset, bytes)
            };
            gaps.into_iter().map(field).collect()
        }),
    ];
    (fields, 0..80usize, 0..10usize).prop_map(|(fields, extent, count)| {
        let layout = Layout::structure(&fields, extent, count).unwrap();
        let items = (0..count).flat_map(|item| {
            let fields = fields.clone().into_iter();
            fields.map(move |(offset, bytes)| (item * extent + offset, bytes))
        });
        Sample::new(layout, items)
    })
}

/// Blocks anywhere; each item lies before or behind the previous one.
fn signed() -> impl Strategy<Value = Sample> {
    let blocks = prop::collection::vec((0..60i64, 0..10u64), 0..4);
    (blocks, -80..80i64, 0..10i64).prop_map(|(mut blocks, stride, count)| {
        // The last item begins at 0, so that none lies before the buffer.
        let first = (-stride * (count - 1)).max(0);
        blocks.iter_mut().for_each(|(offset, _)| *offset += first);
        let layout = Layout::signed(&blocks, stride, count as u64).unwrap();
        let items = (0..count).flat_map(|item| {
            let place = move |(offset, bytes)| ((item * stride + offset) as usize, bytes as usize);
            blocks.clone().into_iter().map(place)
        });
        Sample::new(layout, items)
    })
}

/// Rows at pitches of either sign, in items at a stride.
fn rows() -> impl Strategy<Value = Sample> {
    let bytes = prop::sample::select(vec![1, 4, 7, 8, 16]);
    let rows = (0..60i64, bytes, 0..7u64, -20..20i64).prop_map(|(offset, bytes, rows, pitch)| {
        // The lowest row begins at the offset.
        let first = (-pitch * (rows as i64 - 1)).max(0);
        Rows {
            offset_bytes: offset + first,
            row_bytes: bytes,
            rows,
            pitch_bytes: pitch,
        }
    });
    let blocks = prop::collection::vec(rows, 1..4);
    (blocks, 0..300usize, 0..5usize).prop_map(|(blocks, stride, count)| {
        let layout = Layout::rows(&blocks, stride as i64, count as u64).unwrap();
        let pieces = (0..count).flat_map(|item| {
            let rows = blocks.clone().into_iter().flat_map(|rows| {
                let row = move |row| (rows.offset_bytes + row * rows.pitch_bytes) as usize;
                let bytes = rows.row_bytes as usize;
                (0..rows.rows as i64).map(move |it| (row(it), bytes))
            });
            rows.map(move |(offset, bytes)| (item * stride + offset, bytes))
        });
        Sample::new(layout, pieces)
    })
}

fn sample() -> impl Strategy<Value = Sample> {
    prop_oneof![
        1 => contiguous(),
        3 => vector(),
        3 => indexed(),
        3 => structure(),
        3 => signed(),
        4 => rows(),
    ]
}

/// Bytes that differ from their neighbours and from fresh memory.
fn filled(bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at * 37 + at / 256 + 1) as u8)
        .collect()
}

/// The offsets at which a message of `bytes` is cut: any offsets, in order.
fn cuts(indices: &[Index], bytes: usize) -> Vec<usize> {
    let mut cuts: Vec<_> = indices.iter().map(|index| index.index(bytes + 1)).collect();
    cuts.extend([0, bytes]);
    cuts.sort_unstable();
    cuts
}

proptest! {
    #![proptest_config(seed::config(3_000))]

    #[test]
    fn sizes_and_overlap_are_those_of_the_address_list(sample in sample()) {
        let layout = &sample.layout;
        prop_assert_eq!(layout.message_bytes(), sample.addresses.len() as u64);
        prop_assert_eq!(layout.span_bytes(), sample.span());
        prop_assert_eq!(layout.overlaps(), sample.overlaps());
        let run = (sample.addresses.windows(2)).all(|pair| pair[0] + 1 == pair[1]);
        let first = sample.addresses.first().map_or(0, |first| *first as isize);
        prop_assert_eq!(layout.is_contiguous(), run.then_some(first));
    }

    #[test]
    fn pieces_name_every_byte_in_order(
        sample in sample(),
        offset in any::<Index>(),
        bytes in 0..400usize,
    ) {
        let offset = offset.index(sample.addresses.len() + 1);
        let end = sample.addresses.len().min(offset + bytes);
        let mut named = Vec::new();
        for piece in sample.layout.pieces(offset as u64, bytes) {
            prop_assert!(piece.bytes > 0);
            let begin = piece.buffer_offset as usize;
            named.extend(begin..begin + piece.bytes);
        }
        prop_assert_eq!(named, &sample.addresses[offset..end]);
    }

    #[test]
    fn packing_fragments_makes_the_message(
        sample in sample(),
        split in prop::collection::vec(any::<Index>(), 0..5),
    ) {
        let buffer = filled(sample.span());
        let message: Vec<u8> = sample.addresses.iter().map(|&at| buffer[at]).collect();
        for cut in cuts(&split, message.len()).windows(2) {
            let mut out = vec![0; cut[1] - cut[0]];
            prop_assert_eq!(sample.layout.pack(&buffer, cut[0] as u64, &mut out), out.len());
            prop_assert_eq!(&out, &message[cut[0]..cut[1]]);
        }
    }

    #[test]
    fn unpacking_fragments_in_order_fills_the_buffer_and_nothing_else(
        sample in sample(),
        split in prop::collection::vec(any::<Index>(), 0..5),
    ) {
        let message = filled(sample.addresses.len());
        let mut expected = vec![0; sample.span() + 9];
        for (&at, &byte) in sample.addresses.iter().zip(&message) {
            expected[at] = byte;
        }
        let mut buffer = vec![0; expected.len()];
        for cut in cuts(&split, message.len()).windows(2) {
            let data = &message[cut[0]..cut[1]];
            let done = sample.layout.unpack(cut[0] as u64, data, &mut buffer);
            prop_assert_eq!(done, data.len());
        }
        prop_assert_eq!(buffer, expected);
    }
}
