//! Requests that are not complete yet, and all the ways to complete them.

use super::plan::{Completion, MessageId};
use super::run::{Execution, outcome};
use super::verify::Outcome;
use crate::workload::error::{WorkloadError, ensure};
use crate::workload::watchdog::Watchdog;
use refrain::{Request, Status};

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A message of this rank.
    Send(MessageId),
    /// A receive: index into the posts.
    Receive {
        /// Which one.
        post: usize,
        /// Whether it may end with an error.
        may_truncate: bool,
    },
    /// A receive for what never comes.
    Never {
        /// Which one.
        post: usize,
    },
}

/// A request that is not complete yet.
#[derive(Debug)]
pub struct Pending {
    /// It.
    pub request: Request,
    /// What it is for.
    pub owner: Owner,
}

impl Owner {
    fn is_receive(self) -> bool {
        matches!(self, Self::Receive { .. })
    }

    /// Whether it may be completed together with others: an error of one of
    /// them has no place in the result of such a call.
    fn is_sociable(self) -> bool {
        !matches!(
            self,
            Self::Receive {
                may_truncate: true,
                ..
            }
        )
    }
}

type Completed = Vec<(usize, Result<Status, refrain::Error>)>;

impl Execution<'_, '_, '_> {
    /// One test of some requests of any kind.
    pub(super) fn poke(&mut self, completion: Completion) -> Result<(), WorkloadError> {
        let chosen = self.choose(completion, |_| true);
        self.attempt(completion, &chosen).map(|_| ())
    }

    /// Completes at least one receive, if one is pending.
    pub(super) fn await_receives(&mut self, completion: Completion) -> Result<(), WorkloadError> {
        loop {
            let chosen = self.choose(completion, Owner::is_receive);
            let may_wait_for_none = chosen.is_empty();
            if self.attempt(completion, &chosen)? > 0 || may_wait_for_none {
                return Ok(());
            }
            std::thread::yield_now();
        }
    }

    /// Completes the requests from this place on.
    pub(super) fn complete_from(&mut self, place: usize) -> Result<(), WorkloadError> {
        while self.pending.len() > place {
            let completion = if self.prng.chance(2) {
                Completion::Wait
            } else {
                Completion::Test
            };
            if self.attempt(completion, &[self.pending.len() - 1])? == 0 {
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// Completes everything.
    pub(super) fn finish(&mut self, watchdog: &Watchdog) -> Result<(), WorkloadError> {
        for pending in &mut self.pending {
            if matches!(pending.owner, Owner::Never { .. }) {
                self.scope.cancel(&mut pending.request)?;
            }
        }
        let mut left = usize::MAX;
        while !self.pending.is_empty() {
            // Tests that complete nothing are no progress.
            if self.pending.len() < left {
                left = self.pending.len();
                watchdog.place(self.whereabouts());
            }
            let completion = self.prng.pick(&Completion::ALL);
            let chosen = self.choose(completion, |_| true);
            if self.attempt(completion, &chosen)? == 0 {
                std::thread::yield_now();
            }
        }
        self.check_null_requests()
    }

    /// With nothing to wait for, nothing waits.
    fn check_null_requests(&mut self) -> Result<(), WorkloadError> {
        let mut nulls = [Request::null(), Request::null()];
        ensure!(
            self.scope.wait_any(&mut nulls)?.is_none(),
            "wait_any completed a null request"
        );
        ensure!(
            self.scope.test_any(&mut nulls)?.is_none(),
            "test_any completed a null request"
        );
        ensure!(
            self.scope.wait_some(&mut nulls)?.is_empty(),
            "wait_some completed a null request"
        );
        ensure!(
            self.scope.test_some(&mut nulls)?.is_empty(),
            "test_some completed a null request"
        );
        Ok(())
    }

    /// Some of the pending requests, in any order, that one call may complete.
    fn choose(&mut self, completion: Completion, allowed: impl Fn(Owner) -> bool) -> Vec<usize> {
        let alone = matches!(completion, Completion::Wait | Completion::Test);
        let fits = |owner: Owner| allowed(owner) && (alone || owner.is_sociable());
        let mut chosen: Vec<usize> = (0..self.pending.len())
            .filter(|&at| fits(self.pending[at].owner))
            .collect();
        self.prng.shuffle(&mut chosen);
        let most = if alone { 1 } else { chosen.len() };
        if most > 0 {
            let keep = if alone || self.prng.chance(2) {
                most
            } else {
                self.prng.between(1, most)
            };
            chosen.truncate(keep);
        }
        chosen
    }

    /// One call for the chosen requests; returns how many it completed.
    fn attempt(
        &mut self,
        completion: Completion,
        chosen: &[usize],
    ) -> Result<usize, WorkloadError> {
        if chosen.is_empty() {
            return Ok(0);
        }
        let take = |at: &usize| std::mem::replace(&mut self.pending[*at].request, Request::null());
        let mut requests: Vec<Request> = chosen.iter().map(take).collect();
        let completed = self.call(completion, &mut requests)?;
        let mut done = vec![false; requests.len()];
        for (place, result) in &completed {
            ensure!(
                *place < done.len(),
                "{completion:?} completed request {place} of {}",
                done.len()
            );
            ensure!(
                !done[*place],
                "{completion:?} completed request {place} twice"
            );
            done[*place] = true;
            let owner = self.pending[chosen[*place]].owner;
            ensure!(
                !self.scope.is_active(&requests[*place]),
                "{completion:?} completed a request of {owner:?} and left it active"
            );
            ensure!(
                result.is_ok() || !owner.is_sociable(),
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
        let mut finished: Vec<usize> = (0..chosen.len())
            .filter(|&place| done[place])
            .map(|place| chosen[place])
            .collect();
        finished.sort_unstable();
        for at in finished.into_iter().rev() {
            self.pending.remove(at);
        }
        Ok(count)
    }

    fn call(
        &mut self,
        completion: Completion,
        requests: &mut [Request],
    ) -> Result<Completed, WorkloadError> {
        let completed: Vec<(usize, Status)> = match completion {
            Completion::Wait => return Ok(vec![(0, self.scope.wait(&mut requests[0]))]),
            Completion::Test => {
                return Ok(self
                    .scope
                    .test(&mut requests[0])
                    .transpose()
                    .map(|result| (0, result))
                    .into_iter()
                    .collect());
            }
            Completion::WaitAny => {
                let completed = self.scope.wait_any(requests)?;
                ensure!(
                    completed.is_some(),
                    "wait_any found nothing to wait for in {} requests",
                    requests.len()
                );
                completed.into_iter().collect()
            }
            Completion::TestAny => self.scope.test_any(requests)?.into_iter().collect(),
            Completion::WaitSome => {
                let completed = self.scope.wait_some(requests)?;
                ensure!(
                    !completed.is_empty(),
                    "wait_some completed none of {} requests",
                    requests.len()
                );
                completed
            }
            Completion::TestSome => self.scope.test_some(requests)?,
            Completion::WaitAll => {
                let statuses = self.scope.wait_all(requests)?;
                ensure!(
                    statuses.len() == requests.len(),
                    "wait_all: {} statuses",
                    statuses.len()
                );
                statuses.into_iter().enumerate().collect()
            }
            Completion::TestAll => {
                let statuses = self.scope.test_all(requests)?;
                let right = statuses
                    .as_ref()
                    .is_none_or(|statuses| statuses.len() == requests.len());
                ensure!(right, "test_all: not as many statuses as requests");
                statuses
                    .unwrap_or_default()
                    .into_iter()
                    .enumerate()
                    .collect()
            }
        };
        Ok(completed
            .into_iter()
            .map(|(place, status)| (place, Ok(status)))
            .collect())
    }

    /// Notes what became of a request.
    fn settle(
        &mut self,
        owner: Owner,
        result: Result<Status, refrain::Error>,
    ) -> Result<(), WorkloadError> {
        let outcome = outcome(result);
        match owner {
            Owner::Send(_) => {
                let outcome = outcome?;
                ensure!(
                    matches!(outcome, Outcome::Received { .. }),
                    "a send ended with {outcome:?}"
                );
            }
            Owner::Receive { post, .. } => self.posts[post].outcome = Some(outcome?),
            Owner::Never { post } => {
                let outcome = outcome?;
                ensure!(
                    outcome == Outcome::Cancelled,
                    "a receive for what nobody sends ended with {outcome:?}"
                );
                self.posts[post].outcome = Some(outcome);
            }
        }
        Ok(())
    }
}
