//! The properties that layouts report, and the limits of their ranges. Copying is checked against a
//! model in `tests/layout_model.rs`.

use super::*;

const GIB: usize = 1 << 30;

const GIB_OFFSET: isize = 1 << 30;

fn pieces(layout: &Layout, offset: u64, bytes: usize) -> Vec<(isize, usize)> {
    let pieces = layout.pieces(offset, bytes);
    pieces.map(|p| (p.buffer_offset, p.bytes)).collect()
}

#[test]
fn layouts_tell_their_sizes() {
    let vector = Layout::vector(3, 8, 32).unwrap();
    assert_eq!((vector.message_bytes(), vector.span_bytes()), (24, 72));
    let indexed = Layout::indexed(&[(40, 2), (0, 3)]).unwrap();
    assert_eq!((indexed.message_bytes(), indexed.span_bytes()), (5, 42));
    let structure = Layout::structure(&[(4, 4), (16, 8)], 32, 10).unwrap();
    assert_eq!(
        (structure.message_bytes(), structure.span_bytes()),
        (120, 312)
    );
    let contiguous = Layout::contiguous(7);
    assert_eq!(
        (contiguous.message_bytes(), contiguous.span_bytes()),
        (7, 7)
    );
}

#[test]
fn pieces_come_in_message_order() {
    let indexed = Layout::indexed(&[(10, 2), (0, 3), (20, 1)]).unwrap();
    assert_eq!(pieces(&indexed, 0, 6), [(10, 2), (0, 3), (20, 1)]);
    assert_eq!(pieces(&indexed, 1, 3), [(11, 1), (0, 2)]);
    let vector = Layout::vector(3, 8, 32).unwrap();
    assert_eq!(pieces(&vector, 12, 8), [(36, 4), (64, 4)]);
    let structure = Layout::structure(&[(4, 1), (0, 2)], 8, 2).unwrap();
    assert_eq!(pieces(&structure, 2, 4), [(1, 1), (12, 1), (8, 2)]);
}

#[test]
fn pieces_end_with_the_message() {
    let vector = Layout::vector(2, 4, 8).unwrap();
    assert_eq!(pieces(&vector, 6, usize::MAX), [(10, 2)]);
    assert_eq!(pieces(&vector, 8, 1), []);
    assert_eq!(pieces(&vector, u64::MAX, usize::MAX), []);
    assert_eq!(pieces(&vector, 0, 0), []);
    let mut out = [0; 100];
    assert_eq!(vector.pack(&[1; 12], 5, &mut out), 3);
    assert_eq!(vector.unpack(5, &out, &mut [0; 12]), 3);
    assert_eq!(vector.unpack(9, &out, &mut [0; 12]), 0);
}

#[test]
fn what_lies_in_one_piece_is_contiguous_however_it_was_described() {
    let contiguous = [
        (Layout::contiguous(24), 0),
        (Layout::vector(3, 8, 8).unwrap(), 0),
        (Layout::vector(1, 24, 1000).unwrap(), 0),
        (Layout::indexed(&[(5, 4), (9, 0), (9, 20)]).unwrap(), 5),
        (Layout::structure(&[(8, 4), (12, 4)], 8, 3).unwrap(), 8),
    ];
    for (layout, offset) in contiguous {
        assert_eq!(layout.is_contiguous(), Some(offset), "{layout:?}");
        assert_eq!(pieces(&layout, 0, 100), [(offset, 24)], "{layout:?}");
    }
    for layout in [
        Layout::vector(2, 8, 9).unwrap(),
        Layout::indexed(&[(4, 4), (0, 4)]).unwrap(),
    ] {
        assert_eq!(layout.is_contiguous(), None, "{layout:?}");
    }
}

#[test]
fn nothing_is_a_message_too() {
    let empty = [
        Layout::contiguous(0),
        Layout::vector(0, 8, usize::MAX).unwrap(),
        Layout::vector(usize::MAX, 0, usize::MAX).unwrap(),
        Layout::indexed(&[]).unwrap(),
        Layout::indexed(&[(usize::MAX, 0), (3, 0)]).unwrap(),
        Layout::structure(&[(4, 4)], 8, 0).unwrap(),
        Layout::structure(&[], 8, 8).unwrap(),
    ];
    for layout in empty {
        assert_eq!((layout.message_bytes(), layout.span_bytes()), (0, 0));
        assert_eq!(layout.is_contiguous(), Some(0));
        assert_eq!(pieces(&layout, 0, 10), []);
        assert_eq!(layout.pack(&[], 0, &mut [0; 4]), 0);
        assert_eq!(layout.unpack(0, &[0; 4], &mut []), 0);
        assert_eq!(layout.check_receive(0), Ok(()));
    }
}

#[test]
fn messages_beyond_4_gib_are_walked_as_others_are() {
    let vector = Layout::vector(5, 3 * GIB, 4 * GIB).unwrap();
    assert_eq!(vector.message_bytes(), 15 << 30);
    assert_eq!(vector.span_bytes(), 19 * GIB);
    let offset = (9 << 30) - 1;
    assert_eq!(
        pieces(&vector, offset, 2),
        [(11 * GIB_OFFSET - 1, 1), (12 * GIB_OFFSET, 1)]
    );
    let structure = Layout::structure(&[(8, 8), (0, 8)], 16, GIB).unwrap();
    assert_eq!(
        pieces(&structure, (12 << 30) + 4, 8),
        [(12 * GIB_OFFSET + 12, 4), (12 * GIB_OFFSET, 4)]
    );
    let indexed = Layout::indexed(&[(5 * GIB, 3 * GIB), (0, 5 * GIB)]).unwrap();
    assert_eq!(pieces(&indexed, 7 << 30, 9), [(4 * GIB_OFFSET, 9)]);
}

#[test]
fn a_small_buffer_can_make_a_message_beyond_4_gib() {
    // Every item names the same bytes: allowed for sending.
    let buffer: Vec<u8> = (0..=255).collect();
    let layout = Layout::vector(1 << 30, 256, 0).unwrap();
    assert_eq!(layout.message_bytes(), 1 << 38);
    let mut out = [0; 600];
    let offset = (1 << 37) + 3;
    assert_eq!(layout.pack(&buffer, offset, &mut out), 600);
    for (at, byte) in out.into_iter().enumerate() {
        assert_eq!(usize::from(byte), (at + 3) % 256);
    }
    assert_eq!(layout.check_receive(256), Err(LayoutError::Overlap));
}

#[test]
fn layouts_beyond_every_buffer_are_refused() {
    const MAX: usize = SPAN_BYTES_MAX;
    let block = |offset: usize, bytes: usize| {
        Some(LayoutError::Block {
            offset_bytes: offset as i128,
            bytes: bytes as u128,
        })
    };
    let span = |count: usize, stride: usize| {
        Some(LayoutError::Span {
            count: count as u128,
            stride_bytes: stride as i128,
        })
    };
    assert_eq!(Layout::indexed(&[(MAX, 1)]).err(), block(MAX, 1));
    assert_eq!(
        Layout::indexed(&[(0, 1), (usize::MAX, 2)]).err(),
        block(usize::MAX, 2)
    );
    assert_eq!(Layout::vector(1, MAX + 1, 0).err(), block(0, MAX + 1));
    assert_eq!(Layout::vector(3, 1, MAX).err(), span(3, MAX));
    assert_eq!(Layout::vector(2, 1, MAX).err(), span(2, MAX));
    assert_eq!(Layout::vector(usize::MAX, 1, 2).err(), span(usize::MAX, 2));
    assert_eq!(
        Layout::structure(&[(8, 8)], MAX / 2, 3).err(),
        span(3, MAX / 2)
    );
    assert!(Layout::vector(2, 1, MAX - 1).is_ok());
    assert!(Layout::indexed(&[(MAX - 1, 1)]).is_ok());
}

#[test]
fn messages_of_2_to_the_64_bytes_are_refused() {
    let (message, half) = (Some(LayoutError::Message), SPAN_BYTES_MAX);
    assert_eq!(Layout::vector(1 << 62, 4, 0).err(), message);
    assert_eq!(
        Layout::indexed(&[(0, half), (0, half), (0, 2)]).err(),
        message
    );
    let longest = Layout::indexed(&[(0, half), (0, half), (0, 1)]).unwrap();
    assert_eq!(longest.message_bytes(), u64::MAX);
    assert_eq!(
        pieces(&longest, u64::MAX - 2, 9),
        [(half as isize - 1, 1), (0, 1)]
    );
}

#[test]
fn buffers_are_checked() {
    let layout = Layout::vector(2, 4, 8).unwrap();
    assert_eq!(layout.check_send(12), Ok(()));
    assert_eq!(layout.check_receive(12), Ok(()));
    let short = LayoutError::Buffer {
        span_bytes: 12,
        buffer_bytes: 11,
    };
    assert_eq!(layout.check_send(11), Err(short));
    assert_eq!(layout.check_receive(11), Err(short));
}

#[test]
fn a_layout_before_its_buffer_is_refused() {
    let layout = Layout::signed(&[(-3, 2), (1, 1)], -8, 3).unwrap();
    assert_eq!(layout.message_bytes(), 9);
    assert_eq!((layout.extent_bytes(), layout.span_bytes()), (21, 2));
    let before = LayoutError::Before { before_bytes: 19 };
    assert_eq!(layout.check_send(usize::MAX), Err(before));
    assert_eq!(layout.clone().with_extent(-8).extent_bytes(), -8);
    let back = [(-3, 2), (1, 1), (-11, 2), (-7, 1), (-19, 2), (-15, 1)];
    assert_eq!(pieces(&layout, 0, usize::MAX), back);
    let ends = Layout::signed(&[(i64::MIN, 1), (i64::MAX - 1, 1)], 0, 1);
    assert!(matches!(ends, Err(LayoutError::Span { .. })), "{ends:?}");
    let beyond = Layout::signed(&[(i64::MAX, 1)], 0, 1);
    assert!(
        matches!(beyond, Err(LayoutError::Block { .. })),
        "{beyond:?}"
    );
}

#[test]
fn interleaved_items_overlap_only_where_both_exist() {
    // item 4 would meet the second field of item 0
    let fields = [(0, 4), (16, 4)];
    assert!(!Layout::structure(&fields, 4, 4).unwrap().overlaps());
    assert!(Layout::structure(&fields, 4, 5).unwrap().overlaps());
    // fields that fall between each other for ever
    assert!(
        !Layout::structure(&[(0, 4), (20, 4)], 8, 1000)
            .unwrap()
            .overlaps()
    );
    assert!(
        Layout::structure(&[(0, 4), (21, 4)], 8, 4)
            .unwrap()
            .overlaps()
    );
    assert!(
        !Layout::structure(&[(0, 4), (21, 4)], 8, 3)
            .unwrap()
            .overlaps()
    );
    // a block longer than the stride
    assert!(Layout::vector(2, 5, 4).unwrap().overlaps());
    assert!(!Layout::vector(1, 5, 4).unwrap().overlaps());
    assert!(Layout::vector(2, 1, 0).unwrap().overlaps());
}
