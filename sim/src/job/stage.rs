//! Where everything that happens is told: once to the oracles, once to the
//! trace.

use crate::happening::{Breach, Happening};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

/// Who sees what happens, and says what must not be.
pub trait Audience {
    /// Sees one thing.
    ///
    /// # Errors
    /// When it must not be.
    fn see(&mut self, happening: &Happening<'_>) -> Result<(), Breach>;
}

/// Clones are the same stage.
#[derive(Clone)]
pub struct Stage {
    shared: Rc<Shared>,
}

struct Shared {
    audience: RefCell<Box<dyn Audience>>,
    breach: RefCell<Option<Breach>>,
    told: Cell<u64>,
    digest: Cell<u64>,
    step: Cell<u64>,
    /// Prints everything.
    is_loud: bool,
}

impl fmt::Debug for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("told", &self.shared.told.get())
            .finish_non_exhaustive()
    }
}

impl Stage {
    /// With that audience. `is_loud`: everything is printed as well.
    pub fn new(audience: Box<dyn Audience>, is_loud: bool) -> Self {
        Self {
            shared: Rc::new(Shared {
                audience: RefCell::new(audience),
                breach: RefCell::new(None),
                told: Cell::new(0),
                digest: Cell::new(0xcbf2_9ce4_8422_2325),
                step: Cell::new(0),
                is_loud,
            }),
        }
    }

    /// Something happens.
    pub fn tell(&self, happening: &Happening<'_>) {
        let shared = &self.shared;
        shared.told.set(shared.told.get() + 1);
        self.note(happening.fingerprint());
        if shared.is_loud {
            println!("{:6} {happening}", shared.step.get());
        }
        if shared.breach.borrow().is_some() {
            return;
        }
        if let Err(breach) = shared.audience.borrow_mut().see(happening) {
            self.breach(breach);
        }
    }

    /// Something must not be.
    pub fn breach(&self, breach: Breach) {
        self.shared.breach.borrow_mut().get_or_insert(breach);
    }

    /// The first thing that must not be.
    pub fn first_breach(&self) -> Option<Breach> {
        self.shared.breach.borrow().clone()
    }

    /// Takes something into the digest of the run.
    pub fn note(&self, what: u64) {
        let digest = &self.shared.digest;
        let mixed = (digest.get() ^ what).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        digest.set(mixed ^ mixed >> 32);
    }

    /// A hash of everything that happened so far.
    pub fn digest(&self) -> u64 {
        self.shared.digest.get()
    }

    /// How many things have happened.
    pub fn told(&self) -> u64 {
        self.shared.told.get()
    }

    /// The job is at this step.
    pub fn set_step(&self, step: u64) {
        self.shared.step.set(step);
    }
}
