//! Copies into and out of the log, with the widest instructions of the processor.
//!
//! Measured (docs/design/performance.md): a log that is retained streams
//! through memory, where ordinary stores first fetch every line that they
//! overwrite; non-temporal stores do not. They pay if no other core reads the
//! log soon. A log that is reused at once stays in the cache, where ordinary
//! stores are faster. For copies out of the log, prefetching the destination's lines
//! hides their cache misses.

#![allow(unsafe_code, reason = "wide loads and stores on raw memory")]

/// Kind of log memory that a copy writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A window that is written again soon: ordinary stores.
    Cached,
    /// Memory that is written once and kept: non-temporal stores where they pay.
    Streaming,
}

/// Length from which on a copy to a [`Target::Streaming`] bypasses the cache.
pub const STREAM_BYTES_MIN: usize = 2048;
/// Length from which on a copy out of the log prefetches its destination.
const WIDE_BYTES_MIN: usize = 2048;
/// Distance of the prefetch in bytes.
#[cfg(target_arch = "x86_64")]
const AHEAD_BYTES: usize = 1024;

/// Copies `bytes` bytes into the log.
///
/// # Safety
/// As [`core::ptr::copy_nonoverlapping`].
#[inline]
pub unsafe fn into_log(from: *const u8, to: *mut u8, bytes: usize, target: Target) {
    if target == Target::Streaming && bytes >= STREAM_BYTES_MIN {
        // SAFETY: the caller's promise.
        unsafe { stream(from, to, bytes) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) }
    }
}

/// Copies `bytes` bytes out of the log.
///
/// # Safety
/// As [`core::ptr::copy_nonoverlapping`].
#[inline]
pub unsafe fn out_of_log(from: *const u8, to: *mut u8, bytes: usize) {
    if bytes >= WIDE_BYTES_MIN {
        // SAFETY: the caller's promise.
        unsafe { wide(from, to, bytes) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { core::ptr::copy_nonoverlapping(from, to, bytes) }
    }
}

/// Copies `bytes` bytes by ordinary instructions; 8 to 16 bytes without a call.
///
/// # Safety
/// As [`into_log`].
#[inline(always)]
pub unsafe fn plain(from: *const u8, to: *mut u8, bytes: usize) {
    type Word = core::mem::MaybeUninit<u64>;
    // SAFETY: the caller's promise; the second word ends with the last byte.
    unsafe {
        if (8..=16).contains(&bytes) {
            let first = from.cast::<Word>().read_unaligned();
            let last = from.add(bytes - 8).cast::<Word>().read_unaligned();
            to.cast::<Word>().write_unaligned(first);
            to.add(bytes - 8).cast::<Word>().write_unaligned(last);
        } else {
            core::ptr::copy_nonoverlapping(from, to, bytes);
        }
    }
}

/// # Safety
/// As [`into_log`].
#[inline(never)]
unsafe fn stream(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let head = to.align_offset(64).min(bytes);
        let body = (bytes - head) & !63;
        // SAFETY: three adjoining parts of the caller's ranges; the middle one
        // begins on a line and is whole lines; features are checked.
        unsafe {
            core::ptr::copy_nonoverlapping(from, to, head);
            if is_x86_feature_detected!("avx512f") {
                x86::stream_512(from.add(head), to.add(head), body);
            } else if is_x86_feature_detected!("avx") {
                x86::stream_256(from.add(head), to.add(head), body);
            } else {
                x86::stream_128(from.add(head), to.add(head), body);
            }
            let done = head + body;
            core::ptr::copy_nonoverlapping(from.add(done), to.add(done), bytes - done);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to, bytes);
    }
}

/// # Safety
/// As [`out_of_log`].
#[inline(never)]
unsafe fn wide(from: *const u8, to: *mut u8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        let body = bytes & !63;
        // SAFETY: two adjoining parts of the caller's ranges; features are checked.
        unsafe {
            if is_x86_feature_detected!("avx512f") {
                x86::wide_512(from, to, body);
            } else if is_x86_feature_detected!("avx") {
                x86::wide_256(from, to, body);
            } else {
                core::ptr::copy_nonoverlapping(from, to, body);
            }
            core::ptr::copy_nonoverlapping(from.add(body), to.add(body), bytes - body);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: the caller's promise.
    unsafe {
        core::ptr::copy_nonoverlapping(from, to, bytes);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    //! Whole lines only: `bytes` is a multiple of 64. Each `stream_*` ends with
    //! a store fence, so that a later release store publishes its bytes too.

    use super::AHEAD_BYTES;
    use core::arch::x86_64::*;

    macro_rules! copy_lines {
        ($(#[$attribute:meta])* $name:ident, $feature:literal, $load:ident, $store:ident, $lanes:literal, ahead: $ahead:literal, fence: $fence:literal) => {
            $(#[$attribute])*
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $name(from: *const u8, to: *mut u8, bytes: usize) {
                let mut at = 0;
                while at < bytes {
                    // SAFETY: `at + 64 <= bytes`, in both ranges; a prefetch may
                    // name any address.
                    unsafe {
                        if $ahead {
                            _mm_prefetch::<_MM_HINT_ET0>(to.wrapping_add(at + AHEAD_BYTES).cast());
                        }
                        let mut lane = 0;
                        while lane < 64 {
                            $store(to.add(at + lane).cast(), $load(from.add(at + lane).cast()));
                            lane += $lanes;
                        }
                    }
                    at += 64;
                }
                if $fence {
                    _mm_sfence();
                }
            }
        };
    }

    copy_lines!(stream_512, "avx512f", _mm512_loadu_si512, _mm512_stream_si512, 64, ahead: false, fence: true);
    copy_lines!(stream_256, "avx", _mm256_loadu_si256, _mm256_stream_si256, 32, ahead: false, fence: true);
    copy_lines!(stream_128, "sse2", _mm_loadu_si128, _mm_stream_si128, 16, ahead: false, fence: true);
    copy_lines!(wide_512, "avx512f", _mm512_loadu_si512, _mm512_storeu_si512, 64, ahead: true, fence: false);
    copy_lines!(wide_256, "avx", _mm256_loadu_si256, _mm256_storeu_si256, 32, ahead: true, fence: false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_and_alignment_is_copied_exactly() {
        let source: Vec<u8> = (0..20_000u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
            .collect();
        for bytes in [0, 1, 63, 64, 65, 2047, 2048, 2049, 4096, 8192, 16_383] {
            for skew in [0, 1, 8, 63] {
                for target in [None, Some(Target::Cached), Some(Target::Streaming)] {
                    let mut out = vec![0xa5u8; bytes + 256];
                    let from = source[skew..].as_ptr();
                    let to = out[64 + skew..].as_mut_ptr();
                    // SAFETY: both ranges are inside their vectors and apart.
                    unsafe {
                        match target {
                            None => out_of_log(from, to, bytes),
                            Some(target) => into_log(from, to, bytes, target),
                        }
                    }
                    assert_eq!(
                        out[64 + skew..64 + skew + bytes],
                        source[skew..skew + bytes]
                    );
                    assert!(
                        out[..64 + skew]
                            .iter()
                            .chain(&out[64 + skew + bytes..])
                            .all(|&byte| byte == 0xa5)
                    );
                }
            }
        }
    }
}
