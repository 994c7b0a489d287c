//! Signals of the process: its program handles them, in its own threads.

use nix::sys::signal::{SigSet, SigmaskHow};
use std::io;

/// Does something with all signals blocked in this thread. A thread that is
/// started there inherits that: no handler of the program ever runs in it.
pub(super) fn with_all_blocked<T>(act: impl FnOnce() -> T) -> io::Result<T> {
    let former = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let done = act();
    former.thread_set_mask()?;
    Ok(done)
}
