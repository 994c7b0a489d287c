//! Executes one collective on all places of a group, with every algorithm that fits.

use refrain_collectives::check::{Outcome, Place, Sends, execute};
use refrain_collectives::choice::Table;
use refrain_collectives::{Algorithm, Call, Parameters, Schedule};
use std::fmt::Debug;

/// Elements of a test: plain numbers, or what does not commute.
pub trait Element: Clone + Debug + PartialEq {
    /// A value for element `index` of the input of `place`.
    fn of(place: u32, index: u64) -> Self;
    /// What no input has.
    fn nothing() -> Self;
    /// The operator.
    fn combine(&self, other: &Self) -> Self;
}

impl Element for u64 {
    fn of(place: u32, index: u64) -> Self {
        u64::from(place) * 1_000_003 + index + 1
    }
    fn nothing() -> Self {
        u64::MAX / 2
    }
    fn combine(&self, other: &Self) -> Self {
        self.wrapping_add(*other)
    }
}

/// A matrix of 2 × 2 elements modulo 251.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix([u32; 4]);

impl Element for Matrix {
    fn of(place: u32, index: u64) -> Self {
        let seed = place * 4 + index as u32 * 31;
        Self([1, 2, 3, 5].map(|factor| (seed * factor + factor * factor) % 251))
    }
    fn nothing() -> Self {
        Self([999; 4])
    }
    fn combine(&self, other: &Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h].map(|it| it % 251))
    }
}

/// An expression, as text.
impl Element for String {
    fn of(place: u32, index: u64) -> Self {
        format!("{place}.{index}")
    }
    fn nothing() -> Self {
        "nothing".into()
    }
    fn combine(&self, other: &Self) -> Self {
        format!("({self} {other})")
    }
}

/// `count` elements of `place`.
pub fn input<T: Element>(place: u32, count: u64) -> Vec<T> {
    (0..count).map(|index| T::of(place, index)).collect()
}

/// `count` elements that no step has written.
pub fn unwritten<T: Element>(count: u64) -> Vec<T> {
    vec![T::nothing(); count as usize]
}

/// The buffers of all places before a collective.
#[derive(Clone)]
pub struct Buffers<T> {
    pub inputs: Vec<Vec<T>>,
    pub outputs: Vec<Vec<T>>,
}

/// Small segments and windows, so that short vectors have several; others for each size.
fn parameters(size: u32) -> Parameters {
    Parameters {
        segment_bytes: 8 * u64::from(size % 5) + 8,
        window: size % 4 + 1,
    }
}

/// Executes `algorithm` at all places.
pub fn run<'a, T: Element>(
    algorithm: Algorithm,
    call: &dyn Fn(u32) -> Call<'a>,
    buffers: &Buffers<T>,
    sends: Sends,
    seed: u64,
) -> Outcome<T> {
    let mut table = Table::default();
    table.parameters = parameters(call(0).group.size);
    let places = (0..).zip(buffers.inputs.iter().zip(&buffers.outputs));
    let places = places.map(|(me, (input, output))| {
        let mut schedule = Schedule::default();
        table.schedule(algorithm, &call(me), &mut schedule);
        Place {
            schedule,
            input: input.clone(),
            output: output.clone(),
        }
    });
    let places = places.collect();
    execute(
        places,
        &|left, right| T::combine(left, right),
        &T::nothing(),
        sends,
        seed,
    )
    .unwrap_or_else(|fault| panic!("{algorithm:?} {:?}: {fault}", call(0)))
}

/// Executes every algorithm that fits, and compares outputs with `expected`, which may be shorter
/// than the outputs.
pub fn compare_all<'a, T: Element>(
    call: &dyn Fn(u32) -> Call<'a>,
    buffers: &Buffers<T>,
    expected: &[Vec<T>],
) {
    let first = call(0);
    for algorithm in first.operation().algorithms() {
        if !algorithm.fits(&first) {
            continue;
        }
        for (seed, sends) in [(0x9e37, Sends::Buffered), (0x79b9, Sends::Blocking)] {
            let seed = seed * u64::from(first.group.size);
            let outcome = run(*algorithm, call, buffers, sends, seed);
            for (place, (is, expected)) in outcome.outputs.iter().zip(expected).enumerate() {
                assert_eq!(
                    &is[..expected.len()],
                    expected,
                    "place {place}, {algorithm:?}, {first:?}"
                );
            }
        }
    }
}
