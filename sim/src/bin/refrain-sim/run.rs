//! One run, with whatever may become of it.

use refrain_sim::happening::Breach;
use refrain_sim::plan::Plan;
use refrain_sim::world::{Failure, Totals};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// Where and why this thread panicked last.
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Panics are told with the seed in which they happened, not when they do.
pub fn remember_panics() {
    std::panic::set_hook(Box::new(|panic| {
        PANIC.with(|last| *last.borrow_mut() = panic.to_string());
    }));
}

/// Runs a plan, `twice` if that is wanted. A panic is a failure like others.
///
/// # Errors
/// What must not be.
pub fn checked(plan: &Plan, twice: bool, is_loud: bool) -> Result<Totals, Box<Failure>> {
    let totals = once(plan, is_loud)?;
    if twice {
        let again = once(plan, false)?;
        if again != totals {
            return Err(failure(
                "simulator",
                format!("another run of the same plan came to {again:?}, not to {totals:?}"),
            ));
        }
    }
    Ok(totals)
}

fn once(plan: &Plan, is_loud: bool) -> Result<Totals, Box<Failure>> {
    // Nothing of a run is looked at again.
    let run = AssertUnwindSafe(|| refrain_sim::world::run(plan, is_loud));
    catch_unwind(run).unwrap_or_else(|_| {
        let what = PANIC.with(|last| last.borrow().clone());
        Err(failure("panic", what))
    })
}

fn failure(oracle: &'static str, what: String) -> Box<Failure> {
    Box::new(Failure {
        step: 0,
        breach: Breach { oracle, what },
    })
}
