//! Random programs: their events, recorded and taken at random moments, give the
//! batches of the model and the complete history.

use crate::batches::{IDENTITY, matched, take};
use crate::fixed_seed::cases;
use crate::model::Model;
use crate::story::{Event, Story};
use proptest::prelude::*;
use refrain_logging::determinant::batch::{COUNT_MAX, PAYLOAD_BYTES_MAX};
use refrain_logging::determinant::record::encode;
use refrain_logging::determinant::recorder::Recorder;
use refrain_logging::determinant::{Determinant, EventIndex};
use refrain_ring::{Clock, Rank, Ssn};

/// The next action of a program. Numbers choose among the possible ones.
#[derive(Clone, Copy, Debug)]
enum Step {
    Post(u8),
    Match { which: u16, source: u8 },
    Complete { which: u16, count: u16 },
    Probe { source: u8 },
    Cancel { which: u16 },
    Number { series: u8, value: i64 },
    Bytes { count: u16 },
    Nothing,
    Take { flush: bool, all: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..5u8).prop_map(Step::Post),
        8 => any::<(u16, u8)>().prop_map(|(which, source)| Step::Match { which, source }),
        6 => any::<u16>().prop_map(|which| Step::Complete { which, count: 1 }),
        2 => any::<(u16, u16)>()
            .prop_map(|(which, count)| Step::Complete { which, count: 1 + count % 5 }),
        1 => Just(Step::Complete { which: 0, count: 700 }),
        1 => any::<u8>().prop_map(|source| Step::Probe { source }),
        1 => any::<u16>().prop_map(|which| Step::Cancel { which }),
        3 => (0..16u8, 0..4000i64).prop_map(|(series, value)| Step::Number { series, value }),
        1 => (0..16u8, any::<i64>()).prop_map(|(series, value)| Step::Number { series, value }),
        1 => (1..=256u16).prop_map(|count| Step::Bytes { count }),
        4 => Just(Step::Nothing),
        2 => any::<(bool, bool)>().prop_map(|(flush, all)| Step::Take { flush, all }),
    ]
}

struct Run {
    recorder: Recorder,
    model: Model,
    story: Story,
    clock: u64,
    posted: Vec<u64>,
    matched: Vec<u64>,
    messages: u64,
}

impl Run {
    fn new(clock: u64) -> Self {
        Self {
            recorder: Recorder::new(IDENTITY, EventIndex(clock)),
            model: Model::default(),
            story: Story::default(),
            clock,
            posted: Vec::new(),
            matched: Vec::new(),
            messages: clock / 2,
        }
    }

    fn event(&mut self, event: Event) {
        match &event {
            Event::Matched {
                at,
                matched,
                is_named,
            } => {
                self.recorder.matched(*at, *matched, *is_named);
            }
            Event::Probed { at, source, ssn } => {
                self.recorder.probed(*at, *source, *ssn, 3, ssn.0);
            }
            Event::Completed { at, requests } => self.recorder.completed(*at, requests),
            Event::Cancelled { at, request } => self.recorder.cancelled(*at, *request),
            Event::Number { at, series, value } => self.recorder.number(*at, *series, *value),
            Event::Bytes { at, bytes } => self.recorder.bytes(*at, bytes),
            Event::Nothing { at } => self.recorder.nothing(*at),
        }
        self.model.event(&event);
        self.story.event(event);
    }

    fn step(&mut self, step: Step) {
        // Progress, which causes matches, can continue within an operation.
        let is_operation = !matches!(step, Step::Match { .. } | Step::Take { .. });
        self.clock += u64::from(is_operation);
        let at = Clock(self.clock);
        match step {
            Step::Post(count) => {
                for _ in 0..count {
                    self.posted.push(self.clock);
                    self.clock += 1;
                }
            }
            Step::Match { which, source } if !self.posted.is_empty() => {
                let request = self.posted.swap_remove(which as usize % self.posted.len());
                self.matched.push(request);
                self.messages += 1;
                let matched = matched(request, source.into(), self.messages);
                let is_named = source % 16 == 0;
                self.event(Event::Matched {
                    at,
                    matched,
                    is_named,
                });
            }
            Step::Match { .. } => {}
            Step::Complete { which, count } => {
                let mut requests = Vec::new();
                for _ in 0..count {
                    // Requests that were not matched here: sends, for instance.
                    requests.push(Clock(if self.matched.is_empty() {
                        self.clock.wrapping_sub(which.into())
                    } else {
                        self.matched
                            .swap_remove(which as usize % self.matched.len())
                    }));
                }
                self.event(Event::Completed { at, requests });
            }
            Step::Probe { source } => {
                let (source, ssn) = (Rank(source.into()), Ssn(self.clock));
                self.event(Event::Probed { at, source, ssn });
            }
            Step::Cancel { which } if !self.posted.is_empty() => {
                let request = self.posted.swap_remove(which as usize % self.posted.len());
                let request = Clock(request);
                self.event(Event::Cancelled { at, request });
            }
            Step::Cancel { .. } => {}
            Step::Number { series, value } => self.event(Event::Number { at, series, value }),
            Step::Bytes { count } => {
                let bytes = (0..count).map(|n| (self.clock as u8).wrapping_add(n as u8));
                let bytes = bytes.collect();
                self.event(Event::Bytes { at, bytes });
            }
            Step::Nothing => self.event(Event::Nothing { at }),
            Step::Take { flush, all } => while self.take(flush) && all {},
        }
    }

    /// One batch: as many determinants of the model as fit.
    fn take(&mut self, flush: bool) -> bool {
        let expected = self.model.takeable(flush);
        let Some((_, row)) = take(&mut self.recorder, flush) else {
            assert_eq!(expected, []);
            return false;
        };
        assert_eq!(row, expected[..row.len()]);
        assert!(
            row.len() == expected.len()
                || row.len() == usize::from(COUNT_MAX)
                || encode(&expected[..=row.len()]).len() > PAYLOAD_BYTES_MAX,
            "a batch of {} has room for one more",
            row.len()
        );
        self.model.taken(&row);
        let is_all = flush && !self.recorder.has_pending(true);
        self.story.batch(&row, is_all);
        true
    }

    fn assert_counts(&self) {
        let counts = self.recorder.counts();
        let told = self.story.told();
        let of = |kind: fn(&Determinant) -> bool| told.iter().filter(|&it| kind(it)).count() as u64;
        assert_eq!(
            counts.matches,
            of(|it| matches!(it, Determinant::Match(it) if !it.is_completed))
        );
        assert_eq!(
            counts.merged,
            of(|it| matches!(it, Determinant::Match(it) if it.is_completed))
        );
        assert_eq!(
            counts.probes,
            of(|it| matches!(it, Determinant::Probe { .. }))
        );
        assert_eq!(
            counts.completions,
            of(|it| matches!(it, Determinant::Completion { .. }))
        );
        assert_eq!(
            counts.cancelled,
            of(|it| matches!(it, Determinant::Cancelled { .. }))
        );
        assert_eq!(
            counts.given,
            of(|it| matches!(it, Determinant::Number { .. } | Determinant::Bytes { .. }))
        );
        assert_eq!(
            counts.nothing,
            of(|it| matches!(it, Determinant::Nothing { .. }))
        );
        assert_eq!(counts.nothing_found, self.story.nothing_found());
    }
}

fn run(clock: u64, steps: &[Step]) {
    let mut run = Run::new(clock);
    for &step in steps {
        run.step(step);
    }
    while run.take(true) {}
    run.story.end();
    run.assert_counts();
}

/// First clocks, low enough that clocks do not overflow within the test.
fn begin() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(1000),
        Just((1u64 << 32) - 100),
        Just(u64::MAX - 100_000)
    ]
}

proptest! {
    #![proptest_config(cases(600))]

    #[test]
    fn a_program_s_story_is_told(
        begin in begin(),
        steps in prop::collection::vec(step(), 1..300),
    ) {
        run(begin, &steps);
    }
}

proptest! {
    #![proptest_config(cases(60))]

    /// Takes are rare: batches fill up, matches are many.
    #[test]
    fn a_program_that_is_seldom_taken(
        begin in begin(),
        steps in prop::collection::vec(
            step().prop_filter("no take", |step| !matches!(step, Step::Take { .. })),
            1..1500,
        ),
        every in 100..1500usize,
    ) {
        let mut all = Vec::new();
        for part in steps.chunks(every) {
            all.extend(part);
            all.push(Step::Take { flush: false, all: false });
        }
        run(begin, &all);
    }
}
