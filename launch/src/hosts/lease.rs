//! How long the ranks of a host may run without word from the launcher. Pure: times are those of a
//! clock that also counts while the machine or the process is suspended.
//!
//! The agent asks for each lease and counts it from its request; the launcher counts it from its
//! answer, which is later. So the launcher never takes a lease for over that is not. FENCE-2

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A host is lost at this look without a request: the looks before take the length of a lease.
pub const SILENT_LOOKS: u32 = 4;

/// Length of the leases of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaseLength(pub Duration);

impl LeaseLength {
    /// Time between two requests of an agent, and between two looks of the launcher.
    pub fn turn(self) -> Duration {
        self.0 / 3
    }

    /// Time for the end of a lease to take effect, also if the clocks of both hosts differ in speed.
    fn margin(self) -> Duration {
        self.0 / 4
    }
}

/// The lease of an agent, as the agent sees it.
#[derive(Debug)]
pub struct Lease {
    length: LeaseLength,
    asked_at: Duration,
    is_answered: bool,
    /// It has been granted once.
    has_begun: bool,
    ends_at: Duration,
}

impl Lease {
    /// An agent without a lease, which asks for its first one now.
    pub fn ask_first(length: LeaseLength, now: Duration) -> Self {
        Self {
            length,
            asked_at: now,
            is_answered: false,
            has_begun: false,
            ends_at: now,
        }
    }

    /// When to ask again; `None`: a request has no answer yet. So a launcher that is stopped does
    /// not find many.
    pub fn next_request(&self) -> Option<Duration> {
        let due = self.asked_at + self.length.turn();
        self.is_answered.then_some(due)
    }

    /// Whether to ask now; the request counts as sent.
    pub fn ask(&mut self, now: Duration) -> bool {
        let is_due = self.next_request().is_some_and(|due| due <= now);
        if is_due {
            (self.asked_at, self.is_answered) = (now, false);
        }
        is_due
    }

    /// The launcher has answered the request.
    pub fn granted(&mut self) {
        if !self.is_answered {
            (self.is_answered, self.has_begun) = (true, true);
            self.ends_at = self.asked_at + self.length.0;
        }
    }

    /// When the launcher was asked, if it has not answered, unless it is for the first lease.
    pub fn unanswered_since(&self) -> Option<Duration> {
        (self.has_begun && !self.is_answered).then_some(self.asked_at)
    }

    /// When the lease is over.
    pub fn ends_at(&self) -> Duration {
        self.ends_at
    }

    /// Whether ranks must not run.
    pub fn is_over(&self, now: Duration) -> bool {
        self.ends_at <= now
    }
}

/// The lease of an agent, as the launcher sees it.
#[derive(Clone, Copy, Debug)]
pub struct Grant {
    length: LeaseLength,
    granted_at: Duration,
    silent_looks: u32,
}

impl Grant {
    /// Answers the first request of an agent.
    pub fn first(length: LeaseLength, now: Duration) -> Self {
        Self {
            length,
            granted_at: now,
            silent_looks: 0,
        }
    }

    /// Answers a request.
    pub fn give(&mut self, now: Duration) {
        (self.granted_at, self.silent_looks) = (now, 0);
    }

    /// The launcher looks, once each [turn](LeaseLength::turn). `true`: the agent has been silent for
    /// too long. Looks are counted instead of time, since a launcher that was stopped hears its agents
    /// only after that.
    pub fn is_silent(&mut self) -> bool {
        self.silent_looks += 1;
        self.silent_looks >= SILENT_LOOKS
    }

    /// When the ranks of the host run no more, if it is given no further lease. FENCE-2
    pub fn is_fenced_at(&self) -> Duration {
        self.granted_at + self.length.0 + self.length.margin()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LENGTH: LeaseLength = LeaseLength(Duration::from_secs(12));

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_counts_from_its_request() {
        let mut lease = Lease::ask_first(LENGTH, at(100));
        assert!(lease.is_over(at(100)), "not granted yet");
        assert!(!lease.ask(at(200)), "one request at a time");
        lease.granted();
        assert_eq!(lease.ends_at(), at(112));
        assert_eq!(lease.next_request(), Some(at(104)));
        assert_eq!(lease.unanswered_since(), None);
        assert!(!lease.ask(at(103)) && lease.ask(at(104)));
        assert_eq!(lease.unanswered_since(), Some(at(104)));
        assert!(!lease.is_over(at(111)) && lease.is_over(at(112)));
        lease.granted();
        lease.granted();
        assert_eq!(lease.ends_at(), at(116), "one answer for each request");
    }

    #[test]
    fn a_host_is_silent_after_looks_and_not_after_time() {
        let mut grant = Grant::first(LENGTH, at(100));
        assert!((1..SILENT_LOOKS).all(|_| !grant.is_silent()));
        // The launcher was stopped for a day; the request was there when it woke.
        grant.give(at(86_500));
        assert!((1..SILENT_LOOKS).all(|_| !grant.is_silent()));
        assert!(grant.is_silent());
        assert_eq!(grant.is_fenced_at(), at(86_500 + 12 + 3));
    }

    /// A step of the agent, of the launcher or of the network.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// The agent runs: it asks, if a request is due.
        Agent,
        /// The oldest request arrives at the launcher, which answers it.
        Launcher,
        /// The oldest answer arrives at the agent.
        Answer,
        /// Time passes: for messages, or because either side is suspended.
        Pass(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Agent),
            Just(Step::Launcher),
            Just(Step::Answer),
            (1_u64..20_000).prop_map(Step::Pass),
        ]
    }

    proptest! {
        /// Whatever messages and processes do: when the launcher takes the host for fenced, the
        /// lease is over at the agent, also if its clock is slower by a tenth. FENCE-2
        #[test]
        fn no_lease_outlives_the_fence(
            steps in prop::collection::vec(step(), 1..200),
            boot in 0_u64..1_000_000,
            slowness in 0_u64..100,
        ) {
            let mut real_ms = 0;
            let agent_time = |real_ms: u64| Duration::from_millis(boot + real_ms - real_ms * slowness / 1000);
            let mut lease = Lease::ask_first(LENGTH, agent_time(0));
            let (mut requests, mut answers) = (1, 0);
            let mut grant = None::<Grant>;
            for step in steps {
                match step {
                    Step::Agent => requests += u32::from(lease.ask(agent_time(real_ms))),
                    Step::Launcher if requests > 0 => {
                        requests -= 1;
                        answers += 1;
                        let now = Duration::from_millis(real_ms);
                        grant.get_or_insert(Grant::first(LENGTH, now)).give(now);
                    }
                    Step::Answer if answers > 0 => {
                        answers -= 1;
                        lease.granted();
                    }
                    Step::Launcher | Step::Answer => {}
                    Step::Pass(ms) => real_ms += ms,
                }
                prop_assert!(requests + answers <= 1);
                let fenced_ms = grant.map_or(0, |it| it.is_fenced_at().as_millis() as u64);
                prop_assert!(lease.is_over(agent_time(fenced_ms)));
            }
        }

        /// Both live and messages take less than a turn: the lease does not end.
        #[test]
        fn a_lease_that_is_renewed_in_time_goes_on(delays in prop::collection::vec(0_u64..3_000, 1..100)) {
            let mut now = at(5);
            let mut lease = Lease::ask_first(LENGTH, now);
            lease.granted();
            for delay in delays {
                now = lease.next_request().unwrap_or(now);
                prop_assert!(lease.ask(now) && !lease.is_over(now));
                now += Duration::from_millis(delay);
                prop_assert!(!lease.is_over(now));
                lease.granted();
            }
        }
    }
}
