//! Operators against the plainest arithmetic, with operands at any address.

mod fixed_seed;

use proptest::prelude::*;
use refrain_collectives::Reduction;
use refrain_collectives::reduction::{Element, Number, Operands, Operator};

const OPERATORS: [Operator; 12] = {
    use Operator::*;
    [
        Sum, Product, Min, Max, LogicalAnd, LogicalOr, LogicalXor, BitAnd, BitOr, BitXor, MinLoc,
        MaxLoc,
    ]
};

const NUMBERS: [Number; 11] = {
    use Number::*;
    [I8, I16, I32, I64, I128, U8, U16, U32, U64, F32, F64]
};

/// Every operator of every element.
fn all() -> Vec<(Operator, Element, Reduction)> {
    let mut elements = vec![
        Element::Complex32,
        Element::Complex64,
        Element::Bool,
        Element::Byte,
    ];
    elements.extend(NUMBERS.map(Element::Number));
    let located = |value| NUMBERS.map(|index| Element::Located { value, index });
    elements.extend(NUMBERS.iter().flat_map(|value| located(*value)));
    let pairs = elements
        .into_iter()
        .flat_map(|element| OPERATORS.map(|operator| (operator, element)));
    let known =
        |(operator, element)| Some((operator, element, Reduction::new(operator, element).ok()?));
    pairs.filter_map(known).collect()
}

/// The combination, with `shift` bytes before each operand; all ways give the same.
fn combine(reduction: &Reduction, left: &[u8], right: &[u8], shift: usize) -> Vec<u8> {
    let shifted = |bytes: &[u8]| [&[0xaa; 8][..shift], bytes].concat();
    let (left, right) = (shifted(left), shifted(right));
    let mut apart = vec![0x55; left.len()];
    reduction.apply(Operands::Apart {
        left: &left[shift..],
        right: &right[shift..],
        into: &mut apart[shift..],
    });
    let mut into = left.clone();
    reduction.apply(Operands::IntoLeft {
        into: &mut into[shift..],
        right: &right[shift..],
    });
    assert_eq!(apart[shift..], into[shift..], "into the left operand");
    let mut into = right;
    reduction.apply(Operands::IntoRight {
        left: &left[shift..],
        into: &mut into[shift..],
    });
    assert_eq!(apart[shift..], into[shift..], "into the right operand");
    apart.split_off(shift)
}

/// Integers as wide as they get, to be cut again.
fn integer(number: Number, bytes: &[u8]) -> i128 {
    let unsigned = bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | i128::from(*byte));
    let unused = i128::BITS - 8 * bytes.len() as u32;
    match number {
        Number::U8 | Number::U16 | Number::U32 | Number::U64 => unsigned,
        _ => unsigned << unused >> unused,
    }
}

fn of_integers(operator: Operator, a: i128, b: i128) -> i128 {
    let truth = |it: bool| i128::from(it);
    match operator {
        Operator::Sum => a.wrapping_add(b),
        Operator::Product => a.wrapping_mul(b),
        Operator::Min => a.min(b),
        Operator::Max => a.max(b),
        Operator::LogicalAnd => truth(a != 0 && b != 0),
        Operator::LogicalOr => truth(a != 0 || b != 0),
        Operator::LogicalXor => truth((a != 0) != (b != 0)),
        Operator::BitAnd => a & b,
        Operator::BitOr => a | b,
        Operator::BitXor => a ^ b,
        Operator::MinLoc | Operator::MaxLoc => unreachable!("not of integers"),
    }
}

/// f32 in f64: sums and products are rounded to f32 once more, which changes nothing
/// (Figueroa 1995).
fn of_floats(operator: Operator, a: f64, b: f64) -> f64 {
    let is_negative_zero = |it: f64| it == 0.0 && it.is_sign_negative();
    match operator {
        Operator::Sum => a + b,
        Operator::Product => a * b,
        _ if a.is_nan() || b.is_nan() => f64::NAN,
        Operator::Min if a < b || a == b && is_negative_zero(a) => a,
        Operator::Max if a > b || a == b && !is_negative_zero(a) => a,
        _ => b,
    }
}

fn of_complex(
    operator: Operator,
    [a, b]: [f64; 2],
    [c, d]: [f64; 2],
    round: impl Fn(f64) -> f64,
) -> [f64; 2] {
    match operator {
        Operator::Sum => [a + c, b + d],
        _ => [round(a * c) - round(b * d), round(a * d) + round(b * c)],
    }
}

fn f32_of(bytes: &[u8]) -> f64 {
    f32::from_le_bytes(bytes[..4].try_into().unwrap()).into()
}

fn f64_of(bytes: &[u8]) -> f64 {
    f64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn f32_bytes(value: f64) -> Vec<u8> {
    let bits = if value.is_nan() {
        0x7fc0_0000
    } else {
        (value as f32).to_bits()
    };
    bits.to_le_bytes().into()
}

fn f64_bytes(value: f64) -> Vec<u8> {
    let bits = if value.is_nan() {
        0x7ff8_0000_0000_0000
    } else {
        value.to_bits()
    };
    bits.to_le_bytes().into()
}

/// Value and index as numbers that compare, or none for NaN.
fn located(number: Number, bytes: &[u8]) -> Option<(i128, f64)> {
    match number {
        Number::F32 => Some((0, f32_of(bytes))).filter(|it| !it.1.is_nan()),
        Number::F64 => Some((0, f64_of(bytes))).filter(|it| !it.1.is_nan()),
        _ => Some((integer(number, &bytes[..number.bytes()]), 0.0)),
    }
}

/// The combination of one element.
fn expected(operator: Operator, element: Element, left: &[u8], right: &[u8]) -> Vec<u8> {
    match element {
        Element::Number(Number::F32) => f32_bytes(of_floats(operator, f32_of(left), f32_of(right))),
        Element::Number(Number::F64) => f64_bytes(of_floats(operator, f64_of(left), f64_of(right))),
        Element::Complex32 => {
            let parts = |bytes: &[u8]| [f32_of(bytes), f32_of(&bytes[4..])];
            let result = of_complex(operator, parts(left), parts(right), |it| {
                f64::from(it as f32)
            });
            result.map(f32_bytes).concat()
        }
        Element::Complex64 => {
            let parts = |bytes: &[u8]| [f64_of(bytes), f64_of(&bytes[8..])];
            of_complex(operator, parts(left), parts(right), |it| it)
                .map(f64_bytes)
                .concat()
        }
        Element::Number(Number::F16 | Number::F128 | Number::LongDouble)
        | Element::Complex16
        | Element::Complex128
        | Element::ComplexLongDouble => unreachable!("see software.rs"),
        Element::Number(number) => {
            let result = of_integers(operator, integer(number, left), integer(number, right));
            result.to_le_bytes()[..left.len()].into()
        }
        Element::Bool | Element::Byte => {
            let result = of_integers(operator, left[0].into(), right[0].into());
            vec![result as u8]
        }
        Element::Located { value, index } => {
            let parts = |bytes: &[u8]| {
                (
                    located(value, bytes),
                    located(index, &bytes[bytes.len() / 2..]),
                )
            };
            let ((a, i), (b, j)) = (parts(left), parts(right));
            let left_index = match (i, j) {
                (Some(i), Some(j)) => i <= j,
                (_, j) => j.is_none(),
            };
            let takes_left = match (a, b) {
                (Some(a), Some(b)) if a == b => left_index,
                (Some(a), Some(b)) => (a < b) == (operator == Operator::MinLoc),
                (None, None) => left_index,
                (a, _) => a.is_none(),
            };
            if takes_left {
                left.into()
            } else {
                right.into()
            }
        }
    }
}

/// Bytes among which zeros of both signs, infinities and NaNs of all kinds are frequent.
fn bytes(count: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        Just(0),
        Just(0x80),
        Just(0x7f),
        Just(0xff),
        Just(0xc0),
        Just(0xf0),
        any::<u8>()
    ];
    let run = (byte, 1..4_usize).prop_map(|(byte, number)| vec![byte; number]);
    prop::collection::vec(run, count).prop_map(move |runs| runs.concat()[..count].into())
}

proptest! {
    #![proptest_config(fixed_seed::cases(300))]

    #[test]
    fn every_operator_is_plain_arithmetic(left in bytes(208), right in bytes(208), shift in 0..8_usize) {
        for (operator, element, reduction) in all() {
            let size = element.bytes();
            let whole = left.len() / size * size;
            let result = combine(&reduction, &left[..whole], &right[..whole], shift);
            let pairs = left.chunks_exact(size).zip(right.chunks_exact(size));
            for (is, (left, right)) in result.chunks_exact(size).zip(pairs) {
                let expected = expected(operator, element, left, right);
                prop_assert_eq!(is, expected, "{:?} {:?} of {:?} {:?}", operator, element, left, right);
            }
        }
    }
}

#[test]
fn all_elements_have_the_operators_that_make_sense() {
    let number = |element| all().iter().filter(|it| it.1 == element).count();
    assert_eq!(
        NUMBERS.map(|it| number(Element::Number(it))),
        [10, 10, 10, 10, 10, 10, 10, 10, 10, 4, 4]
    );
    assert_eq!([Element::Complex32, Element::Complex64].map(number), [2, 2]);
    assert_eq!([Element::Bool, Element::Byte].map(number), [3, 3]);
    let located = Element::Located {
        value: Number::F64,
        index: Number::I32,
    };
    assert_eq!((number(located), located.bytes()), (2, 16));
    let error = Reduction::new(Operator::BitXor, Element::Number(Number::F32)).unwrap_err();
    assert!(error.to_string().starts_with("no BitXor of F32"), "{error}");
}

#[test]
fn ones_own_operator_keeps_the_order() {
    // The left operand's upper and the right operand's lower half of each byte.
    let halves = Reduction::own(1, false, |left, right| {
        for (right, left) in right.iter_mut().zip(left) {
            *right = left & 0xf0 | *right & 0x0f;
        }
    });
    assert!(!halves.commutative());
    assert_eq!(
        combine(&halves, &[0x12, 0x34], &[0x56, 0x78], 0),
        [0x16, 0x38]
    );
}

#[test]
#[should_panic(expected = "whole elements")]
fn an_element_in_part_is_refused() {
    let sum = Reduction::new(Operator::Sum, Element::Number(Number::F64)).unwrap();
    combine(&sum, &[0; 12], &[0; 12], 0);
}
