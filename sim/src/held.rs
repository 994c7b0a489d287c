//! Which rank holds which batches of others: the oracle's own account, made from the batches that
//! lives commit and from what holders have after each message. It asks no protocol what is stable.

use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::held::Batch;
use refrain_ring::{Clock, Incarnation, Rank};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashSet};
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
    /// What some rank has held at some time: its death does not count, because the owner gives the
    /// batch to another rank, and dies with it only where the job stops. TICKET-4
    held: HashSet<BatchId>,
    /// Batches with at most this clock need not be held any more.
    trimmed: Clock,
    /// Number of batches, from the first one on, that some rank has held at some time.
    reached: usize,
}

impl Account {
    fn settle(&mut self) {
        while let Some(batch) = self.row.get(self.reached)
            && (batch.last_clock <= self.trimmed || self.held.contains(batch))
        {
            self.reached += 1;
        }
    }
}

/// The accounts of all ranks. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct HeldLedger {
    accounts: Rc<RefCell<BTreeMap<Rank, Account>>>,
}

impl HeldLedger {
    fn change(&self, rank: Rank, change: impl FnOnce(&mut Account)) {
        let mut accounts = self.accounts.borrow_mut();
        let account = accounts.entry(rank).or_default();
        change(account);
        account.settle();
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
    pub fn holds<'a>(&self, of: Rank, batches: impl Iterator<Item = Batch<'a>>) {
        let held = batches.map(|batch| BatchId {
            incarnation: batch.incarnation,
            end: batch.end(),
            last_clock: batch.last_clock,
        });
        self.change(of, |account| {
            account.held.extend(held);
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

    /// The clock of the last determinant before which another rank has held all.
    pub fn reach(&self, rank: Rank) -> Option<Clock> {
        let accounts = self.accounts.borrow();
        let account = accounts.get(&rank)?;
        let last = account.row.get(account.reached.checked_sub(1)?)?;
        Some(last.last_clock)
    }
}
