//! Values from fuzzer bytes, and the check of a decoded value.

/// Takes values from the front of a byte string; zeros at its end.
pub(crate) struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut taken = [0; N];
        let available = self.0.len().min(N);
        let (front, rest) = self.0.split_at(available);
        taken[..available].copy_from_slice(front);
        self.0 = rest;
        taken
    }

    pub(crate) fn u8(&mut self) -> u8 {
        u8::from_le_bytes(self.take())
    }

    pub(crate) fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.take())
    }

    pub(crate) fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    pub(crate) fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }

    /// A length of up to 255 bytes, at most the number of remaining bytes.
    pub(crate) fn length(&mut self) -> usize {
        usize::from(self.u8()).min(self.0.len())
    }

    /// Up to 255 bytes: a length, then the bytes, fewer at the end of the input.
    pub(crate) fn bytes(&mut self) -> Vec<u8> {
        let length = self.length();
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken.to_vec()
    }

    pub(crate) fn text(&mut self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

/// Checks that an encoded value decodes to the same value if the format permits it, and is refused
/// otherwise.
pub(crate) fn comes_back<T: PartialEq + core::fmt::Debug, E: PartialEq + core::fmt::Debug>(
    decoded: &Result<T, E>,
    value: &T,
    is_permitted: bool,
) {
    match decoded {
        Ok(decoded) => assert!(is_permitted && decoded == value, "{value:?}: {decoded:?}"),
        Err(error) => assert!(!is_permitted, "{value:?}: {error:?}"),
    }
}
