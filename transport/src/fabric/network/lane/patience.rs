//! When to ask a silent peer, and when to give it up.
//!
//! Providers differ in what they report of a dead peer: shm reports nothing, `net` and `tcp` refuse
//! all sends with `-FI_EAGAIN`, `ofi_rxm` reports `ENOTCONN` after the first send. So the lane has
//! timers of its own: it asks a peer that does not acknowledge, tries again after an error, and
//! gives a peer up when errors last. It gives a peer up for silence only if a limit is set: a rank
//! that computes is silent, too.

#[cfg(test)]
mod tests;

use core::time::Duration;

const ASK_FIRST: Duration = Duration::from_millis(200);
const ASK_LAST: Duration = Duration::from_secs(60);
const RETRY_FIRST: Duration = Duration::from_millis(10);
const RETRY_LAST: Duration = Duration::from_secs(1);

/// The next action towards a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// No action.
    Nothing,
    /// Ask the peer which frames it has taken.
    Ask,
    /// Send unacknowledged frames again: the error is old enough for a retry.
    Resend,
    /// The peer is lost: its provider has reported errors for this time.
    Lost(Duration),
    /// The peer has been silent for this time.
    Silent(Duration),
}

/// The timers of one peer. All times count from the same instant.
#[derive(Debug)]
pub struct Patience {
    /// How long the provider may report errors until the peer is lost.
    lost_after: Duration,
    /// How long the peer may be silent; `None`: without limit.
    suspect_after: Option<Duration>,
    /// When the peer is asked next, while something is unanswered.
    ask_at: Option<Duration>,
    ask_interval: Duration,
    /// Since when the peer is silent, while something is unanswered.
    silent_since: Option<Duration>,
    trouble: Option<Trouble>,
}

#[derive(Clone, Copy, Debug)]
struct Trouble {
    since: Duration,
    retry_at: Duration,
    interval: Duration,
    /// Whether transmission was tried again, without an outcome yet.
    retried: bool,
    /// Whether an operation was begun since then that the provider will complete.
    proves: bool,
    /// When transmission was tried last.
    tried_at: Option<Duration>,
}

impl Patience {
    /// Creates the timers for a new peer.
    pub fn new(lost_after: Duration, suspect_after: Option<Duration>) -> Self {
        Self {
            lost_after,
            suspect_after,
            ask_at: None,
            ask_interval: ASK_FIRST,
            silent_since: None,
            trouble: None,
        }
    }

    /// Notes a message of the peer: the peer is alive. `has_news`: the message acknowledges frames.
    #[inline]
    pub fn heard(&mut self, has_news: bool) {
        self.silent_since = None;
        self.trouble = None;
        if has_news {
            self.ask_at = None;
            self.ask_interval = ASK_FIRST;
        }
    }

    /// Notes that the provider reports an error about the peer. Errors of transmissions from before
    /// the last retry change nothing.
    pub fn failed(&mut self, now: Duration) {
        match &mut self.trouble {
            None => {
                self.trouble = Some(Trouble {
                    since: now,
                    retry_at: now + RETRY_FIRST,
                    interval: RETRY_FIRST,
                    retried: false,
                    proves: false,
                    tried_at: None,
                });
            }
            Some(trouble) if trouble.retried => {
                trouble.retried = false;
                trouble.interval = (trouble.interval * 2).min(RETRY_LAST);
                trouble.retry_at = now + trouble.interval;
            }
            Some(_) => {}
        }
    }

    /// Notes that an operation with the peer was begun that the provider will complete or fail.
    #[inline]
    pub fn begun(&mut self) {
        if let Some(trouble) = &mut self.trouble {
            trouble.proves |= trouble.retried;
        }
    }

    /// Whether an operation has to be begun to show that the error is over: a retry is allowed, and
    /// no operation was begun since then.
    #[inline]
    pub fn wants_proof(&self) -> bool {
        self.trouble
            .is_some_and(|trouble| trouble.retried && !trouble.proves)
    }

    /// Notes that a send to the peer or a read from it succeeded. If that was a retry after an
    /// error, the error is over, even if the peer computes and sends nothing.
    #[inline]
    pub fn succeeded(&mut self) {
        if self.trouble.is_some_and(|trouble| trouble.retried) {
            self.trouble = None;
        }
    }

    /// Whether transmissions wait for the retry after an error.
    #[inline]
    pub fn holds_back(&self) -> bool {
        self.trouble.is_some_and(|trouble| !trouble.retried)
    }

    /// Whether the provider reports errors about the peer.
    #[inline]
    pub fn is_troubled(&self) -> bool {
        self.trouble.is_some()
    }

    /// Checks the timers. `unanswered`: the peer has not acknowledged all frames.
    pub fn step(&mut self, now: Duration, unanswered: bool) -> Step {
        if let Some(trouble) = &mut self.trouble {
            let lasts = now.saturating_sub(trouble.since);
            // The peer is not lost before a retry: this rank may have computed for that time.
            let had_a_chance = trouble
                .tried_at
                .is_some_and(|at| now.saturating_sub(at) >= RETRY_FIRST);
            if lasts >= self.lost_after && had_a_chance {
                return Step::Lost(lasts);
            }
            if !trouble.retried && now >= trouble.retry_at {
                trouble.retried = true;
                trouble.proves = false;
                trouble.tried_at = Some(now);
                return Step::Resend;
            }
        }
        if !unanswered {
            (self.ask_at, self.silent_since) = (None, None);
            self.ask_interval = ASK_FIRST;
            return Step::Nothing;
        }
        let silent = now.saturating_sub(*self.silent_since.get_or_insert(now));
        if self.suspect_after.is_some_and(|limit| silent >= limit) {
            return Step::Silent(silent);
        }
        let ask_at = *self.ask_at.get_or_insert(now + self.ask_interval);
        if now >= ask_at && !self.holds_back() {
            self.ask_interval = (self.ask_interval * 2).min(ASK_LAST);
            self.ask_at = Some(now + self.ask_interval);
            return Step::Ask;
        }
        Step::Nothing
    }

    /// When [`Patience::step`] has to be called next, at the latest.
    pub fn next_step_at(&self) -> Option<Duration> {
        let trouble = self.trouble.map(|trouble| {
            let lost_at = trouble.since + self.lost_after;
            let lost_at = trouble
                .tried_at
                .map_or(lost_at, |at| lost_at.max(at + RETRY_FIRST));
            if trouble.retried {
                lost_at
            } else {
                trouble.retry_at.min(lost_at)
            }
        });
        let silent = self.silent_since.zip(self.suspect_after);
        let silent = silent.map(|(since, limit)| since + limit);
        // A peer that is held back is not asked: the question would stay due.
        let ask = self.ask_at.filter(|_| !self.holds_back());
        trouble.into_iter().chain(ask).chain(silent).min()
    }
}
