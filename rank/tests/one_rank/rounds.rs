//! The rank's part in rounds of checkpoints of a correlated set.

use crate::pair::Ledger;
use refrain_logging::Member;
use refrain_rank::protocol::Logging;
use refrain_rank::round::{Fate, SetRounds};
use refrain_ring::{Incarnation, Rank};
use refrain_transport::engine::{Engine, EngineOptions};
use refrain_transport::fabric::Fabric;
use refrain_transport::fabric::sim::{Network, Options};

const LOG_BYTES: usize = 4 << 20;

type LoggedEngine = Engine<Logging<Ledger>>;

/// Two ranks in one set, each with its rounds; what is published of a checkpoint is a number.
struct Set {
    network: Network,
    engines: [LoggedEngine; 2],
    rounds: [SetRounds<u32>; 2],
}

impl Set {
    fn new() -> Self {
        let network = Network::new(Options::calm(1));
        let start = |rank| network.start(Rank(rank), Incarnation(0), LOG_BYTES);
        let mut ends = [0, 1].map(start);
        let addresses = [0, 1].map(|rank: usize| ends[rank].0.address());
        for (rank, (fabric, _)) in ends.iter_mut().enumerate() {
            let peer = 1 - rank;
            let connected = fabric.connect(Rank(peer as u32), Incarnation(0), &addresses[peer]);
            connected.expect("a peer that was started");
        }
        let mut ranks = (0..).map(Rank);
        let engines = ends.map(|(fabric, arena)| {
            let rank = ranks.next().expect("there are two");
            let options = EngineOptions {
                rank,
                incarnation: Incarnation(0),
                size: 2,
                window_bytes: LOG_BYTES as u64,
            };
            let protocol = Logging::new(Member::Pessimist, None, ());
            let engine = Engine::new(options, arena, Box::new(fabric), protocol);
            engine.with_set(vec![Rank(1 - rank.0)])
        });
        Self {
            network,
            engines,
            rounds: [SetRounds::default(), SetRounds::default()],
        }
    }

    /// The launcher begins a round, which all members keep.
    fn begin(&mut self, round: u64) {
        for (rounds, engine) in self.rounds.iter_mut().zip(&mut self.engines) {
            rounds.begin(round, engine);
            assert!(rounds.begins() && !rounds.may_take());
        }
        let mut keeping = [None; 2];
        for _ in 0..1000 {
            self.network.step();
            for (rank, engine) in self.engines.iter_mut().enumerate() {
                engine.progress().expect("nothing fails");
                let told = self.rounds[rank].next_keeping(engine);
                assert!(
                    told.is_none() || keeping[rank].is_none(),
                    "a rank hears once that all members keep their messages"
                );
                keeping[rank] = keeping[rank].or(told);
            }
        }
        assert_eq!(keeping, [Some(round); 2]);
        self.rounds.iter_mut().for_each(SetRounds::allow);
        assert!(self.rounds.iter().all(SetRounds::may_take));
    }
}

/// A checkpoint counts when its round is complete, and is void otherwise, also if its rank still writes
/// it when the round ends.
// SET-2 SET-4
#[test]
fn a_checkpoint_has_the_fate_of_its_round() {
    let mut set = Set::new();
    for (round, is_complete) in [(1, true), (2, false)] {
        set.begin(round);
        let (rounds, engine) = (&mut set.rounds[0], &mut set.engines[0]);
        rounds.take();
        assert!(!rounds.may_take());
        assert_eq!(rounds.taken(7, engine), None, "others have none yet");
        assert!(rounds.has_taken());
        assert_eq!(rounds.end(round + 5, true, engine), None, "another round");
        let fate = rounds.end(round, is_complete, engine);
        let expected = match is_complete {
            true => Fate::Complete(7),
            false => Fate::Void(7),
        };
        assert_eq!(fate, Some(expected));
        assert!(!rounds.is_open());

        let (rounds, engine) = (&mut set.rounds[1], &mut set.engines[1]);
        rounds.take();
        assert_eq!(
            rounds.end(round, false, engine),
            None,
            "its log is being read"
        );
        assert_eq!(rounds.taken(8, engine), Some(Fate::Void(8)));
    }
}

/// A rank whose log is full gives a round up, unless it has its checkpoint or takes it. The next round
/// is another one.
// SET-2 LOG-7
#[test]
fn a_round_can_be_given_up_before_the_checkpoint() {
    let mut set = Set::new();
    set.begin(1);
    let (rounds, engine) = (&mut set.rounds[0], &mut set.engines[0]);
    assert_eq!(rounds.give_up(engine), Some(1));
    assert!(!rounds.is_open() && !engine.is_round_begun());
    assert_eq!(rounds.give_up(engine), None);
    assert_eq!(rounds.end(1, false, engine), None);
    let (rounds, engine) = (&mut set.rounds[1], &mut set.engines[1]);
    rounds.take();
    assert_eq!(rounds.give_up(engine), None, "it is being written");
    rounds.failed();
    assert_eq!(rounds.give_up(engine), Some(1));
    set.begin(2);
    let (rounds, engine) = (&mut set.rounds[0], &mut set.engines[0]);
    rounds.take();
    assert_eq!(rounds.taken(9, engine), None);
    assert_eq!(rounds.give_up(engine), None, "it has its checkpoint");
    assert_eq!(rounds.end(2, true, engine), Some(Fate::Complete(9)));
}
