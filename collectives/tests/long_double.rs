//! `long double` against a program in C.

use refrain_collectives::Reduction;
use refrain_collectives::reduction::{Element, Number, Operands, Operator};
use std::io::Write;
use std::process::{Command, Stdio};

const BYTES: usize = 16;
/// Bytes without padding.
const VALUE_BYTES: usize = if cfg!(target_arch = "x86_64") { 10 } else { 16 };
/// Results of the program for a pair.
const RESULTS: usize = 8;

const LONG_DOUBLE: Element = Element::Number(Number::LongDouble);

type Bytes = [u8; BYTES];

/// A number with a random significand, and an exponent that is often near to that of others, the
/// least or the greatest. Padding is not 0.
fn number(rng: &mut fastrand::Rng) -> Bytes {
    let exponent: u16 = match rng.u8(..8) {
        0 => 0,
        1 => 1 + rng.u16(..80),
        2 => 0x7ffe - rng.u16(..80),
        3 => rng.u16(1..0x7fff),
        // Whose squares are near to the least and to the greatest.
        4 => 0x1fc0 + rng.u16(..0x80),
        5 => 0x5f80 + rng.u16(..0x80),
        _ => 0x3fff + rng.u16(..70) - 35,
    };
    let sign = u16::from(rng.bool()) << 15;
    let mut bytes = rng.u128(..).to_le_bytes();
    if rng.u8(..4) == 0 {
        bytes[..VALUE_BYTES - 3].fill(if rng.bool() { 0 } else { 0xff });
    }
    bytes[VALUE_BYTES - 2..VALUE_BYTES].copy_from_slice(&(exponent | sign).to_le_bytes());
    if cfg!(target_arch = "x86_64") {
        // The first bit of the significand is part of it.
        bytes[7] = bytes[7] & 0x7f | u8::from(exponent > 0) << 7;
    }
    bytes
}

fn combine(operator: Operator, element: Element, left: &[u8], right: &[u8]) -> Vec<u8> {
    let reduction = Reduction::new(operator, element).expect("it has this operator");
    let mut into = left.to_vec();
    reduction.apply(Operands::IntoLeft {
        into: &mut into,
        right,
    });
    into
}

/// What C computes of all pairs; `None`: there is no compiler.
fn of_c(pairs: &[[Bytes; 2]]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("program");
    let built = Command::new("cc")
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-ffp-contract=off",
        ])
        .arg(format!("-DLDBL_BYTES={VALUE_BYTES}"))
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/long_double.c"))
        .arg("-o")
        .arg(&program)
        .status();
    match built {
        Ok(status) => assert!(status.success(), "it compiles"),
        Err(_) => {
            println!("skipped long double of C: cc is not installed");
            return None;
        }
    }
    let mut process = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut stdin = process.stdin.take().expect("a pipe");
    let operands = pairs.as_flattened().concat();
    let writer = std::thread::spawn(move || stdin.write_all(&operands));
    let output = process.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("all is read");
    Some(output.stdout)
}

#[test]
fn results_have_the_bits_of_c() {
    let mut rng = fastrand::Rng::with_seed(3);
    let pairs: Vec<[Bytes; 2]> = (0..20_000)
        .map(|_| [number(&mut rng), number(&mut rng)])
        .collect();
    let Some(expected) = of_c(&pairs) else { return };
    assert_eq!(expected.len(), pairs.len() * RESULTS * BYTES);
    for ([a, b], expected) in pairs.iter().zip(expected.chunks_exact(RESULTS * BYTES)) {
        let real = [
            Operator::Sum,
            Operator::Product,
            Operator::Min,
            Operator::Max,
        ];
        let mut is: Vec<u8> = real
            .into_iter()
            .flat_map(|operator| combine(operator, LONG_DOUBLE, a, b))
            .collect();
        let (left, right) = ([*a, *b].concat(), [*b, *a].concat());
        for operator in [Operator::Sum, Operator::Product] {
            is.extend(combine(operator, Element::ComplexLongDouble, &left, &right));
        }
        // C gives any NaN where infinities meet: inf - inf.
        let is_nan = |value: &[u8]| {
            let exponent = u16::from_le_bytes([value[VALUE_BYTES - 2], value[VALUE_BYTES - 1]]);
            let fraction = u64::from_le_bytes(value[..8].try_into().expect("8 bytes"));
            exponent & 0x7fff == 0x7fff && fraction << 1 != 0
        };
        for (index, (is, expected)) in is.chunks(BYTES).zip(expected.chunks(BYTES)).enumerate() {
            let same = is == expected || is_nan(expected) && is == nan();
            assert!(same, "{index}: {a:x?} {b:x?}: {is:x?}, C: {expected:x?}");
        }
    }
}

fn nan() -> Bytes {
    let bits: u128 = match cfg!(target_arch = "x86_64") {
        true => 0x7fff << 64 | 3 << 62,
        false => 0x7fff << 112 | 1 << 111,
    };
    bits.to_ne_bytes()
}

/// 2 to a small power, or its negative.
fn power(exponent: i16, is_negative: bool) -> Bytes {
    let mut bytes = [0; BYTES];
    let high = (0x3fff + exponent) as u16 | u16::from(is_negative) << 15;
    bytes[VALUE_BYTES - 2..VALUE_BYTES].copy_from_slice(&high.to_le_bytes());
    if cfg!(target_arch = "x86_64") {
        bytes[7] = 0x80;
    }
    bytes
}

#[test]
fn a_nan_wins_and_zeros_have_an_order() {
    let zero = [0; BYTES];
    let mut negative_zero = zero;
    negative_zero[VALUE_BYTES - 1] = 0x80;
    let two = power(1, false);
    for operator in [
        Operator::Sum,
        Operator::Product,
        Operator::Min,
        Operator::Max,
    ] {
        let mut signaling = nan();
        signaling[0] = 1;
        assert_eq!(combine(operator, LONG_DOUBLE, &signaling, &two), nan());
        assert_eq!(combine(operator, LONG_DOUBLE, &two, &signaling), nan());
    }
    for (left, right) in [(&zero, &negative_zero), (&negative_zero, &zero)] {
        assert_eq!(
            combine(Operator::Min, LONG_DOUBLE, left, right),
            negative_zero
        );
        assert_eq!(combine(Operator::Max, LONG_DOUBLE, left, right), zero);
    }
}

/// `struct { long double value; int index; }`
#[test]
fn values_have_their_index() {
    let pair = Element::Located {
        value: Number::LongDouble,
        index: Number::I32,
    };
    assert_eq!(pair.bytes(), 32);
    let located = |value: Bytes, index: i32| {
        let mut bytes = [0x77; 32];
        bytes[..BYTES].copy_from_slice(&value);
        bytes[BYTES..BYTES + 4].copy_from_slice(&index.to_ne_bytes());
        bytes
    };
    let (low, high) = (located(power(3, true), 5), located(power(-2, false), 1));
    let same = located(power(3, true), 2);
    assert_eq!(combine(Operator::MinLoc, pair, &low, &high), low);
    assert_eq!(combine(Operator::MaxLoc, pair, &low, &high), high);
    assert_eq!(combine(Operator::MinLoc, pair, &low, &same), same);
    assert_eq!(combine(Operator::MaxLoc, pair, &same, &low), same);
    let nan = located(nan(), 9);
    assert_eq!(combine(Operator::MaxLoc, pair, &nan, &low), nan);
}
