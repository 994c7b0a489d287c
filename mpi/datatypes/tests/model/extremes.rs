//! No arguments, however large, make the library panic or take all memory.

use crate::seed;
use proptest::prelude::*;
use refrain_datatypes::{Datatype, Dimension, Distribution, Field, Named, Order, Slice};

fn number() -> impl Strategy<Value = i64> {
    let extreme = vec![
        i64::MIN,
        i64::MIN + 1,
        i64::MIN / 2,
        i64::MAX / 2,
        i64::MAX - 1,
        i64::MAX,
        1 << 31,
        1 << 40,
        -(1 << 40),
        1 << 60,
    ];
    prop_oneof![3 => 0..4i64, 1 => -4..0i64, 1 => prop::sample::select(extreme)]
}

fn numbers() -> impl Strategy<Value = Vec<i64>> {
    prop::collection::vec(number(), 0..3)
}

/// A type, or the one it was to be made from if that was refused.
fn datatype() -> impl Strategy<Value = Datatype> {
    let leaf = prop::sample::select(vec![521, 532, 553, 581]);
    let leaf = leaf.prop_map(|handle| Datatype::named(Named::of(handle).unwrap()));
    leaf.prop_recursive(5, 16, 2, |inner| {
        (inner.clone(), inner, 0..9, numbers(), numbers(), number()).prop_map(
            |(of, other, which, left, right, number)| {
                let [first, second] = [&left, &right].map(|it| it.first().copied().unwrap_or(2));
                let made = match which {
                    0 => Datatype::contiguous(number, &of),
                    1 => Datatype::vector(first, second, number, &of),
                    2 => Datatype::hvector(first, second, number, &of),
                    3 => Datatype::indexed(&left, &right, &of),
                    4 => Datatype::hindexed_block(number, &left, &of),
                    5 => {
                        Datatype::structure(&[field(first, number, &of), field(second, 0, &other)])
                    }
                    6 => Datatype::resized(&of, first, number),
                    7 => {
                        let slices = [first, second, 2].map(|size| Slice {
                            size,
                            subsize: number,
                            start: size.wrapping_sub(number),
                        });
                        Datatype::subarray(&slices, Order::C, &of)
                    }
                    _ => {
                        let dimensions = [number, first].map(|size| Dimension {
                            size,
                            distribution: Distribution::Cyclic,
                            block: i32::try_from(second).ok(),
                            processes: 2,
                        });
                        Datatype::darray(4, 1, &dimensions, Order::Fortran, &of)
                    }
                };
                made.unwrap_or(of)
            },
        )
    })
}

fn field(blocklength: i64, displacement: i64, of: &Datatype) -> Field<'_> {
    Field {
        blocklength,
        displacement,
        of,
    }
}

proptest! {
    #![proptest_config(seed::config(20_000))]

    #[test]
    fn nothing_panics(datatype in datatype(), number in number()) {
        let _ = datatype.layout();
        let _ = datatype.layout_of(number);
        let _ = datatype.elements(number).map(|it| datatype.bytes_of_elements(it.whole));
        let _ = datatype.bytes_of_elements(number);
        let _ = datatype.encode(number, &[0; 8], &mut [0; 8]);
        let _ = (datatype.is_contiguous(), datatype.contents(), datatype.envelope());
        let bounds = (datatype.lb(), datatype.extent(), datatype.true_lb(), datatype.true_extent());
        prop_assert!(bounds.3 >= 0 && datatype.size() >= 0);
    }
}
