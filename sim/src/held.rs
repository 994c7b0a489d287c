//! Which rank holds which batches of others: the oracle's own account, made from the batches that
//! lives commit and from what holders have after each message. It asks no protocol what is stable.

use crate::loggers::Loggers;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::held::{Batch, Tolerance};
use refrain_ring::{Clock, Incarnation, Rank};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// Identifies a batch of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct BatchId {
    incarnation: Incarnation,
    end: EventIndex,
    last_clock: Clock,
}

/// The account of one rank.
#[derive(Debug, Default)]
struct Account {
    /// The batches that its present life continues from and those that it committed, in order.
    row: Vec<BatchId>,
    life: Incarnation,
    /// By batch, the failure domains in which ranks have held it at some time: a death does not count,
    /// because the owner gives the batch to another rank, and more die at once only where the job stops.
    /// TICKET-4
    held: HashMap<BatchId, BTreeSet<u32>>,
    /// Batches with at most this clock need not be held any more.
    trimmed: Clock,
    /// Event loggers have the batches up to this one.
    logged: EventIndex,
    /// Number of batches, from the first one on, that enough ranks have held at some time.
    reached: usize,
}

impl Account {
    fn settle(&mut self, domains: usize) {
        while let Some(batch) = self.row.get(self.reached)
            && self.is_held(batch, domains, None)
        {
            self.reached += 1;
        }
    }

    /// Whether ranks in this many domains, other than `beside`, have held a batch, or it is trimmed.
    fn is_held(&self, batch: &BatchId, domains: usize, beside: Option<u32>) -> bool {
        let held = self.held.get(batch).into_iter().flatten();
        batch.last_clock <= self.trimmed
            || batch.end <= self.logged
            || held.filter(|domain| Some(**domain) != beside).count() >= domains
    }
}

/// The accounts of all ranks. Clones share them.
#[derive(Clone, Debug)]
pub struct HeldLedger {
    tolerance: Tolerance,
    /// Present where loggers have the events, too.
    loggers: Option<Loggers>,
    accounts: Rc<RefCell<BTreeMap<Rank, Account>>>,
}

impl HeldLedger {
    /// The accounts of a job in which ranks hold events.
    pub fn new(tolerance: Tolerance, loggers: Option<Loggers>) -> Self {
        Self {
            tolerance,
            loggers,
            accounts: Rc::default(),
        }
    }

    /// The deaths at once that the job survives.
    pub fn tolerance(&self) -> &Tolerance {
        &self.tolerance
    }

    fn change(&self, rank: Rank, change: impl FnOnce(&mut Account)) {
        let mut accounts = self.accounts.borrow_mut();
        let account = accounts.entry(rank).or_default();
        if let Some(loggers) = &self.loggers {
            account.logged = loggers.reached_end(rank);
        }
        change(account);
        account.settle(self.tolerance.failures());
    }

    /// A life begins to commit a batch.
    pub fn committed(&self, header: &BatchHeader) {
        self.change(header.rank, |account| {
            // A life that was replaced goes on for a while.
            if account.life == header.incarnation {
                account.row.push(BatchId {
                    incarnation: header.incarnation,
                    end: header.end(),
                    last_clock: header.last_clock,
                });
            }
        });
    }

    /// Another rank holds these batches of a rank.
    pub fn holds<'a>(&self, by: Rank, of: Rank, batches: impl Iterator<Item = Batch<'a>>) {
        let held = batches.map(|batch| BatchId {
            incarnation: batch.incarnation,
            end: batch.end(),
            last_clock: batch.last_clock,
        });
        self.change(of, |account| {
            let domain = self.tolerance.domain(by);
            if domain != self.tolerance.domain(of) {
                held.for_each(|batch| _ = account.held.entry(batch).or_default().insert(domain));
            }
        });
    }

    /// A later life of a rank continues from the determinants before `start`. TICKET-3
    ///
    /// # Errors
    /// The violated rule.
    pub fn began(&self, rank: Rank, life: Incarnation, start: EventIndex) -> Result<(), String> {
        let mut lost = None;
        self.change(rank, |account| {
            account.life = life;
            account.row.retain(|batch| batch.end <= start);
            if account.row.len() < account.reached {
                lost = Some(account.reached - account.row.len());
                account.reached = account.row.len();
            }
        });
        match lost {
            None => Ok(()),
            Some(count) => Err(format!(
                "{life:?} of rank {rank} continues from determinant {start}: {count} batches that another rank held are lost"
            )),
        }
    }

    /// No restart asks for determinants with at most this clock any more. GC-1
    pub fn trimmed(&self, rank: Rank, clock: Clock) {
        self.change(rank, |account| account.trimmed = account.trimmed.max(clock));
    }

    /// The clock up to which no restart asks for determinants.
    pub fn trimmed_clock(&self, rank: Rank) -> Option<Clock> {
        let trimmed = self.accounts.borrow().get(&rank)?.trimmed;
        (trimmed > Clock(0)).then_some(trimmed)
    }

    /// The clock of the last determinant before which enough ranks have held all.
    pub fn reach(&self, rank: Rank) -> Option<Clock> {
        self.change(rank, |_| {});
        let accounts = self.accounts.borrow();
        let account = accounts.get(&rank)?;
        let last = account.row.get(account.reached.checked_sub(1)?)?;
        Some(last.last_clock)
    }

    /// Whether a message to `to` may carry the determinants up to `clock`: its receiver is the last holder
    /// that they need. CAUSAL-1
    pub fn may_carry(&self, from: Rank, to: Rank, clock: Clock) -> bool {
        self.change(from, |_| {});
        let others = self.tolerance.failures() - 1;
        let to = self.tolerance.domain(to);
        let accounts = self.accounts.borrow();
        let row = accounts.get(&from).map(|account| (account, &account.row));
        let is_held = |(account, row): (&Account, &Vec<BatchId>)| {
            let mut before = row.iter().take_while(|batch| batch.last_clock <= clock);
            before.all(|batch| account.is_held(batch, others, Some(to)))
        };
        to != self.tolerance.domain(from) && row.is_none_or(is_held)
    }
}
