//! State of a process: whether it is a rank, and which of its calls are answered.
//!
//! The state is in pages that the kernel zeroes in a child after `fork`: the child is another
//! process, and the C library answers its calls.

#![allow(
    unsafe_code,
    reason = "one state in mapped memory, which one thread uses"
)]

use crate::early::Early;
use crate::section::{SPENT, Section, Spent};
use core::cell::{Cell, UnsafeCell};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicUsize, Ordering};
use core::{mem, ptr};

mod next {
    use super::c_int;

    crate::next::next! {
        getpid() -> c_int, else 0;
    }
}

/// Functions of `librefrain` that answer calls. REC-4
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Engine {
    /// Not 0: the call comes from the program, not from within a call of the library.
    pub is_asked_by_program: extern "C" fn() -> c_int,
    /// Runs `body` on a stack other than the program's.
    pub aside: unsafe extern "C" fn(body: extern "C" fn(*mut c_void), call: *mut c_void),
    /// A number of series `lane`, 1 to 15: `fresh`, or that of the first life.
    pub number: extern "C" fn(lane: u8, fresh: i64) -> i64,
    /// Replaces fresh bytes with those of the first life.
    pub bytes: unsafe extern "C" fn(fresh: *mut u8, bytes: usize),
}

/// Kinds of answers that are numbers: the series of the engine.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Number {
    RealTime = 1,
    Monotonic = 2,
    ProcessTime = 3,
    ThreadTime = 4,
    MonotonicRaw = 5,
    RealTimeCoarse = 6,
    MonotonicCoarse = 7,
    BootTime = 8,
    AtomicTime = 9,
}

/// Kinds of answers that are bytes.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Bytes {
    Random = 32,
    Times = 33,
    Usage = 34,
}

/// Source of answers to the calls of the program.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Phase {
    /// A child after `fork`: the C library answers.
    Emptied,
    /// The program has not joined its job yet: `Early` answers.
    Early,
    /// The program is joining, or could not join: the C library answers.
    Joining,
    /// The program has joined: the engine answers.
    Attached,
    /// The program has left the job: the C library answers.
    Left,
}

/// The state of a process of a rank.
#[repr(C)]
pub struct State {
    /// The thread whose calls are answered; 0: none.
    owner: AtomicUsize,
    phase: AtomicU8,
    is_answering: Cell<bool>,
    engine: Cell<Option<Engine>>,
    section: Cell<Option<Section>>,
    /// Hash of the program and its arguments.
    image: Cell<u64>,
    /// In a later life, the process id of the first life.
    first_process: Cell<Option<c_int>>,
    /// Processor times of earlier lives, in nanoseconds; by [`Spent`].
    before_ns: Cell<[i64; SPENT]>,
    early: UnsafeCell<Early>,
}

/// The process was not examined yet.
const UNKNOWN: *mut State = ptr::without_provenance_mut(1);

/// The state; null: this process is no rank.
static STATE: AtomicPtr<State> = AtomicPtr::new(UNKNOWN);

/// Examines the process when the library is loaded: the program may close the descriptor before
/// its first call.
// SAFETY: the loader calls what is in this section, with arguments that C functions may
// ignore.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        let _ = known();
    }
    look
};

/// The state, if this call comes from the program and from the thread whose calls are answered.
#[inline]
pub fn asked() -> Option<&'static State> {
    let state = known()?;
    // SAFETY: asks which thread this is.
    let this = unsafe { libc::pthread_self() } as usize;
    if state.owner.load(Ordering::Relaxed) != this {
        return None;
    }
    let is_asked = match state.phase() {
        Phase::Early | Phase::Left => true,
        Phase::Attached => {
            let engine = state.engine.get()?;
            (engine.is_asked_by_program)() != 0
        }
        Phase::Joining | Phase::Emptied => false,
    };
    is_asked.then_some(state)
}

/// The state of this process, if the process is a rank.
#[inline]
pub fn known() -> Option<&'static State> {
    let state = STATE.load(Ordering::Acquire);
    if state.addr() > UNKNOWN.addr() {
        // SAFETY: it is mapped for ever; zero is a value of all its fields but
        // those that only its owner reads, which there is none of then.
        return Some(unsafe { &*state });
    }
    if state.is_null() { None } else { look() }
}

#[cold]
fn look() -> Option<&'static State> {
    // Until the state is stored, the C library answers calls of other threads, and calls from
    // here.
    let unknown = STATE.compare_exchange(
        UNKNOWN,
        ptr::null_mut(),
        Ordering::Relaxed,
        Ordering::Relaxed,
    );
    unknown.ok()?;
    let section = Section::of_this_process()?;
    let state = emptied_by_fork()?;
    state.begin(section);
    STATE.store(ptr::from_ref(state).cast_mut(), Ordering::Release);
    Some(state)
}

/// New zeroed memory for the state; the kernel zeroes it in a child after `fork`.
fn emptied_by_fork() -> Option<&'static State> {
    let bytes = mem::size_of::<State>();
    // SAFETY: a new mapping, at no place that is in use.
    let mapped = unsafe {
        libc::mmap(
            ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
            -1,
            0,
        )
    };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    // SAFETY: of that mapping.
    if unsafe { libc::madvise(mapped, bytes, libc::MADV_WIPEONFORK) } != 0 {
        return None;
    }
    // SAFETY: as in `known`.
    Some(unsafe { &*mapped.cast::<State>() })
}

impl State {
    /// Makes this thread the one whose calls are answered; in a later life, with the answers that
    /// the first life got before it joined.
    fn begin(&self, section: Section) {
        let image = image();
        self.image.set(image);
        self.section.set(Some(section));
        self.engine.set(None);
        self.first_process.set(None);
        self.before_ns.set([0; SPENT]);
        let filled = section.filled_by(image);
        // SAFETY: nothing else is within a call that uses it.
        let early = unsafe { &mut *self.early.get() };
        early.begin(filled.as_ref().map(|filled| filled.answers));
        if let Some(filled) = filled {
            self.before_ns.set(filled.spent_ns);
            let own = own_process();
            self.first_process
                .set(Some(filled.process).filter(|first| *first != own));
        }
        self.set_phase(Phase::Early);
        self.own();
    }

    fn own(&self) {
        // SAFETY: asks which thread this is.
        let this = unsafe { libc::pthread_self() } as usize;
        self.owner.store(this, Ordering::Release);
    }

    fn phase(&self) -> Phase {
        let phase = self.phase.load(Ordering::Relaxed);
        let all = [Phase::Early, Phase::Joining, Phase::Attached, Phase::Left];
        let of = all.into_iter().find(|known| *known as u8 == phase);
        of.unwrap_or(Phase::Emptied)
    }

    fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// The process id of the first life, if it differs from that of this process.
    #[inline]
    pub fn first_process(&self) -> Option<c_int> {
        self.first_process.get()
    }

    /// Runs `ask` on a stack of `librefrain`, if it has one: fresh values, which differ in each
    /// life, must not stay on the program's stack.
    pub fn aside<T>(&self, ask: impl FnOnce() -> T) -> Option<T> {
        let Some(engine) = self.engine.get() else {
            return Some(ask());
        };
        let mut call = Call {
            ask: Some(ask),
            told: None,
        };
        fn enter_of<F: FnOnce() -> T, T>(_: &Call<F, T>) -> extern "C" fn(*mut c_void) {
            enter::<F, T>
        }
        let enter = enter_of(&call);
        // SAFETY: `enter` fits `call`, which outlives it.
        unsafe { (engine.aside)(enter, (&raw mut call).cast()) };
        call.told
    }

    /// Records a fresh number, or in a later life returns that of the first life.
    pub fn number(&self, kind: Number, fresh: i64) -> i64 {
        let mut told = fresh;
        self.answering(|phase, engine, early| match (phase, engine) {
            (Phase::Early, _) => {
                let mut bytes = fresh.to_le_bytes();
                early.answer(kind as u8, &mut bytes);
                told = i64::from_le_bytes(bytes);
            }
            (Phase::Attached, Some(engine)) => told = (engine.number)(kind as u8, fresh),
            _ => {}
        });
        told
    }

    /// Records fresh bytes, or in a later life replaces them with those of the first life.
    pub fn bytes(&self, kind: Bytes, fresh: &mut [u8]) {
        self.answering(|phase, engine, early| match (phase, engine) {
            (Phase::Early, _) => early.answer(kind as u8, fresh),
            (Phase::Attached, Some(engine)) => {
                // SAFETY: the slice is lent for the call.
                unsafe { (engine.bytes)(fresh.as_mut_ptr(), fresh.len()) }
            }
            _ => {}
        });
    }

    /// Processor time of earlier lives, in nanoseconds. The time of this life is added to it, so
    /// that the program's processor time never decreases.
    pub fn before_ns(&self, spent: Spent) -> i64 {
        let before_ns = self.before_ns.get();
        before_ns.get(spent as usize).copied().unwrap_or_default()
    }

    /// Notes the processor time that the program is about to get.
    pub fn note_spent_ns(&self, spent: Spent, ns: i64) {
        if self.phase() == Phase::Attached
            && let Some(section) = self.section.get()
        {
            section.note_spent_ns(spent, ns);
        }
    }

    /// Runs one answer at a time: a signal handler that interrupts an answer gets fresh values.
    fn answering(&self, answer: impl FnOnce(Phase, Option<Engine>, &mut Early)) {
        if self.is_answering.replace(true) {
            return;
        }
        // SAFETY: each thread has one.
        let errno = unsafe { libc::__errno_location() };
        // SAFETY: as above.
        let before = unsafe { *errno };
        // SAFETY: only the owner comes here, and once at a time.
        let early = unsafe { &mut *self.early.get() };
        answer(self.phase(), self.engine.get(), early);
        // SAFETY: as above.
        unsafe { *errno = before };
        self.is_answering.set(false);
    }

    // ---- the interface to the engine ----

    /// The program joins its job: until it has joined, calls are not answered here, since the
    /// library makes them.
    pub fn join(&self) {
        if self.phase() == Phase::Early {
            self.set_phase(Phase::Joining);
        }
    }

    /// The program has joined its job: `engine` answers calls of this thread. Returns whether it
    /// does, and whether earlier answers were lost for lack of room.
    pub fn attach(&self, engine: Engine) -> (bool, bool) {
        let is_emptied = self.phase() == Phase::Emptied;
        if is_emptied {
            // A child after `fork` has joined: it has no state from before.
            let Some(section) = Section::of_this_process() else {
                return (false, false);
            };
            self.begin(section);
            self.first_process.set(None);
        }
        let Some(section) = self.section.get() else {
            return (false, false);
        };
        // SAFETY: no answer is under way, and the phase lets none begin.
        let early = unsafe { &*self.early.get() };
        if section.is_empty() && !is_emptied {
            let own = own_process();
            section.fill(self.image.get(), own, early.kept());
        }
        section.close_to_children();
        self.engine.set(Some(engine));
        self.own();
        self.set_phase(Phase::Attached);
        (true, early.is_full())
    }

    /// The program has left its job.
    pub fn detach(&self) {
        if self.phase() != Phase::Emptied {
            self.set_phase(Phase::Left);
            self.engine.set(None);
        }
    }
}

/// The id of this process.
pub fn own_process() -> c_int {
    // SAFETY: returns a number.
    unsafe { next::getpid() }
}

/// The argument of [`enter`]: the call and its result.
struct Call<F, T> {
    ask: Option<F>,
    told: Option<T>,
}

extern "C" fn enter<F: FnOnce() -> T, T>(call: *mut c_void) {
    // SAFETY: `aside` gives a call of these types, and waits.
    let call = unsafe { &mut *call.cast::<Call<F, T>>() };
    call.told = call.ask.take().map(|ask| ask());
}

/// A hash of the program's file and arguments. The hash of a wrapper differs from that of the
/// program that it starts.
fn image() -> u64 {
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let mut hash: u64 = 0xcbf2_9ce4_8422_2325;
    let mut add = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
        }
    };
    // SAFETY: zero is a value of it.
    let mut stat: libc::stat = unsafe { mem::zeroed() };
    // SAFETY: fills it; where there is no /proc it stays zero.
    unsafe { libc::stat(c"/proc/self/exe".as_ptr(), &mut stat) };
    add(&stat.st_dev.to_le_bytes());
    add(&stat.st_ino.to_le_bytes());
    // SAFETY: opens a file to read it.
    let file = unsafe {
        libc::open(
            c"/proc/self/cmdline".as_ptr(),
            libc::O_RDONLY | libc::O_CLOEXEC,
        )
    };
    let mut piece = [0u8; 512];
    loop {
        // SAFETY: into the piece; nothing is read of what is no descriptor.
        let count = unsafe { libc::read(file, piece.as_mut_ptr().cast(), piece.len()) };
        match usize::try_from(count)
            .ok()
            .and_then(|count| piece.get(..count))
        {
            Some(read) if !read.is_empty() => add(read),
            _ => break,
        }
    }
    // SAFETY: it is this function's own, or none.
    unsafe { libc::close(file) };
    hash
}
