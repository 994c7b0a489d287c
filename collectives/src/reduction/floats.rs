//! Rules for NaN and signed zeros.

macro_rules! rules {
    ($number:ident, $nan:literal) => {
        pub mod $number {
            const NAN: $number = $number::from_bits($nan);

            /// The result, or the one NaN.
            pub fn plain(result: $number) -> $number {
                if result.is_nan() { NAN } else { result }
            }

            /// The minimum.
            pub fn lesser(a: $number, b: $number) -> $number {
                let lesser = if a < b { a } else { b };
                // Equal: differ at most in the sign of zero.
                let equal = $number::from_bits(a.to_bits() | b.to_bits());
                let result = if a == b { equal } else { lesser };
                if a.is_nan() | b.is_nan() { NAN } else { result }
            }

            /// The maximum.
            pub fn greater(a: $number, b: $number) -> $number {
                let greater = if a > b { a } else { b };
                let equal = $number::from_bits(a.to_bits() & b.to_bits());
                let result = if a == b { equal } else { greater };
                if a.is_nan() | b.is_nan() { NAN } else { result }
            }
        }
    };
}

rules!(f32, 0x7fc0_0000);
rules!(f64, 0x7ff8_0000_0000_0000);
