//! Bytes of batches, as the real cores encode them: two ranks with real recorders and holdings
//! exchange the events of some iterations.

use super::model::Bytes;
use refrain_logging::EventStore;
use refrain_logging::determinant::batch::BatchHeader;
use refrain_logging::determinant::recorder::Identity;
use refrain_logging::determinant::{EventIndex, Matched};
use refrain_logging::held::{Gives, Holdings, Tolerance};
use refrain_logging::pessimist::{Commits, Pessimist};
use refrain_ring::{Carriage, Clock, Incarnation, Rank, Ssn};
use std::collections::HashMap;

/// Events that are encoded; the bytes of longer batches are in proportion.
const ENCODED_MAX: u64 = 4096;
/// Iterations before the one that is measured: clocks and numbers are no longer small.
const ITERATIONS: u64 = 300;
const ITERATIONS_OF_MANY: u64 = 4;
/// Bytes of a piece of the control lane.
const PIECE_BYTES: usize = 40;

/// Measures each kind of batch once.
#[derive(Debug, Default)]
pub struct Encoder {
    known: HashMap<(u8, u64, u64, u64), f64>,
}

impl Bytes for Encoder {
    fn of(&mut self, events: EventStore, determinants: u64, peers: u64, ranks: u64) -> f64 {
        let kind = match events {
            EventStore::Nowhere => return 0.0,
            EventStore::Loggers => 0,
            EventStore::Ranks(Gives::AtCommit) => 1,
            EventStore::Ranks(Gives::WithMessages) => 2,
        };
        let encoded = determinants.min(ENCODED_MAX);
        let key = (kind, encoded, peers, ranks);
        let measure = || match events {
            EventStore::Ranks(gives) => at_ranks(gives, encoded, peers, ranks),
            _ => at_logger(encoded, peers, ranks),
        };
        let bytes = *self.known.entry(key).or_insert_with(measure);
        bytes * determinants as f64 / encoded as f64
    }
}

const OWN: Rank = Rank(0);
const PEER: Rank = Rank(1);

fn identity(rank: Rank) -> Identity {
    Identity {
        job: 1,
        rank,
        incarnation: Incarnation(0),
    }
}

/// Records the events of one iteration: a message of each peer in turn, and commits them.
fn iterate<C: Commits>(
    events: &mut Pessimist<C>,
    iteration: u64,
    determinants: u64,
    (peers, ranks): (u64, u64),
) {
    let rounds = determinants.div_ceil(peers);
    for number in 0..determinants {
        // Receives are posted together, and end in the order of their sources.
        let first = iteration * (2 * determinants + 1) + 1;
        let source = Rank((number % peers * (ranks / peers)) as u32);
        let matched = Matched {
            request: Clock(first + number),
            source,
            ssn: Ssn(iteration * rounds + number / peers),
        };
        events
            .record()
            .matched(Clock(first + determinants), matched, false);
        events.commits_mut().matched(source);
    }
    let wanted = events.recorded();
    events.advance(wanted);
}

fn iterations(determinants: u64) -> u64 {
    match determinants {
        0..64 => ITERATIONS,
        _ => ITERATIONS_OF_MANY,
    }
}

/// A logger that confirms at once.
#[derive(Debug, Default)]
struct Logger {
    bytes: u64,
    end: EventIndex,
}

impl Commits for Logger {
    fn commit(&mut self, header: &BatchHeader, batch: &[u8]) {
        self.bytes += batch.len() as u64;
        self.end = header.end();
    }

    fn stable_end(&self) -> EventIndex {
        self.end
    }

    fn poll(&mut self) -> EventIndex {
        self.end
    }

    fn is_instant(&self) -> bool {
        true
    }
}

fn at_logger(determinants: u64, peers: u64, ranks: u64) -> f64 {
    let mut events = Pessimist::new(identity(OWN), EventIndex(0), Logger::default());
    let iterations = iterations(determinants);
    for iteration in 0..iterations {
        iterate(&mut events, iteration, determinants, (peers, ranks));
    }
    events.commits().bytes as f64 / iterations as f64
}

/// Two ranks: the first has all events, the second confirms them.
fn at_ranks(gives: Gives, determinants: u64, peers: u64, ranks: u64) -> f64 {
    let holdings = |rank| {
        Holdings::new(
            (gives, Tolerance::default()),
            (rank, Incarnation(0)),
            2,
            None,
        )
    };
    let mut events = Pessimist::new(identity(OWN), EventIndex(0), holdings(OWN));
    let mut peer = holdings(PEER);
    let iterations = iterations(determinants);
    for iteration in 0..iterations {
        iterate(&mut events, iteration, determinants, (peers, ranks));
        let mut carrier = Vec::new();
        let carriage = Carriage {
            to: PEER,
            life: Incarnation(0),
            // A chunk of the log holds many messages.
            may_be_first: iteration == 0,
            bytes_max: usize::MAX,
        };
        events.commits_mut().carry(carriage, &mut carrier);
        if !carrier.is_empty() {
            events.commits_mut().carried(PEER);
            let taken = peer.take_carried(OWN, &carrier);
            taken.expect("a carrier of the same encoder");
            peer.idle();
        }
        pass(events.commits_mut(), &mut peer, OWN);
        pass(&mut peer, events.commits_mut(), PEER);
        events.advance(0);
    }
    let (own, other) = (events.commits().counts(), peer.counts());
    let bytes = match gives {
        Gives::WithMessages => own.carried_bytes,
        Gives::AtCommit => own.told_bytes + other.told_bytes,
    };
    bytes as f64 / iterations as f64
}

/// All pieces of one rank arrive at the other.
fn pass(from: &mut Holdings, to: &mut Holdings, rank: Rank) {
    let mut piece = [0; PIECE_BYTES];
    while let Some((_, bytes)) = from.tell(&mut piece) {
        let heard = to.hear(rank, &piece[..bytes]);
        heard.expect("a piece of the same encoder");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_logging::Member;

    /// Bytes of one determinant in a batch of this many.
    fn per_determinant(member: Member, determinants: u64, encoder: &mut Encoder) -> f64 {
        encoder.of(member.events(), determinants, determinants, 1024) / determinants as f64
    }

    #[test]
    fn a_long_batch_takes_less_for_each_event_and_no_more_than_a_record() {
        let mut encoder = Encoder::default();
        for member in [Member::Pessimist, Member::Ticket, Member::Causal] {
            let one = per_determinant(member, 1, &mut encoder);
            let many = per_determinant(member, 64, &mut encoder);
            // What messages carry has no header that a batch shares.
            let is_less = many < one || member == Member::Causal;
            assert!(is_less, "{}: {many} and {one}", member.name());
            assert!((0.5..100.0).contains(&one) && (0.5..16.0).contains(&many));
        }
    }

    #[test]
    fn longer_ones_are_in_proportion_and_everything_is_confirmed() {
        let mut encoder = Encoder::default();
        let store = Member::Causal.events();
        let (one, ten) = (ENCODED_MAX, 10 * ENCODED_MAX);
        let (one, ten) = (encoder.of(store, one, 6, 64), encoder.of(store, ten, 6, 64));
        assert_eq!(one * 10.0, ten);
        assert_eq!(encoder.of(EventStore::Nowhere, 5, 5, 64), 0.0);
    }
}
