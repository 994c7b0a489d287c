//! Sizes on the command line (docs/guide/user-guide.md).

use crate::input::Input;
use refrain_launch::size::{SizeError, parse};

/// Checks any text, and numbers with each unit.
pub fn check(bytes: &[u8]) {
    if let Ok(text) = core::str::from_utf8(bytes) {
        match parse(text) {
            Ok(size) => {
                assert_eq!(parse(&size.to_string()), Ok(size));
                assert!(
                    text.contains(|c: char| c.is_ascii_digit()),
                    "a size without a digit: {text:?}"
                );
            }
            Err(SizeError::Form(quoted) | SizeError::Overflow(quoted)) => assert_eq!(quoted, text),
        }
    }
    let input = &mut Input::new(bytes);
    let (unit, shift) = UNITS[usize::from(input.u8()) % UNITS.len()];
    let number = input.u64() >> (input.u8() % 64);
    let text = format!("{number}{unit}");
    match u64::try_from(u128::from(number) << shift) {
        Ok(size) => assert_eq!(parse(&text), Ok(size), "{text}"),
        Err(_) => assert_eq!(parse(&text), Err(SizeError::Overflow(text.clone()))),
    }
}

const UNITS: [(&str, u32); 10] = [
    ("", 0),
    ("B", 0),
    ("k", 10),
    ("KiB", 10),
    ("M", 20),
    (" MiB", 20),
    ("g", 30),
    ("GiB", 30),
    ("T", 40),
    ("tib", 40),
];

/// Valid and invalid sizes.
pub fn seeds() -> Vec<Vec<u8>> {
    [
        "0",
        "65536",
        "512M",
        " 2 GiB ",
        "16777215T",
        "16777216T",
        "1MB",
        "-1",
        "1.5G",
        "0x10",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}
