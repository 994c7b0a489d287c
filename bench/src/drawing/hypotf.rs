//! `hypotf` of the C library, for dashed lines. That of glibc 2.35 has a version of its own, and would
//! keep `refrain` from running on systems with glibc 2.34.

#![allow(unsafe_code, reason = "takes the place of a function of the C library")]

/// The same as in glibc: the root of the sum of squares in twice the precision.
// SAFETY: has the prototype of the function of the C library.
#[unsafe(no_mangle)]
extern "C" fn hypotf(x: f32, y: f32) -> f32 {
    let (x, y) = (f64::from(x), f64::from(y));
    (x * x + y * y).sqrt() as f32
}

#[cfg(test)]
mod tests {
    #[test]
    fn lengths_are_right() {
        assert_eq!(std::hint::black_box(3f32).hypot(4.0), 5.0);
        assert_eq!(std::hint::black_box(f32::MAX).hypot(0.0), f32::MAX);
        assert_eq!(
            std::hint::black_box(f32::INFINITY).hypot(1.0),
            f32::INFINITY
        );
    }
}
