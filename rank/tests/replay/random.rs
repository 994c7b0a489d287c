//! Random programs over random timing, cut behind every batch.

use crate::job::{Logs, Setting};
use crate::program::{Call, Program, Said};
use refrain_logging::Member;
use refrain_logging::determinant::Determinant;
use refrain_logging::determinant::told::Told;
use refrain_rank::past::Sends;
use refrain_ring::{Clock, Rank, Ssn};
use refrain_transport::past::{Compared, PastSends, SentAgain};

/// Rounds in which nothing moves: nothing ever will.
const QUIET_ROUNDS: u32 = 200;
/// Calls of a life.
const CALLS: usize = 120;

/// A life that is over.
struct Played {
    program: Program,
    batches: Vec<Vec<u8>>,
    logs: Logs,
    compared: u64,
}

/// What is left of the logs of a life that died before it came to an operation. GATE-1
#[derive(Debug)]
struct Left {
    sends: Sends,
    /// By rank.
    end: Vec<Ssn>,
}

impl PastSends for Left {
    fn has(&mut self, to: Rank, ssn: Ssn) -> bool {
        ssn < self.end[to.index()] && self.sends.has(to, ssn)
    }

    fn has_from(&mut self, to: Rank, ssn: Ssn) -> bool {
        ssn < self.end[to.index()] && self.sends.has_from(to, ssn)
    }

    fn compare(&mut self, sent: &SentAgain<'_>) -> Result<Compared, String> {
        self.sends.compare(sent)
    }
}

impl Played {
    /// What it leaves if it dies with no more than these of its batches.
    fn left(&self, batches: usize, ranks: u32) -> Left {
        let row = |batches| crate::job::Batches::of(batches).row();
        let stable = row(&self.batches[..batches]).len();
        let first_lost = row(&self.batches).get(stable).map(Determinant::at);
        let mut end = vec![Ssn(0); ranks as usize];
        for (clock, call, _) in &self.program.told {
            if let Call::Send { to, .. } = call
                && first_lost.is_none_or(|lost| *clock < lost)
            {
                end[*to as usize].0 += 1;
            }
        }
        Left {
            sends: self.logs.sends(),
            end,
        }
    }
}

/// A life, as far as it comes.
fn play(
    setting: &Setting,
    number: u32,
    timing: u64,
    batches: &[Vec<u8>],
    before: Option<&Played>,
) -> Played {
    let before = before.map(|before| {
        let left = before.left(batches.len(), setting.ranks);
        Box::new(left) as Box<dyn PastSends>
    });
    let mut life = setting.live_after(number, timing, batches, before);
    let mut program = Program::new(setting.seed, setting.ranks, timing);
    let mut quiet = 0;
    while quiet < QUIET_ROUNDS && program.told.len() < CALLS {
        let mut moved = life.round().unwrap_or_else(|error| {
            panic!(
                "{setting:?}, timing {timing}: {error}\n{:?}",
                program.told.last()
            )
        });
        while program.told.len() < CALLS
            && program
                .step(&mut life.engines[0])
                .unwrap_or_else(|error| panic!("{setting:?}, timing {timing}: {error}"))
        {
            moved = true;
            if life.engines[0].now().0.is_multiple_of(3) {
                break;
            }
        }
        quiet = if moved { 0 } else { quiet + 1 };
    }
    let has_past = !batches.is_empty();
    let statistics = life.engines[0].statistics();
    let compared = life.engines[0].comparison().messages;
    assert!(has_past || statistics.messages_replayed == 0);
    life.flush();
    assert_in_order(&program);
    Played {
        program,
        batches: life.batches.all(),
        logs: life.logs.clone(),
        compared,
    }
}

/// MPI-4.1, 3.5: a message does not overtake an earlier one of its source that
/// the same receive would have taken.
fn assert_in_order(program: &Program) {
    let sent_as = |payload: &[u8]| {
        let source = u32::from_le_bytes(payload[..4].try_into().unwrap());
        let ssn = u64::from_le_bytes(payload[4..12].try_into().unwrap());
        (source, ssn)
    };
    let all = program.got.iter().filter(|got| got.payload.len() >= 12);
    let all: Vec<_> = all.map(|got| (got, sent_as(&got.payload))).collect();
    for (later, (source, ssn)) in &all {
        for (other, (of, before)) in &all {
            let took = other.at > later.at && of == source && before < ssn;
            let both_tags = later.asked.tag.is_none() || later.asked.tag == other.asked.tag;
            assert!(
                !(took && both_tags),
                "message {before} of rank {source} went to {other:?}, {ssn} to {later:?}"
            );
        }
    }
}

fn assert_same(setting: &Setting, cut: usize, before: Clock, first: &Program, again: &Program) {
    let told = first.told.iter().filter(|(clock, ..)| *clock < before);
    for (at, told) in told.enumerate() {
        assert_eq!(
            again.told.get(at),
            Some(told),
            "{setting:?}, cut behind {cut} batches, told before {before}"
        );
    }
}

/// What has happened in all.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    batches: usize,
    news: usize,
    compared: u64,
}

/// The first life, then one behind each batch of it, then one behind that.
fn check(setting: &Setting) -> Totals {
    let first = play(setting, 0, setting.seed, &[], None);
    let batches = &first.batches;
    let mut totals = Totals {
        batches: batches.len(),
        ..Totals::default()
    };
    for cut in 0..=batches.len() {
        let told = told(&batches[..cut]);
        let timing = setting.seed * 1000 + cut as u64;
        let second = play(setting, 1, timing, &batches[..cut], Some(&first));
        assert_same(setting, cut, told.before(), &first.program, &second.program);
        let new = crate::job::Batches::of(&second.batches).row();
        let old = crate::job::Batches::of(&batches[..cut]).row();
        let new = &new[old.len()..];
        totals.news += new.len();
        totals.compared += second.compared;
        // Behind the last operation that is told matches are new.
        let last = told.before().0.saturating_sub(1);
        assert!(new.iter().all(|it| it.at().0 >= last));
        // What came after the records is recorded, as are they.
        if cut % 5 == 0 {
            let told = self::told(&second.batches);
            let third = play(setting, 2, timing + 500, &second.batches, Some(&second));
            assert_same(setting, cut, told.before(), &second.program, &third.program);
        }
    }
    totals
}

fn told(batches: &[Vec<u8>]) -> Told {
    Told::new(&crate::job::Batches::of(batches).row()).expect("they agree")
}

fn seeds() -> Vec<u64> {
    match std::env::var("REFRAIN_SEED") {
        Ok(seed) => vec![seed.parse().expect("REFRAIN_SEED is a number")],
        Err(_) => (1..=16).collect(),
    }
}

fn check_all(member: Member) {
    let mut totals = Totals::default();
    for seed in seeds() {
        let setting = Setting {
            seed,
            ranks: 4,
            messages: 25,
            member,
        };
        let of_seed = check(&setting);
        totals.batches += of_seed.batches;
        totals.news += of_seed.news;
        totals.compared += of_seed.compared;
    }
    println!("{totals:?}");
    assert!(
        totals.batches > 100 && totals.news > 100,
        "little has happened"
    );
    assert!(totals.compared > 100, "little was compared");
}

/// Whatever a call told, it tells again, wherever records end; and what comes
/// behind them is recorded.
// REC-4, REC-5
#[test]
fn a_life_tells_its_program_what_the_life_before_did() {
    check_all(Member::Pessimist);
}

/// The same where every reception is recorded.
// REC-4, REC-5
#[test]
fn the_same_where_every_reception_is_recorded() {
    check_all(Member::PessimistClassic);
}

/// The random programs do everything that depends on timing.
#[test]
fn every_kind_of_event_occurs() {
    let mut kinds = [0; 8];
    let mut vain = 0;
    for seed in 1..=32 {
        let setting = Setting {
            seed,
            ranks: 4,
            messages: 25,
            member: Member::Pessimist,
        };
        let played = play(&setting, 0, seed, &[], None);
        let (program, batches) = (played.program, played.batches);
        vain += program
            .told
            .iter()
            .filter(|(.., said)| *said == Said::Nothing)
            .count();
        for determinant in crate::job::Batches::of(&batches).row() {
            kinds[match determinant {
                Determinant::Match { .. } => 0,
                Determinant::MatchCompleted { .. } => 1,
                Determinant::Probe { .. } => 2,
                Determinant::Completion { .. } => 3,
                Determinant::Cancelled { .. } => 4,
                Determinant::Nothing { .. } => 5,
                Determinant::Number { .. } => 6,
                Determinant::Bytes { .. } => 7,
            }] += 1;
        }
    }
    println!("{kinds:?}, {vain} in vain");
    assert!(kinds.iter().all(|count| *count > 10), "{kinds:?}");
}
