//! CRC-32C of short batches, by the processor's instructions if it has them. Long
//! batches, and other processors, use `crc32c`, whose loops are made for long data.

#![allow(
    unsafe_code,
    reason = "computes checksums by instructions that not all processors have"
)]

/// Length up to which a single sequence of instructions is faster than several parallel
/// ones.
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES_MAX: usize = 256;

/// The checksum of bytes that follow others with the checksum `before`; 0 if no bytes
/// precede.
#[inline(always)]
pub(super) fn append(before: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() <= SHORT_BYTES_MAX && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instructions.
        return unsafe { by_instruction(before, bytes) };
    }
    crc32c::crc32c_append(before, bytes)
}

/// Inline assembly instead of `core::arch`, whose functions are not inlined unless the
/// program is compiled for processors that always have the instructions.
///
/// # Safety
/// The processor has SSE 4.2.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn by_instruction(before: u32, bytes: &[u8]) -> u32 {
    use core::arch::asm;
    let (words, mut rest) = bytes.as_chunks::<8>();
    let mut state = u64::from(!before);
    for word in words {
        let word = u64::from_le_bytes(*word);
        // SAFETY: the processor has it, the caller says; registers only.
        unsafe {
            asm!("crc32 {}, {}", inout(reg) state, in(reg) word,
                options(pure, nomem, nostack, preserves_flags));
        }
    }
    if let Some((half, left)) = rest.split_first_chunk::<4>() {
        let half = u32::from_le_bytes(*half);
        // SAFETY: as above.
        unsafe {
            asm!("crc32 {:e}, {:e}", inout(reg) state, in(reg) half,
                options(pure, nomem, nostack, preserves_flags));
        }
        rest = left;
    }
    for byte in rest {
        // SAFETY: as above.
        unsafe {
            asm!("crc32 {:e}, {}", inout(reg) state, in(reg_byte) *byte,
                options(pure, nomem, nostack, preserves_flags));
        }
    }
    !(state as u32)
}

#[cfg(test)]
mod tests {
    use super::append;

    #[test]
    fn it_is_crc_32c_whatever_the_length_and_the_place() {
        assert_eq!(append(0, b"123456789"), 0xe306_9283, "the check value");
        let bytes: Vec<u8> = (0..600u32).map(|n| ((n * n) >> 3) as u8 ^ 0x5a).collect();
        for begin in 0..9 {
            for end in begin..bytes.len() {
                let data = &bytes[begin..end];
                assert_eq!(append(0, data), crc32c::crc32c(data), "{begin}..{end}");
            }
        }
    }

    #[test]
    fn parts_give_what_the_whole_gives() {
        let bytes: Vec<u8> = (0..400u32).map(|n| (n * 37) as u8).collect();
        for middle in 0..bytes.len() {
            let (first, second) = bytes.split_at(middle);
            assert_eq!(append(append(0, first), second), append(0, &bytes));
        }
    }
}
