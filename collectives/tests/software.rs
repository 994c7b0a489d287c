//! Numbers that Rust does not have, against a program in C.

use refrain_collectives::Reduction;
use refrain_collectives::reduction::{Element, Number, Operands, Operator};
use std::io::Write;
use std::process::{Command, Stdio};

/// Results of the program for a pair.
const RESULTS: usize = 8;

/// A format of numbers that Rust does not have.
#[derive(Clone, Copy)]
struct Format {
    /// Its type in C.
    c: &'static str,
    bytes: usize,
    /// Without padding.
    value_bytes: usize,
    exponent_bits: u32,
    /// Whether the first bit of the significand is stored.
    stores_one: bool,
    real: Number,
    complex: Element,
}

const HALF: Format = Format {
    c: "_Float16",
    bytes: 2,
    value_bytes: 2,
    exponent_bits: 5,
    stores_one: false,
    real: Number::F16,
    complex: Element::Complex16,
};
const QUAD: Format = Format {
    c: "_Float128",
    bytes: 16,
    value_bytes: 16,
    exponent_bits: 15,
    stores_one: false,
    real: Number::F128,
    complex: Element::Complex128,
};
const LONG_DOUBLE: Format = Format {
    c: "long double",
    value_bytes: if cfg!(target_arch = "x86_64") { 10 } else { 16 },
    stores_one: cfg!(target_arch = "x86_64"),
    real: Number::LongDouble,
    complex: Element::ComplexLongDouble,
    ..QUAD
};

impl Format {
    fn significand_bits(&self) -> u32 {
        self.value_bytes as u32 * 8 - 1 - self.exponent_bits
    }

    fn exponent_max(&self) -> u32 {
        (1 << self.exponent_bits) - 1
    }

    /// A number from its parts, whose padding is 0.
    fn number(&self, is_negative: bool, exponent: u32, fraction: u128) -> Vec<u8> {
        let stored = self.significand_bits() - u32::from(self.stores_one);
        let one = u128::from(self.stores_one && exponent > 0) << stored;
        let significand = fraction & ((1 << stored) - 1) | one;
        let high = u128::from(is_negative) << self.exponent_bits | u128::from(exponent);
        let bits = high << self.significand_bits() | significand;
        bits.to_le_bytes()[..self.bytes].into()
    }

    /// A number with a random significand, and an exponent that is often near to that of others,
    /// the least or the greatest. Padding is not 0.
    fn random(&self, rng: &mut fastrand::Rng) -> Vec<u8> {
        let (max, half) = (self.exponent_max(), self.exponent_max() / 2);
        let near = (self.exponent_max() / 4).min(80);
        let exponent = match rng.u8(..8) {
            0 => 0,
            1 => 1 + rng.u32(..near),
            2 => max - 1 - rng.u32(..near),
            3 => rng.u32(1..max),
            // Whose squares are near to the least and to the greatest.
            4 => half / 2 + rng.u32(..near) - near / 2,
            5 => half + half / 2 + rng.u32(..near) - near / 2,
            _ => half + rng.u32(..near) - near / 2,
        };
        let fraction = match rng.u8(..4) {
            0 => [0, u128::MAX][usize::from(rng.bool())],
            _ => rng.u128(..),
        };
        // No zero: C's minimum of two zeros is any of them.
        let mut bytes = self.number(rng.bool(), exponent, fraction | u128::from(exponent == 0));
        bytes[self.value_bytes..].fill_with(|| rng.u8(..));
        bytes
    }

    fn nan(&self) -> Vec<u8> {
        let quiet = 1 << (self.significand_bits() - u32::from(self.stores_one) - 1);
        self.number(false, self.exponent_max(), quiet)
    }

    fn is_nan(&self, value: &[u8]) -> bool {
        let mut bits = [0; 16];
        bits[..self.value_bytes].copy_from_slice(&value[..self.value_bytes]);
        let bits = u128::from_le_bytes(bits);
        let stored = self.significand_bits() - u32::from(self.stores_one);
        let exponent = (bits >> self.significand_bits()) as u32 & self.exponent_max();
        exponent == self.exponent_max() && bits & ((1 << stored) - 1) != 0
    }

    /// What C computes of all pairs; `None`: no compiler knows the type.
    fn of_c(&self, operands: Vec<u8>) -> Option<Vec<u8>> {
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
            .arg(format!("-DNUMBER={}", self.c))
            .arg(format!("-DVALUE_BYTES={}", self.value_bytes))
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/software.c"))
            .arg("-o")
            .arg(&program)
            .status();
        match built {
            Ok(status) if status.success() => {}
            _ => {
                println!(
                    "skipped {} of C: cc is not installed, or has no such type",
                    self.c
                );
                return None;
            }
        }
        let mut process = Command::new(program)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut stdin = process.stdin.take().expect("a pipe");
        let writer = std::thread::spawn(move || stdin.write_all(&operands));
        let output = process.wait_with_output().expect("it ends");
        writer.join().expect("no panic").expect("all is read");
        Some(output.stdout)
    }
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

/// Compares results of many pairs with those of C.
fn check_bits(format: Format) {
    let mut rng = fastrand::Rng::with_seed(3);
    let pairs: Vec<[Vec<u8>; 2]> = (0..20_000)
        .map(|_| [format.random(&mut rng), format.random(&mut rng)])
        .collect();
    let Some(expected) = format.of_c(pairs.as_flattened().concat()) else {
        return;
    };
    let bytes = format.bytes;
    assert_eq!(expected.len(), pairs.len() * RESULTS * bytes);
    for ([a, b], expected) in pairs.iter().zip(expected.chunks_exact(RESULTS * bytes)) {
        let real = Element::Number(format.real);
        let mut is = Vec::new();
        for operator in REAL_OPERATORS {
            is.extend(combine(operator, real, a, b));
        }
        let (left, right) = ([&a[..], b].concat(), [&b[..], a].concat());
        for operator in [Operator::Sum, Operator::Product] {
            is.extend(combine(operator, format.complex, &left, &right));
        }
        for (index, (is, expected)) in is.chunks(bytes).zip(expected.chunks(bytes)).enumerate() {
            // C gives any NaN where infinities meet: inf - inf.
            let same = is == expected || format.is_nan(expected) && is == format.nan();
            assert!(same, "{index}: {a:x?} {b:x?}: {is:x?}, C: {expected:x?}");
        }
    }
}

const REAL_OPERATORS: [Operator; 4] = [
    Operator::Sum,
    Operator::Product,
    Operator::Min,
    Operator::Max,
];

#[test]
fn long_doubles_have_the_bits_of_c() {
    check_bits(LONG_DOUBLE);
}

#[test]
fn numbers_of_2_bytes_have_the_bits_of_c() {
    check_bits(HALF);
}

#[test]
fn numbers_of_16_bytes_have_the_bits_of_c() {
    check_bits(QUAD);
}

#[test]
fn a_nan_wins_and_zeros_have_an_order() {
    for format in [HALF, QUAD, LONG_DOUBLE] {
        let real = Element::Number(format.real);
        let zeros = [false, true].map(|is_negative| format.number(is_negative, 0, 0));
        let two = power(format, 1, false);
        let signaling = format.number(false, format.exponent_max(), 1);
        for operator in REAL_OPERATORS {
            assert_eq!(combine(operator, real, &signaling, &two), format.nan());
            assert_eq!(combine(operator, real, &two, &signaling), format.nan());
        }
        let [zero, negative_zero] = &zeros;
        for (left, right) in [(zero, negative_zero), (negative_zero, zero)] {
            assert_eq!(combine(Operator::Min, real, left, right), *negative_zero);
            assert_eq!(combine(Operator::Max, real, left, right), *zero);
        }
    }
}

/// 2 to a small power, or its negative.
fn power(format: Format, exponent: i32, is_negative: bool) -> Vec<u8> {
    let exponent = (format.exponent_max() / 2).wrapping_add_signed(exponent);
    format.number(is_negative, exponent, 0)
}

/// `struct { long double value; int index; }`
#[test]
fn values_have_their_index() {
    let pair = Element::Located {
        value: Number::LongDouble,
        index: Number::I32,
    };
    assert_eq!(pair.bytes(), 32);
    let located = |value: &[u8], index: i32| {
        let mut bytes = [0x77; 32];
        bytes[..16].copy_from_slice(value);
        bytes[16..20].copy_from_slice(&index.to_ne_bytes());
        bytes
    };
    let small = power(LONG_DOUBLE, 3, true);
    let (low, high) = (
        located(&small, 5),
        located(&power(LONG_DOUBLE, -2, false), 1),
    );
    let same = located(&small, 2);
    assert_eq!(combine(Operator::MinLoc, pair, &low, &high), low);
    assert_eq!(combine(Operator::MaxLoc, pair, &low, &high), high);
    assert_eq!(combine(Operator::MinLoc, pair, &low, &same), same);
    assert_eq!(combine(Operator::MaxLoc, pair, &same, &low), same);
    let nan = located(&LONG_DOUBLE.nan(), 9);
    assert_eq!(combine(Operator::MaxLoc, pair, &nan, &low), nan);
}
