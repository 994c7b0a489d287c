//! The library's own stack. Each call from C runs on it, so that below the frames of the program
//! the library leaves nothing that differs from life to life: only arguments, return addresses and
//! registers that the compiler saves for the caller.
//!
//! Each thread has one such stack, made at its first call. A call during another call of its thread
//! (by a signal handler) runs on the present stack; so do all calls on processors without a
//! `switch`, and without `stack` in `REFRAIN_SAME_MEMORY`.
//!
//! Before the return, registers that a callee may change get fixed values. Otherwise values that
//! the library computed would get onto the program's stack, when the compiler spills registers or
//! the loader resolves a function at its first call.

#![allow(
    unsafe_code,
    reason = "changes the stack pointer, maps stacks, and reads a thread's variable"
)]

use super::same_memory::{Means, uses};
use core::cell::Cell;
use core::ffi::c_void;
use core::mem::{ManuallyDrop, offset_of};
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicUsize, Ordering};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// As large as the usual stack of a program: a call may load libraries, and signal handlers of the
/// program run here too. Pages take memory only when they are used.
const STACK_BYTES: usize = 8 << 20;
const GUARD_BYTES: usize = 64 << 10;
/// Hint for the address of stacks, far from everything that the kernel places by itself. If the
/// address is taken, the kernel chooses.
const REGION: usize = 0x3f00_0000_0000;

type Enter = unsafe extern "C" fn(*mut c_void) -> i64;
type Switch = unsafe extern "C" fn(*mut c_void, Enter, Stack) -> i64;

/// The stack of a thread, named by its head.
pub(crate) type Stack = NonNull<Head>;

/// The head of a stack, at its upper end.
#[repr(C, align(64))]
pub(crate) struct Head {
    /// Cleared by `switch` when the call has left the stack.
    is_in_use: Cell<bool>,
    switch: Switch,
    lower_end: NonNull<u8>,
}

/// The state of a thread.
struct Thread {
    stack: Cell<Option<Stack>>,
    /// A call that does not run on `stack` is in progress.
    is_on_caller_stack: Cell<bool>,
}

crate::thread_state! {
    fn with_thread(&Thread) = Thread {
        stack: Cell::new(None),
        is_on_caller_stack: Cell::new(false),
    }, "refrain_place_of_stack"
}

thread_local! {
    static END: End = const { End };
}

/// Unmaps the stack of its thread when the thread ends.
struct End;

/// Runs the body of a call on the library's stack. The body must not panic.
#[inline]
pub fn run<F: FnOnce() -> i64>(body: F) -> i64 {
    let mut body = ManuallyDrop::new(body);
    let body = (&raw mut body).cast();
    let stack = with_thread(|thread| thread.stack.get()).or_else(make);
    // SAFETY: a head lives as long as its thread.
    let free = stack.filter(|stack| unsafe { !stack.as_ref().is_in_use.replace(true) });
    // SAFETY: `enter` fits the body, and takes it once; the stack below the head was
    // free and is now marked.
    unsafe {
        match free {
            Some(stack) => (stack.as_ref().switch)(body, enter::<F>, stack),
            None => stay(body, enter::<F>),
        }
    }
}

/// Whether a call of this thread is in progress, on either stack.
pub fn is_call_under_way() -> bool {
    let (stack, on_caller_stack) =
        with_thread(|thread| (thread.stack.get(), thread.is_on_caller_stack.get()));
    // SAFETY: a head lives as long as its thread.
    on_caller_stack || stack.is_some_and(|stack| unsafe { stack.as_ref().is_in_use.get() })
}

// SAFETY: `enter` fits its argument.
#[cold]
#[inline(never)]
unsafe fn stay(argument: *mut c_void, enter: Enter) -> i64 {
    let was_under_way = with_thread(|thread| thread.is_on_caller_stack.replace(true));
    // SAFETY: the caller's promise.
    let result = unsafe { enter(argument) };
    with_thread(|thread| thread.is_on_caller_stack.set(was_under_way));
    result
}

// SAFETY: called with a body of this type that was not taken yet.
unsafe extern "C" fn enter<F: FnOnce() -> i64>(body: *mut c_void) -> i64 {
    // SAFETY: as `run` promises.
    let body = unsafe { ManuallyDrop::take(&mut *body.cast::<ManuallyDrop<F>>()) };
    body()
}

/// Overwrites the bytes that earlier code left on the program's stack: constructors of libraries,
/// among them the allocator's, which draws random numbers; the recorder of clocks, which does more
/// in a later life; the loader.
///
/// Does nothing in other threads than the first: their stacks are small, and none of this code ran
/// there.
/// Other threads than the first have small stacks, and none of these ran there.
pub fn overwrite_below() {
    const BYTES: usize = 64 << 10;
    #[inline(never)]
    fn overwrite() {
        core::hint::black_box(&mut [0u8; BYTES]);
    }
    if uses(Means::Stack) && rustix::thread::gettid() == rustix::process::getpid() {
        overwrite();
    }
}

/// Makes the stack of this thread. `None`: calls run on the caller's stack.
#[cold]
fn make() -> Option<Stack> {
    static NEXT: AtomicUsize = AtomicUsize::new(REGION);
    let switch = switch().filter(|_| uses(Means::Stack))?;
    let bytes = GUARD_BYTES + STACK_BYTES;
    let hint = NEXT.fetch_add(bytes, Ordering::Relaxed);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping; the address is a hint.
    let lower_end =
        unsafe { mmap_anonymous(ptr::without_provenance_mut(hint), bytes, access, flags) };
    let lower_end = NonNull::new(lower_end.ok()?.cast::<u8>())?;
    let guard = lower_end.as_ptr().cast();
    // SAFETY: nothing uses the lower end. Without a guard, an overflow would hit the page below,
    // which is most likely not mapped.
    let _ = unsafe { mprotect(guard, GUARD_BYTES, MprotectFlags::empty()) };
    let head = Head {
        is_in_use: Cell::new(true),
        switch,
        lower_end,
    };
    // SAFETY: the upper end of the mapping is writable and aligned.
    let stack = unsafe {
        let stack = lower_end.add(bytes - size_of::<Head>()).cast::<Head>();
        stack.write(head);
        stack
    };
    with_thread(|thread| thread.stack.set(Some(stack)));
    // SAFETY: `watch_end` has no requirements, and the stack is new.
    unsafe { switch(ptr::null_mut(), watch_end, stack) };
    Some(stack)
}

/// Registers `END`. Runs on the new stack, so that the bytes that it leaves are the library's.
extern "C" fn watch_end(_: *mut c_void) -> i64 {
    // In a thread that already ends the registration fails, and the stack stays mapped.
    let _ = END.try_with(|_| ());
    0
}

impl Drop for End {
    fn drop(&mut self) {
        let Some(stack) = with_thread(|thread| thread.stack.take()) else {
            return;
        };
        // SAFETY: the head exists as long as the stack.
        let head = unsafe { stack.as_ref() };
        // A thread may end within a call, by a signal handler that ends it.
        if !head.is_in_use.get() {
            // SAFETY: `make` mapped it, and nothing runs on it.
            let _ = unsafe { munmap(head.lower_end.as_ptr().cast(), GUARD_BYTES + STACK_BYTES) };
        }
    }
}

/// Calls `enter` with its argument on the stack that ends at the head; then marks the stack free.
#[cfg(target_arch = "x86_64")]
macro_rules! switch {
    ($name:ident, $($clear:literal),*) => {
        // SAFETY: callee-saved registers are as before when it returns.
        #[unsafe(naked)]
        // SAFETY: the caller gives the upper end of a free stack, and what `enter` takes.
        unsafe extern "C" fn $name(argument: *mut c_void, enter: Enter, stack: Stack) -> i64 {
            core::arch::naked_asm!(
                ".cfi_startproc",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "mov rsp, rdx",
                "call rsi",
                "mov rcx, rsp",
                "mov rsp, rbp",
                "mov byte ptr [rcx + {is_in_use}], 0",
                "pop rbp",
                ".cfi_def_cfa rsp, 8",
                $($clear,)*
                "xor ecx, ecx",
                "xor edx, edx",
                "xor esi, esi",
                "xor edi, edi",
                "xor r8d, r8d",
                "xor r9d, r9d",
                "xor r10d, r10d",
                "xor r11d, r11d",
                "ret",
                ".cfi_endproc",
                is_in_use = const offset_of!(Head, is_in_use),
            )
        }
    };
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::*;

    // One register of each set keeps all bits set. The loader saves registers by XSAVEC, which
    // omits a set that the processor knows to be zero; whether it knows depends on the last
    // interrupt of the process.
    switch!(
        with_sse,
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n xorps xmm\\n, xmm\\n\n .endr",
        "pcmpeqd xmm15, xmm15"
    );
    // Also clears the upper halves, which then count as unused. On Zen 3 one instruction takes 1 ns
    // less than seventeen.
    switch!(with_avx, "vzeroall", "vpcmpeqd xmm15, xmm15, xmm15");
    switch!(
        with_avx512,
        ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n vxorps xmm\\n, xmm\\n, xmm\\n\n .endr",
        ".irp n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n vpxord xmm\\n, xmm\\n, xmm\\n\n .endr",
        ".irp n, 0,1,2,3,4,5,6,7\n kxorw k\\n, k\\n, k\\n\n .endr",
        "vzeroupper",
        "vpcmpeqd xmm15, xmm15, xmm15",
        "vpternlogd xmm31, xmm31, xmm31, 255",
        "kxnorw k7, k7, k7"
    );

    pub fn switch() -> Option<Switch> {
        Some(if is_x86_feature_detected!("avx512vl") {
            with_avx512
        } else if is_x86_feature_detected!("avx") {
            with_avx
        } else {
            with_sse
        })
    }
}
#[cfg(target_arch = "x86_64")]
use x86_64::switch;

#[cfg(target_arch = "aarch64")]
mod aarch64 {
    use super::*;

    /// As on x86_64. The predicates of the scalable registers stay unchanged.
    // SAFETY: callee-saved registers are as before when it returns.
    #[unsafe(naked)]
    // SAFETY: the caller gives the upper end of a free stack, and what `enter` takes.
    unsafe extern "C" fn with_neon(argument: *mut c_void, enter: Enter, stack: Stack) -> i64 {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "stp x29, x30, [sp, #-16]!",
            ".cfi_def_cfa_offset 16",
            ".cfi_offset x29, -16",
            ".cfi_offset x30, -8",
            "mov x29, sp",
            ".cfi_def_cfa_register x29",
            "mov sp, x2",
            "blr x1",
            "mov x1, sp",
            "mov sp, x29",
            "strb wzr, [x1, #{is_in_use}]",
            "ldp x29, x30, [sp], #16",
            ".cfi_def_cfa sp, 0",
            ".irp n, 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17\n mov x\\n, xzr\n .endr",
            ".irp n, 0,1,2,3,4,5,6,7,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n movi v\\n\\().2d, #0\n .endr",
            ".irp n, 8,9,10,11,12,13,14,15\n mov v\\n\\().d[1], xzr\n .endr",
            "ret",
            ".cfi_endproc",
            is_in_use = const offset_of!(Head, is_in_use),
        )
    }

    pub fn switch() -> Option<Switch> {
        Some(with_neon)
    }
}
#[cfg(target_arch = "aarch64")]
use aarch64::switch;

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn switch() -> Option<Switch> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> usize {
        let local = 0u8;
        core::hint::black_box(&raw const local).addr()
    }

    #[test]
    fn a_call_runs_elsewhere_and_a_call_within_it_beside_it() {
        let outside = here();
        let inner = Cell::new(0);
        let outer = run(|| {
            inner.set(run(|| here() as i64));
            here() as i64
        });
        let far = |place: i64| (place as usize).abs_diff(outside) > STACK_BYTES;
        assert!(far(outer) && far(inner.get()));
        assert!((outer - inner.get()).unsigned_abs() < 4096);
        assert_eq!(run(|| 7), 7);
    }

    #[test]
    fn a_call_is_under_way_until_its_outermost_run_returns() {
        let within = || i64::from(is_call_under_way());
        assert!(!is_call_under_way());
        let nested = run(|| {
            run(|| 0);
            within()
        });
        assert_eq!((nested, run(within)), (1, 1));
        assert!(!is_call_under_way());
        let mut on_caller_stack = ManuallyDrop::new(within);
        // SAFETY: `enter` fits the body, and takes it once.
        let inside = unsafe { stay((&raw mut on_caller_stack).cast(), enter_of(&within)) };
        assert_eq!(inside, 1);
        assert!(!is_call_under_way());
    }

    fn enter_of<F: FnOnce() -> i64>(_: &F) -> Enter {
        enter::<F>
    }

    #[test]
    fn a_thread_has_one_and_takes_it_along() {
        let at = std::thread::spawn(|| {
            let at = run(|| here() as i64);
            assert_eq!(at, run(|| here() as i64));
            at as usize
        });
        let at = at.join().unwrap();
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let holds = |line: &str| {
            let (from, to) = line.split(' ').next()?.split_once('-')?;
            let number = |text| usize::from_str_radix(text, 16).ok();
            Some((number(from)?..number(to)?).contains(&at))
        };
        assert!(
            !maps.lines().any(|line| holds(line) == Some(true)),
            "{maps}"
        );
    }
}
