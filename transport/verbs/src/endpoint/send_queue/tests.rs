//! The queue against a model of a device: requests in order, completions only of requests that are
//! signalled or fail; each request after a failure fails.

use super::*;
use proptest::prelude::*;

/// An action of the test.
#[derive(Debug, Clone)]
enum Act {
    Send,
    Inject,
    Read,
    /// Posts two requests together.
    Placed,
    Mark,
    /// The device refuses the last of the following requests.
    Refuse,
    /// The device executes this number of requests.
    Execute(usize),
    /// The next request that the device executes fails, and all after it.
    Break,
    /// The program reads this number of completions.
    Poll(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => Just(Act::Send),
        4 => Just(Act::Inject),
        1 => Just(Act::Read),
        2 => Just(Act::Placed),
        1 => Just(Act::Mark),
        1 => Just(Act::Refuse),
        4 => (1..40_usize).prop_map(Act::Execute),
        1 => Just(Act::Break),
        4 => (1..10_usize).prop_map(Act::Poll),
    ]
}

/// A request in the model of the device.
#[derive(Debug, Clone, Copy)]
struct Posted {
    sequence: u32,
    token: u64,
    role: Role,
    is_signalled: bool,
}

struct Model {
    queue: SendQueue,
    room: usize,
    /// Requests that are not executed yet.
    posted: VecDeque<Posted>,
    /// Sequence number, and whether the request succeeded.
    completions: VecDeque<(u32, bool)>,
    is_broken: bool,
    /// Requests that were posted and whose end was not reported yet.
    open: VecDeque<Posted>,
    token: u64,
    /// Requests that failed in the device.
    failed: Vec<u32>,
}

impl Model {
    fn new(room: usize, first: u32) -> Self {
        let mut queue = SendQueue::new(room);
        queue.first = first;
        Self {
            queue,
            room,
            posted: VecDeque::new(),
            completions: VecDeque::new(),
            is_broken: false,
            open: VecDeque::new(),
            token: 0,
            failed: Vec::new(),
        }
    }

    fn begin(&mut self, role: Role, must_signal: bool) -> Option<Posted> {
        let place = self.queue.begin(role, self.token, 7, must_signal)?;
        let posted = Posted {
            sequence: place.sequence,
            token: self.token,
            role,
            is_signalled: place.is_signalled,
        };
        self.token += 1;
        Some(posted)
    }

    fn post(&mut self, posted: Posted) {
        assert!(posted.is_signalled || !must_be_signalled(posted.role));
        self.posted.push_back(posted);
        self.open.push_back(posted);
    }

    fn start(&mut self, role: Role, must_signal: bool) {
        let count = if role == Role::Half { 2 } else { 1 };
        if role != Role::Marker && !self.queue.has_room(count) {
            // Room will be free again: a request in a full queue is signalled.
            assert!(self.open.iter().any(|one| one.is_signalled) || count == 2);
            return;
        }
        let Some(first) = self.begin(role, must_signal) else {
            assert_eq!(role, Role::Marker);
            return;
        };
        self.post(first);
        if role == Role::Half {
            let second = self.begin(Role::Told(Kind::Write), true).unwrap();
            self.post(second);
        }
    }

    fn execute(&mut self, fails: bool) {
        self.is_broken |= fails && !self.posted.is_empty();
        let Some(posted) = self.posted.pop_front() else {
            return;
        };
        if self.is_broken {
            self.failed.push(posted.sequence);
        }
        if posted.is_signalled || self.is_broken {
            self.completions
                .push_back((posted.sequence, !self.is_broken));
        }
    }

    /// Reads one completion, and compares the reported requests with the model.
    fn poll(&mut self) {
        let Some((sequence, is_good)) = self.completions.pop_front() else {
            return;
        };
        let mut told = Vec::new();
        self.queue
            .end(sequence, |entry, is_last| told.push((entry, is_last)));
        assert!(told.last().unwrap().1);
        for (index, (entry, is_last)) in told.iter().enumerate() {
            let expected = self.open.pop_front().unwrap();
            assert_eq!((entry.role, entry.token), (expected.role, expected.token));
            assert_eq!(*is_last, index + 1 == told.len());
            let went_well = !is_last || is_good;
            assert_eq!(went_well, !self.failed.contains(&expected.sequence));
            assert_eq!(*is_last, expected.sequence == sequence);
        }
        // The same completion again, or an older one, reports nothing.
        let mut again = 0;
        self.queue.end(sequence, |_, _| again += 1);
        assert_eq!(again, 0);
    }

    fn check(&self) {
        let markers = |one: &&Posted| one.role == Role::Marker;
        let own = self.open.iter().filter(markers).count();
        assert_eq!(self.queue.len() + own, self.open.len());
        assert!(self.queue.len() <= self.room && own <= MARKERS_MAX);
        assert_eq!(self.queue.is_empty(), self.open.is_empty());
        let tail = || self.open.iter().rev().take_while(|one| !one.is_signalled);
        assert_eq!(self.queue.has_unsignalled(), tail().next().is_some());
        assert!(tail().count() < SIGNALLED_EVERY as usize);
        let awaited = tail().any(|one| matches!(one.role, Role::Told(_)));
        assert_eq!(self.queue.needs_marker(), awaited);
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Send => self.start(Role::Told(Kind::Send), false),
            Act::Inject => self.start(Role::Untold, false),
            Act::Read => self.start(Role::Told(Kind::Read), true),
            Act::Placed => self.start(Role::Half, false),
            Act::Mark => self.start(Role::Marker, true),
            Act::Refuse => {
                if self.begin(Role::Told(Kind::Send), false).is_some() {
                    self.queue.take_back();
                }
            }
            Act::Execute(count) => (0..*count).for_each(|_| self.execute(false)),
            Act::Break => self.execute(true),
            Act::Poll(count) => (0..*count).for_each(|_| self.poll()),
        }
        self.check();
    }
}

fn must_be_signalled(role: Role) -> bool {
    matches!(role, Role::Marker | Role::Told(Kind::Read | Kind::Write))
}

proptest! {
    /// With any sequence of posts, executions, failures and polls, each request is reported once,
    /// in order, as the device executed it; at the end all are reported, if a marker follows.
    #[test]
    fn every_request_is_told_of_once_and_rightly(
        room in 2_usize..140,
        first in prop_oneof![Just(0), Just(u32::MAX - 20), any::<u32>()],
        acts in prop::collection::vec(act(), 1..300),
    ) {
        let mut model = Model::new(room, first);
        for act in &acts {
            model.act(act);
        }
        // All requests are executed and polled; a marker reports the remaining ones.
        while !model.posted.is_empty() {
            model.execute(false);
        }
        while !model.completions.is_empty() {
            model.poll();
        }
        if model.queue.needs_marker() {
            model.start(Role::Marker, true);
            while !model.posted.is_empty() {
                model.execute(false);
            }
            while !model.completions.is_empty() {
                model.poll();
            }
        }
        prop_assert!(!model.queue.needs_marker());
        let awaited = model.open.iter().any(|one| matches!(one.role, Role::Told(_)));
        prop_assert!(!awaited, "{:?}", model.open);
        // Requests that are given up come out completely and in order.
        while let Some(entry) = model.queue.give_up() {
            prop_assert_eq!(entry.token, model.open.pop_front().unwrap().token);
        }
        prop_assert!(model.open.is_empty());
    }

    /// Completions of requests that are not in the queue change nothing.
    #[test]
    fn foreign_completions_say_nothing(
        sent in 0_usize..20,
        distance in 20_u32..u32::MAX - 20,
    ) {
        let mut queue = SendQueue::new(20);
        for token in 0..sent as u64 {
            queue.begin(Role::Untold, token, 0, false).unwrap();
        }
        queue.end(distance, |_, _| panic!("told"));
        prop_assert_eq!(queue.len(), sent);
    }
}

/// One request in 16, no more.
#[test]
fn one_of_sixteen_is_signalled() {
    let mut queue = SendQueue::new(128);
    let mut signalled = 0;
    for sequence in 0..1600 {
        let token = u64::from(sequence);
        let place = queue
            .begin(Role::Told(Kind::Send), token, 0, false)
            .unwrap();
        signalled += u32::from(place.is_signalled);
        if place.is_signalled {
            queue.end(place.sequence, |_, _| {});
        }
        assert_eq!(place.sequence, sequence);
    }
    assert_eq!(signalled, 100);
    assert!(queue.is_empty());
}
