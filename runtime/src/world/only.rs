//! One world at a time: a scope lends the world that its requests belong to, and
//! with a second one at hand the two could be swapped under it.

use crate::Error;
use std::cell::Cell;
use std::marker::PhantomData;

thread_local! {
    /// A world of this thread exists. No world leaves its thread.
    static EXISTS: Cell<bool> = const { Cell::new(false) };
}

/// Held by the only world of a thread.
#[derive(Debug)]
pub(super) struct Only(PhantomData<*const ()>);

impl Only {
    /// # Errors
    /// When there is one.
    pub(super) fn claim() -> Result<Self, Error> {
        match EXISTS.replace(true) {
            false => Ok(Self(PhantomData)),
            true => Err(Error::Config(
                "World::init was called while there is a world already: a process is one rank; pass that world on to whoever needs it, or end it with World::finalize first"
                    .into(),
            )),
        }
    }
}

impl Drop for Only {
    fn drop(&mut self) {
        EXISTS.set(false);
    }
}

#[cfg(test)]
mod tests {
    use crate::World;

    #[test]
    fn there_is_one_world_at_a_time() {
        let first = World::init().expect("a job of one rank");
        let error = World::init().expect_err("there is one");
        assert!(error.to_string().contains("World::finalize"), "{error}");
        first.finalize().expect("nothing is under way");
        let second = World::init().expect("the first has ended");
        drop(second);
        World::init().expect("the second has ended");
    }
}
