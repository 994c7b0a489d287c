//! A rank in the middle of a round: its requests, and all calls that complete them.

use super::buffers::SendBuffer;
use super::ledger::Ledger;
use super::plan::{Completion, MessageId, ReceiveManner, Round, Slot};
use super::verify::{Outcome, Post, outcome};
use crate::workload::error::{WorkloadError, ensure};
use crate::workload::prng::Prng;
use crate::workload::watchdog::Watchdog;
use refrain::{Error, Layout, Request, Scope, Status};
use std::sync::Arc;

/// Purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The send of a message of this rank.
    Send(MessageId),
    /// A receive: index into the posts.
    Receive(usize),
}

/// A request that is not complete yet.
#[derive(Debug)]
pub struct Pending {
    pub request: Request,
    pub owner: Owner,
}

/// State of a rank in the middle of a round.
pub(super) struct Execution<'x, 's, 'env> {
    pub(super) scope: &'x mut Scope<'s, 'env>,
    pub(super) round: &'x Round,
    pub(super) rank: u32,
    pub(super) prng: Prng,
    pub(super) outgoing: &'env [SendBuffer],
    pub(super) layouts: &'env [Option<Arc<Layout>>],
    /// The two buffers of each slot; `None`: lent to the library.
    pub(super) rooms: Vec<[Option<&'env mut [u8]>; 2]>,
    /// Posts, in order.
    pub(super) posts: Vec<Post>,
    pub(super) pending: Vec<Pending>,
    pub(super) ledger: &'x mut Ledger,
}

/// Positions of requests in a call, with their results.
type Completed = Vec<(usize, Result<Status, Error>)>;

impl Execution<'_, '_, '_> {
    /// The slot of a receive.
    fn slot(&self, owner: Owner) -> Option<&Slot> {
        match owner {
            Owner::Send(_) => None,
            Owner::Receive(post) => Some(&self.round.slots[self.posts[post].slot]),
        }
    }

    /// Whether this is a receive for a message that is never sent.
    fn is_never(&self, owner: Owner) -> bool {
        let slot = self.slot(owner);
        slot.is_some_and(|slot| slot.manner == ReceiveManner::CancelNever)
    }

    /// Whether the request may be completed together with others: the result of such a call cannot
    /// report an error of a single request.
    fn is_sociable(&self, owner: Owner) -> bool {
        self.slot(owner).is_none_or(|slot| !slot.may_truncate)
    }

    /// Tests some requests of any kind once.
    pub(super) fn poke(&mut self, completion: Completion) -> Result<(), WorkloadError> {
        let chosen = self.choose(completion, |_, _| true);
        self.attempt(completion, &chosen).map(|_| ())
    }

    /// Completes at least one receive, if one is pending.
    pub(super) fn await_receives(&mut self, completion: Completion) -> Result<(), WorkloadError> {
        loop {
            let chosen = self.choose(completion, |execution, owner| {
                execution.slot(owner).is_some() && !execution.is_never(owner)
            });
            if chosen.is_empty() || self.attempt(completion, &chosen)? > 0 {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    /// Completes the requests from this position on.
    pub(super) fn complete_from(&mut self, place: usize) -> Result<(), WorkloadError> {
        while self.pending.len() > place {
            let completion = match self.prng.chance(2) {
                true => Completion::Wait,
                false => Completion::Test,
            };
            if self.attempt(completion, &[self.pending.len() - 1])? == 0 {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Completes all requests.
    pub(super) fn finish(&mut self, watchdog: &Watchdog) -> Result<(), WorkloadError> {
        for at in 0..self.pending.len() {
            if self.is_never(self.pending[at].owner) {
                self.scope.cancel(&mut self.pending[at].request)?;
            }
        }
        let mut left = usize::MAX;
        while !self.pending.is_empty() {
            // A test that completes nothing is no progress.
            if self.pending.len() < left {
                left = self.pending.len();
                watchdog.place(self.whereabouts());
            }
            let completion = self.prng.pick(&Completion::ALL);
            let chosen = self.choose(completion, |_, _| true);
            if self.attempt(completion, &chosen)? == 0 {
                std::thread::yield_now();
            }
        }
        // Calls with null requests only must return at once.
        let nulls = || [Request::NULL; 2];
        let completed = [
            self.scope.wait_any(&mut nulls())?.is_some(),
            self.scope.test_any(&mut nulls())?.is_some(),
            !self.scope.wait_some(&mut nulls())?.is_empty(),
            !self.scope.test_some(&mut nulls())?.is_empty(),
        ];
        ensure!(
            completed == [false; 4],
            "wait_any, test_any, wait_some, test_some completed null requests: {completed:?}"
        );
        Ok(())
    }

    /// Description of the pending requests, for the watchdog.
    fn whereabouts(&self) -> String {
        let (number, rank) = (self.round.number, self.rank);
        let mut place = format!("round {number}, rank {rank}, its end, still pending:");
        for pending in self.pending.iter().take(10) {
            place += &match pending.owner {
                Owner::Send(id) => format!(" send {id} {:?};", self.round.messages[id]),
                Owner::Receive(post) => {
                    let slot = self.posts[post].slot;
                    format!(" receive {slot} {:?};", self.round.slots[slot])
                }
            };
        }
        place
    }

    /// Some of the pending requests, in any order, that one call may complete.
    fn choose(
        &mut self,
        completion: Completion,
        is_allowed: impl Fn(&Self, Owner) -> bool,
    ) -> Vec<usize> {
        let alone = matches!(completion, Completion::Wait | Completion::Test);
        let fits = |&at: &usize| {
            let owner = self.pending[at].owner;
            is_allowed(self, owner) && (alone || self.is_sociable(owner))
        };
        let mut chosen: Vec<usize> = (0..self.pending.len()).filter(fits).collect();
        self.prng.shuffle(&mut chosen);
        if alone {
            chosen.truncate(1);
        } else if !chosen.is_empty() && !self.prng.chance(2) {
            chosen.truncate(self.prng.between(1, chosen.len()));
        }
        chosen
    }

    /// Makes one call for the chosen requests; returns the number of requests that it completed.
    fn attempt(
        &mut self,
        completion: Completion,
        chosen: &[usize],
    ) -> Result<usize, WorkloadError> {
        if chosen.is_empty() {
            return Ok(0);
        }
        let mut requests: Vec<Request> =
            chosen.iter().map(|&at| self.pending[at].request).collect();
        let completed = self.call(completion, &mut requests)?;
        let mut done = vec![false; requests.len()];
        for (place, result) in &completed {
            ensure!(
                done.get(*place) == Some(&false),
                "{completion:?} completed request {place} of {} which does not exist or is complete",
                done.len()
            );
            done[*place] = true;
            let owner = self.pending[chosen[*place]].owner;
            ensure!(
                !self.scope.is_active(&requests[*place]),
                "{completion:?} completed a request of {owner:?} and left it active"
            );
            ensure!(
                result.is_ok() || !self.is_sociable(owner),
                "{completion:?} for {owner:?}: {result:?}"
            );
        }
        for (place, request) in requests.into_iter().enumerate() {
            ensure!(
                done[place] || self.scope.is_active(&request),
                "{completion:?} took away a request that is not complete"
            );
            self.pending[chosen[place]].request = request;
        }
        let count = completed.len();
        for (place, result) in completed {
            self.settle(self.pending[chosen[place]].owner, result)?;
        }
        let mut at = 0;
        self.pending.retain(|_| {
            let place = chosen.iter().position(|chosen| *chosen == at);
            at += 1;
            place.is_none_or(|place| !done[place])
        });
        Ok(count)
    }

    fn call(
        &mut self,
        completion: Completion,
        requests: &mut [Request],
    ) -> Result<Completed, WorkloadError> {
        let all = |statuses: Vec<Status>| statuses.into_iter().enumerate().collect();
        let scope = &mut *self.scope;
        let completed: Vec<(usize, Status)> = match completion {
            Completion::Wait => return Ok(vec![(0, scope.wait(&mut requests[0]))]),
            Completion::Test => {
                let result = scope.test(&mut requests[0]).transpose();
                return Ok(result.map(|result| (0, result)).into_iter().collect());
            }
            Completion::WaitAny => scope.wait_any(requests)?.into_iter().collect(),
            Completion::TestAny => scope.test_any(requests)?.into_iter().collect(),
            Completion::WaitSome => scope.wait_some(requests)?,
            Completion::TestSome => scope.test_some(requests)?,
            Completion::WaitAll => all(scope.wait_all(requests)?),
            Completion::TestAll => all(scope.test_all(requests)?.unwrap_or_default()),
        };
        let (done, count) = (completed.len(), requests.len());
        ensure!(
            done > 0 || Completion::TESTS.contains(&completion),
            "{completion:?} completed none of {count} requests"
        );
        let is_all = matches!(completion, Completion::WaitAll | Completion::TestAll);
        ensure!(
            !is_all || done == 0 || done == count,
            "{completion:?} returned {done} statuses of {count} requests"
        );
        let completed = completed.into_iter();
        Ok(completed
            .map(|(place, status)| (place, Ok(status)))
            .collect())
    }

    /// Checks and notes the outcome of a request.
    fn settle(&mut self, owner: Owner, result: Result<Status, Error>) -> Result<(), WorkloadError> {
        let outcome = outcome(result)?;
        let is_cancelled = outcome == Outcome::Cancelled;
        match owner {
            Owner::Send(_) => ensure!(!is_cancelled, "a send ended with {outcome:?}"),
            Owner::Receive(post) => {
                ensure!(
                    is_cancelled || !self.is_never(owner),
                    "a receive for a message that is never sent ended with {outcome:?}"
                );
                self.posts[post].outcome = Some(outcome);
            }
        }
        Ok(())
    }
}
