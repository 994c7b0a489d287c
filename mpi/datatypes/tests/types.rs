//! Predefined types, limits, arguments that are refused, types of Fortran.

use refrain_collectives::reduction::{Element, Number};
use refrain_datatypes::{
    Combiner, Datatype, Dimension, Distribution, Field, NAMED, Named, Order, Slice, TypeClass,
    TypeError,
};
use std::mem::{align_of, size_of};

fn named(name: &str) -> Datatype {
    let named = NAMED.iter().find(|named| named.name == name);
    Datatype::named(named.expect(name))
}

#[test]
fn handles_name_their_types() {
    assert!(NAMED.is_sorted_by_key(|named| named.handle));
    for it in NAMED {
        assert_eq!(Named::of(it.handle), Some(it));
        // MPI-5.0, 20.1: handles of types of fixed size hold the logarithm of it.
        if it.handle >= 576 {
            assert_eq!(it.value.bytes, 1 << (it.handle >> 3 & 7), "{}", it.name);
        }
        let element = it.element().map(Element::bytes);
        let extent = Datatype::named(it).extent();
        assert!(
            element.is_none_or(|bytes| bytes as i64 == extent),
            "{}",
            it.name
        );
    }
}

#[test]
fn pairs_are_structs_of_c() {
    #[repr(C)]
    struct DoubleInt(f64, i32);
    #[repr(C)]
    struct ShortInt(i16, i32);
    let pairs = [
        ("MPI_DOUBLE_INT", 12, size_of::<DoubleInt>()),
        ("MPI_SHORT_INT", 6, size_of::<ShortInt>()),
        ("MPI_FLOAT_INT", 8, 8),
        ("MPI_LONG_INT", 12, 16),
        ("MPI_2INT", 8, 8),
        ("MPI_LONG_DOUBLE_INT", 20, 32),
        ("MPI_2DOUBLE_PRECISION", 16, 16),
    ];
    for (name, size, extent) in pairs {
        let pair = named(name);
        assert_eq!(
            (pair.size(), pair.extent()),
            (size, extent as i64),
            "{name}"
        );
        assert_eq!(pair.signature().elements, 2);
    }
    assert_eq!(align_of::<DoubleInt>(), 8);
    let element = Element::Located {
        value: Number::F64,
        index: Number::I32,
    };
    assert_eq!(named("MPI_DOUBLE_INT").element(), Some(element));
    assert_eq!(named("MPI_CHAR").element(), None);
}

#[test]
fn pairs_are_found_by_their_types_or_made() {
    let pair = |value: u16, index: u16| {
        Datatype::value_index(Named::of(value).unwrap(), Named::of(index).unwrap())
    };
    // (float, int), (int64, int32), (char, int), (MPI_2INT, int)
    assert_eq!(
        pair(528, 521).unwrap().as_named().unwrap().name,
        "MPI_FLOAT_INT"
    );
    let made = pair(600, 592).unwrap();
    assert_eq!((made.size(), made.extent()), (12, 16));
    assert_eq!(made.contents().combiner, Combiner::ValueIndex);
    assert_eq!(made.contents().types[1].as_named().unwrap().handle, 592);
    assert_eq!(made.element().map(Element::bytes), Some(16));
    assert!(pair(579, 521).is_none());
    assert!(pair(555, 521).is_none());
    // An index is an integer: (double, float).
    assert!(pair(521, 528).is_none());
}

#[test]
fn markers_win_over_data() {
    let int = named("MPI_INT");
    let marked = Datatype::resized(&int, -3, 9).unwrap();
    assert_eq!((marked.lb(), marked.extent(), marked.true_lb()), (-3, 9, 0));
    let fields = [(8, &marked), (100, &int)];
    let fields = fields.map(|(displacement, of)| Field {
        blocklength: 1,
        displacement,
        of,
    });
    let both = Datatype::structure(&fields).unwrap();
    assert_eq!((both.lb(), both.extent(), both.true_extent()), (5, 9, 96));
}

#[test]
fn large_counts_are_told_from_others() {
    let int = named("MPI_INT");
    let small = Datatype::hvector(2, 3, 16, &int).unwrap();
    let large = Datatype::hvector(2, 3, 16, &int)
        .unwrap()
        .with_large_counts();
    let (small, large) = (small.contents(), large.contents());
    assert_eq!(
        (small.integers, small.addresses, small.large_counts),
        (vec![2, 3], vec![16], vec![])
    );
    assert_eq!(
        (large.integers, large.addresses, large.large_counts),
        (vec![], vec![], vec![2, 3, 16])
    );
    let beyond = Datatype::contiguous(1 << 31, &int).unwrap();
    assert_eq!(beyond.contents().large_counts, [1 << 31]);
    assert_eq!(beyond.envelope().large_counts, 1);
    let slice = Slice {
        size: 4,
        subsize: 2,
        start: 1,
    };
    let part = Datatype::subarray(&[slice; 2], Order::C, &int).unwrap();
    assert_eq!(part.contents().integers, [2, 4, 4, 2, 2, 1, 1, 12]);
    let part = part.with_large_counts().contents();
    assert_eq!(part.integers, [2, 12]);
    assert_eq!(part.large_counts, [4, 4, 2, 2, 1, 1]);
}

#[test]
fn nested_vectors_are_not_listed() {
    let int = named("MPI_INT");
    // 2^60 rows of four bytes
    let mut datatype = int;
    for stride in [8, 1 << 24, 1 << 42] {
        datatype = Datatype::hvector(1 << 20, 1, stride, &datatype).unwrap();
        assert!(datatype.layout().is_ok());
    }
    let wide = Datatype::hvector(1 << 10, 1, 1 << 13, &named("MPI_INT")).unwrap();
    let wide = Datatype::hvector(1 << 10, 1, 8, &wide).unwrap();
    assert_eq!(wide.layout().unwrap().message_bytes(), 4 << 20);
    assert!(!wide.layout().unwrap().overlaps());
}

#[test]
fn what_needs_too_many_blocks_is_refused() {
    let mut datatype = named("MPI_INT");
    for dimension in 0..6 {
        datatype = Datatype::hvector(1 << 7, 1, 8 << (8 * dimension), &datatype).unwrap();
    }
    assert!(matches!(
        datatype.layout(),
        Err(TypeError::TooManyBlocks(_))
    ));
}

#[test]
fn numbers_beyond_64_bits_are_refused() {
    let int = named("MPI_INT");
    let too_large = |made: Result<Datatype, _>| assert_eq!(made.err(), Some(TypeError::TooLarge));
    too_large(Datatype::contiguous(i64::MAX, &int));
    too_large(Datatype::contiguous(1 << 61, &int));
    too_large(Datatype::vector(2, 1, i64::MAX / 2, &int));
    too_large(Datatype::hvector(3, 1, i64::MIN / 2, &int));
    too_large(Datatype::hindexed(&[1], &[i64::MAX - 2], &int));
    too_large(Datatype::hindexed(&[1, 1], &[i64::MIN, 1], &int));
    too_large(Datatype::resized(&int, i64::MAX, 1));
    let slice = Slice {
        size: 1 << 40,
        subsize: 1,
        start: 0,
    };
    too_large(Datatype::subarray(&[slice; 2], Order::C, &int));
    let zero = Datatype::hvector(1 << 61, 1, 0, &int);
    too_large(zero);
    assert!(Datatype::contiguous(1 << 60, &int).is_ok());
}

#[test]
fn types_are_not_nested_without_end() {
    let mut datatype = named("MPI_INT");
    let made = (0..10_000).try_for_each(|_| {
        datatype = Datatype::duplicate(&datatype)?;
        Ok(())
    });
    assert_eq!(made, Err(TypeError::TooDeep(512)));
    assert_eq!(datatype.layout().unwrap().message_bytes(), 4);
}

#[test]
fn arguments_are_checked() {
    let int = named("MPI_INT");
    let refused = |made: Result<Datatype, TypeError>| {
        assert!(matches!(made, Err(TypeError::Argument { .. })), "{made:?}");
    };
    refused(Datatype::contiguous(-1, &int));
    refused(Datatype::vector(1, -1, 0, &int));
    refused(Datatype::indexed(&[1, -1], &[0, 0], &int));
    refused(Datatype::indexed_block(-1, &[0], &int));
    let lengths = Datatype::hindexed(&[1], &[], &int);
    assert_eq!(lengths.err(), Some(TypeError::Lengths(1, 0)));
    for (size, subsize, start) in [(0, 1, 0), (4, 0, 0), (4, 5, 0), (4, 2, 3), (4, 2, -1)] {
        let slice = Slice {
            size,
            subsize,
            start,
        };
        refused(Datatype::subarray(&[slice], Order::C, &int));
    }
    refused(Datatype::subarray(&[], Order::C, &int));
    let dimension = |size, distribution, block, processes| Dimension {
        size,
        distribution,
        block,
        processes,
    };
    let wrong = [
        (2, 0, dimension(4, Distribution::None, None, 2)),
        (2, 0, dimension(4, Distribution::Block, Some(1), 2)),
        (2, 0, dimension(4, Distribution::Cyclic, Some(0), 2)),
        (2, 2, dimension(4, Distribution::Block, None, 2)),
        (3, 0, dimension(4, Distribution::Block, None, 2)),
        (2, 0, dimension(0, Distribution::Block, None, 2)),
        (
            i32::MIN,
            i32::MAX,
            dimension(4, Distribution::Block, None, 2),
        ),
    ];
    for (processes, rank, dimension) in wrong {
        refused(Datatype::darray(
            processes,
            rank,
            &[dimension],
            Order::C,
            &int,
        ));
    }
}

#[test]
fn fortran_types_are_chosen_by_precision_and_range() {
    let reals = [
        (Some(6), Some(37), 4),
        (Some(7), None, 8),
        (None, Some(307), 8),
        (Some(18), None, 16),
        (Some(33), Some(4931), 16),
    ];
    for (precision, range, bytes) in reals {
        let real = Datatype::f90_real(precision, range).unwrap();
        assert_eq!(real.size(), bytes);
        let complex = Datatype::f90_complex(precision, range).unwrap();
        assert_eq!(complex.size(), 2 * bytes);
        assert!(complex.basic().is_some());
    }
    let contents = Datatype::f90_real(Some(7), None).unwrap().contents();
    assert_eq!(
        (contents.combiner, contents.integers),
        (Combiner::F90Real, vec![7, -32766])
    );
    let eighteen = Datatype::f90_real(Some(18), None).unwrap();
    assert_eq!(
        eighteen.element(),
        Some(Element::Number(Number::LongDouble))
    );
    for refused in [(Some(34), None), (None, Some(4932)), (None, None)] {
        assert!(Datatype::f90_real(refused.0, refused.1).is_none());
    }
    for (range, bytes) in [(2, 1), (3, 2), (9, 4), (10, 8), (38, 16)] {
        assert_eq!(Datatype::f90_integer(range).unwrap().size(), bytes);
    }
    assert!(Datatype::f90_integer(39).is_none());
}

#[test]
fn fortran_types_are_found_by_size() {
    let found = |class: TypeClass, bytes| class.of_size(bytes).map(|named| named.name);
    assert_eq!(found(TypeClass::Integer, 8), Some("MPI_INTEGER8"));
    assert_eq!(found(TypeClass::Real, 4), Some("MPI_REAL4"));
    assert_eq!(found(TypeClass::Complex, 32), Some("MPI_COMPLEX32"));
    let element = |class: TypeClass, bytes| {
        let named = class.of_size(bytes).expect("a type");
        Datatype::named(named).element()
    };
    for (class, bytes, number) in [
        (TypeClass::Integer, 16, Number::I128),
        (TypeClass::Real, 2, Number::F16),
        (TypeClass::Real, 16, Number::F128),
    ] {
        assert_eq!(element(class, bytes), Some(Element::Number(number)));
    }
    assert_eq!(element(TypeClass::Complex, 4), Some(Element::Complex16));
    assert_eq!(element(TypeClass::Complex, 32), Some(Element::Complex128));
    assert_eq!(found(TypeClass::Real, 3), None);
    assert_eq!(found(TypeClass::Integer, -1), None);
}
