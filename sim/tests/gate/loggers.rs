//! Simulated event loggers: the real acceptor behind messages that take their
//! time, in processes that die.

use super::Chance;
use refrain_eventlog::LoggerId;
use refrain_eventlog::acceptor::{Origin, Row, Step};
use refrain_eventlog::client::committer::Acknowledgement;
use refrain_logging::determinant::EventIndex;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_ring::{Clock, Incarnation, Rank};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// What becomes of a logger.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Its process dies; its files stay.
    Kill,
    /// Its host is lost: what comes back has nothing.
    KillAndForget,
    /// It starts again.
    Restart,
}

/// What a logger tells a client.
#[derive(Debug)]
pub enum Word {
    Welcome { end: EventIndex, clock: Clock },
    Stable(Acknowledgement),
    Lost,
}

#[derive(Debug)]
enum Ask {
    Hello { rank: usize, first_kept: EventIndex },
    Commit { rank: usize, batch: Vec<u8> },
}

#[derive(Debug)]
struct Logger {
    lives: bool,
    /// By rank.
    rows: Vec<Row>,
    /// By rank: the highest clock that its row ever had.
    reached: Vec<Clock>,
    /// What every batch was, for those who catch up.
    batches: Vec<Vec<Vec<u8>>>,
    /// Ranks that are connected.
    clients: Vec<bool>,
    asked: VecDeque<Ask>,
}

#[derive(Debug)]
struct State {
    loggers: Vec<Logger>,
    /// By replica and rank.
    words: Vec<Vec<VecDeque<Word>>>,
}

/// All loggers of one shard; clones are handles to the same.
#[derive(Clone)]
pub struct Loggers {
    state: Rc<RefCell<State>>,
    chance: Rc<RefCell<Chance>>,
}

impl Loggers {
    pub fn new(ranks: u32, replicas: usize, seed: u64) -> Self {
        let ranks = ranks as usize;
        let logger = |_| Logger {
            lives: true,
            rows: vec![Row::default(); ranks],
            reached: vec![Clock(0); ranks],
            batches: vec![Vec::new(); ranks],
            clients: vec![false; ranks],
            asked: VecDeque::new(),
        };
        let words = |_| (0..ranks).map(|_| VecDeque::new()).collect();
        Self {
            state: Rc::new(RefCell::new(State {
                loggers: (0..replicas).map(logger).collect(),
                words: (0..replicas).map(words).collect(),
            })),
            chance: Rc::new(RefCell::new(Chance::new(seed))),
        }
    }

    /// How many have, or had before their host was lost, a rank's determinants up
    /// to this clock: what was stable then may be lost once, which is what
    /// replicas are for.
    pub fn holding(&self, rank: usize, clock: Clock) -> usize {
        let state = self.state.borrow();
        let holds = |logger: &&Logger| logger.reached[rank] >= clock;
        state.loggers.iter().filter(holds).count()
    }

    /// Lets something happen to one; whether it did. As many as make a quorum
    /// superfluous keep what they have: more is not promised.
    pub fn fault(&self, replica: usize, fault: Fault, quorum: usize) -> bool {
        let mut state = self.state.borrow_mut();
        let State { loggers, words } = &mut *state;
        let replicas = loggers.len();
        let lives = loggers[replica].lives;
        match fault {
            Fault::Restart if !lives => loggers[replica].lives = true,
            Fault::Kill | Fault::KillAndForget if lives => {
                let logger = &mut loggers[replica];
                logger.lives = false;
                logger.asked.clear();
                for (rank, client) in logger.clients.iter_mut().enumerate() {
                    if std::mem::take(client) {
                        words[replica][rank].push_back(Word::Lost);
                    }
                }
            }
            _ => return false,
        }
        let mut forgets = matches!(fault, Fault::KillAndForget);
        // Only one host of the shard is lost, and only if the others' quorums
        // outlive it.
        forgets &= replica == 0 && quorum >= 2 && replicas > 1;
        if forgets {
            // Not before the others have caught up: one loss at a time.
            let all_equal = (0..loggers[0].rows.len()).all(|rank| {
                let end = loggers[0].rows[rank].end;
                loggers.iter().all(|logger| logger.rows[rank].end >= end)
            });
            if all_equal {
                let ranks = loggers[0].rows.len();
                loggers[0].rows = vec![Row::default(); ranks];
                loggers[0].batches = vec![Vec::new(); ranks];
            }
        }
        true
    }

    /// All live from now on.
    pub fn heal(&self) {
        for logger in &mut self.state.borrow_mut().loggers {
            logger.lives = true;
        }
    }

    /// A client asks to join; nobody answers for the dead.
    pub fn hello(&self, replica: usize, rank: usize, first_kept: EventIndex) -> bool {
        let logger = &mut self.state.borrow_mut().loggers[replica];
        if !logger.lives {
            return false;
        }
        logger.clients[rank] = true;
        logger.asked.push_back(Ask::Hello { rank, first_kept });
        true
    }

    pub fn commit(&self, replica: usize, rank: usize, batch: &[u8]) {
        let logger = &mut self.state.borrow_mut().loggers[replica];
        if logger.lives && logger.clients[rank] {
            let batch = batch.to_vec();
            logger.asked.push_back(Ask::Commit { rank, batch });
        }
    }

    /// What a logger has told a client, if it has arrived.
    pub fn hear(&self, replica: usize, rank: usize) -> Option<Word> {
        self.state.borrow_mut().words[replica][rank].pop_front()
    }

    /// Some loggers do some of what they were asked.
    pub fn step(&self) {
        let mut chance = self.chance.borrow_mut();
        let mut state = self.state.borrow_mut();
        for replica in 0..state.loggers.len() {
            while !chance.one_in(3) {
                let Some(ask) = state.loggers[replica].asked.pop_front() else {
                    break;
                };
                state.answer(replica, ask);
            }
        }
    }
}

impl State {
    fn answer(&mut self, replica: usize, ask: Ask) {
        match ask {
            Ask::Hello { rank, first_kept } => {
                if self.loggers[replica].rows[rank].end < first_kept {
                    self.catch_up(replica, rank);
                }
                let row = &mut self.loggers[replica].rows[rank];
                row.hello(Rank(rank as u32), Incarnation(0))
                    .expect("the first life");
                if row.end < first_kept {
                    // Nobody who lives could help: not yet.
                    self.loggers[replica]
                        .asked
                        .push_back(Ask::Hello { rank, first_kept });
                    return;
                }
                let (end, clock) = (row.end, row.last_clock);
                self.words[replica][rank].push_back(Word::Welcome { end, clock });
            }
            Ask::Commit { rank, batch } => {
                self.loggers[replica].accept(rank, &batch, Origin::Writer);
                let row = &self.loggers[replica].rows[rank];
                self.words[replica][rank].push_back(Word::Stable(Acknowledgement {
                    logger: LoggerId(replica as u32),
                    rank: Rank(rank as u32),
                    incarnation: Incarnation(0),
                    clock: row.last_clock,
                    end: row.end,
                }));
            }
        }
    }

    /// From whoever lives and has more.
    fn catch_up(&mut self, replica: usize, rank: usize) {
        let more = self.loggers.iter().filter(|logger| logger.lives);
        let longest = more.max_by_key(|logger| logger.rows[rank].end);
        let batches = longest.map(|logger| logger.batches[rank].clone());
        for batch in batches.unwrap_or_default() {
            self.loggers[replica].accept(rank, &batch, Origin::Replica);
        }
    }
}

impl Logger {
    fn accept(&mut self, rank: usize, batch: &[u8], origin: Origin) {
        let (header, _) = BatchHeader::read(batch).expect("nobody damages batches here");
        match self.rows[rank].judge(&header, origin) {
            Ok(Step::Take) => {
                self.rows[rank].take(&header);
                self.reached[rank] = self.reached[rank].max(header.last_clock);
                self.batches[rank].push(batch.to_vec());
            }
            Ok(Step::Known) => {}
            other => panic!("rank {rank}: {other:?} for {header:?}"),
        }
    }
}
