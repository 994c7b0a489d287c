//! The operations that a call waits for or tests: those of the library behind the program's requests.

use crate::abi::Request;
use crate::exports as abi;
use crate::failure::{Failure, Result};
use crate::request::{Operation, Progress};
use crate::state::mpi;
use core::mem::take;
use refrain::{Ended, Handle};

/// The lists of the last call, empty, for the next one.
#[derive(Default)]
pub struct SpareLists {
    over: Vec<usize>,
    library: Vec<Handle>,
    places: Vec<(usize, u64)>,
    ended: Vec<Ended>,
}

impl SpareLists {
    pub const fn new() -> Self {
        Self {
            over: Vec::new(),
            library: Vec::new(),
            places: Vec::new(),
            ended: Vec::new(),
        }
    }
}

/// The active operations of a call.
pub struct Active {
    /// Places of requests that have ended.
    pub over: Vec<usize>,
    /// Operations of the library, and for each the place of its request and its number there.
    pub library: Vec<Handle>,
    pub places: Vec<(usize, u64)>,
    pub ended: Vec<Ended>,
    /// Some consist of several requests of the library, or are ended by the program.
    pub is_compound: bool,
    /// Some are ended by the program.
    is_programs: bool,
}

impl Active {
    pub fn of(requests: &[Request], waits: bool) -> Result<Self> {
        if mpi().cancels_sends.get() {
            complete_cancelled(requests, waits)?;
        }
        let spare = mpi().spare_lists.take();
        let mut active = Self {
            over: spare.over,
            library: spare.library,
            places: spare.places,
            ended: spare.ended,
            is_compound: false,
            is_programs: false,
        };
        let mut known = mpi().requests.borrow_mut();
        for (place, request) in requests.iter().enumerate() {
            let Some(entry) = known.active(*request)? else {
                continue;
            };
            match entry.progress() {
                Progress::Over => active.over.push(place),
                Progress::Pending(library) => {
                    active.places.push((place, 0));
                    active.library.push(library);
                }
                Progress::InParts(parts) => {
                    active.is_compound = true;
                    active.is_programs |= parts.is_empty();
                    for (number, library) in parts {
                        active.places.push((place, number));
                        active.library.push(library);
                    }
                }
                Progress::Program => (active.is_compound, active.is_programs) = (true, true),
            }
        }
        if active.places.len() > 1 {
            known.check(requests, &active.places)?;
        }
        active.ended.resize(active.library.len(), Ended::default());
        Ok(active)
    }

    pub fn is_empty(&self) -> bool {
        self.over.is_empty() && self.library.is_empty() && !self.is_programs
    }

    /// Whether all requests have ended.
    pub fn are_over(&self) -> bool {
        self.library.is_empty() && !self.is_programs
    }

    pub fn is_one_over(&self) -> bool {
        !self.over.is_empty() || self.is_empty()
    }

    /// Notes at their requests which requests of the library have ended.
    fn note(&self, requests: &[Request], ended: usize) -> Result {
        let mut known = mpi().requests.borrow_mut();
        let mut noted = Ok(());
        for ended in &self.ended[..ended] {
            let (place, number) = self.places[ended.index];
            let entry = known.get_mut(requests[place])?;
            match &mut entry.operation {
                // The library knows none of the others any more: they are noted, too.
                Operation::Parts(parts) => {
                    noted = noted.and(parts.note(number, ended, &mut *mpi().world()?));
                }
                _ => {
                    entry.rare_mut().over = Some(*ended);
                    entry.library_has_ended();
                }
            }
        }
        noted
    }

    /// For requests that are compound, or together with such: ends requests of the library until
    /// there are enough. A test gives up when none has ended.
    pub fn with_enough(
        requests: &[Request],
        is_enough: impl Fn(&Self) -> bool,
        waits: bool,
    ) -> Result<Self> {
        loop {
            let mut active = Self::of(requests, waits)?;
            if is_enough(&active) {
                return Ok(active);
            }
            let ended = match (active.library.is_empty(), waits) {
                (true, true) => {
                    return Err(Failure::new(
                        abi::ERR_PENDING,
                        "the call would wait for ever: only the program itself can complete these requests (MPI_Grequest_complete, MPI_Pready)",
                    ));
                }
                (true, false) => 0,
                (false, true) => {
                    let (library, ended) = (&mut active.library, &mut active.ended);
                    mpi().world()?.wait_some_held(library, ended)?
                }
                (false, false) => {
                    let (library, ended) = (&mut active.library, &mut active.ended);
                    mpi().world()?.test_some_held(library, ended)?
                }
            };
            if ended == 0 {
                return Ok(active);
            }
            active.note(requests, ended)?;
        }
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        self.over.clear();
        self.library.clear();
        self.places.clear();
        self.ended.clear();
        mpi().spare_lists.set(SpareLists {
            over: take(&mut self.over),
            library: take(&mut self.library),
            places: take(&mut self.places),
            ended: take(&mut self.ended),
        });
    }
}

/// Completes cancelled sends: those that the call waits for, and those that were tested often.
#[cold]
pub fn complete_cancelled(requests: &[Request], waits: bool) -> Result {
    let mut known = mpi().requests.borrow_mut();
    for request in requests {
        let Ok(entry) = known.get_mut(*request) else {
            continue;
        };
        let Some(left) = entry.rare().and_then(|it| it.tests_left) else {
            continue;
        };
        let left = left.checked_sub(1).filter(|_| !waits);
        entry.rare_mut().tests_left = left;
        if let (None, Operation::Library(library)) = (left, &mut entry.operation) {
            mpi().world()?.cancel_held(library);
        }
    }
    Ok(())
}
