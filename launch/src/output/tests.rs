//! Streams of ranks that die while lines wait for their events.

use super::*;
use rustix::pipe::{PipeFlags, pipe_with};

/// A rank's standard output over its lives, played by the test.
struct Rank {
    output: Output,
    pipe: OwnedFd,
    /// The rank's side of its output gate, and the launcher's.
    page: OutputGate,
    gate: OutputGate,
    events: u64,
    out: Vec<u8>,
}

fn pages() -> (OutputGate, OutputGate) {
    let (page, file) = OutputGate::create().unwrap();
    let gate = OutputGate::open(&file).unwrap();
    (page, gate)
}

impl Rank {
    fn new() -> Self {
        let (page, gate) = pages();
        let mut output = Output::both(None, true).remove(0);
        let (read, pipe) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        output.source = Source::Pipe(read);
        Self {
            output,
            pipe,
            page,
            gate,
            events: 0,
            out: Vec::new(),
        }
    }

    /// An event happens, then the rank prints.
    fn print(&mut self, text: &str) {
        self.page.note_event();
        self.events += 1;
        rustix::io::write(&self.pipe, text.as_bytes()).unwrap();
        while self.output.read(Some(&self.gate), &mut self.out) {}
    }

    /// `events` events of this life are stable.
    fn stable(&mut self, events: u64) {
        self.page.note_stable(events);
        self.output.release(&self.gate, &mut self.out);
    }

    fn mark(&mut self, checkpoint: u64) {
        self.output
            .mark(checkpoint, Some(&self.gate), &mut self.out);
    }

    /// The life is killed, and the next one begins with a checkpoint.
    fn die_and_begin(&mut self, checkpoint: u64) {
        self.output.end_life(Some(&self.gate), &mut self.out);
        (self.page, self.gate) = pages();
        self.events = 0;
        let (read, pipe) = pipe_with(PipeFlags::NONBLOCK).unwrap();
        (self.output.source, self.pipe) = (Source::Pipe(read), pipe);
        // The lines of the earlier life do not depend on events of this life.
        self.stable(u64::MAX);
        self.page.note_stable(0);
        let gate = Some(&self.gate);
        self.output.begin(checkpoint, gate, &mut self.out).unwrap();
    }

    fn taken(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.out)).unwrap()
    }
}

// GATE-1
#[test]
fn what_a_dead_life_printed_goes_only_if_its_events_were_stable() {
    let mut rank = Rank::new();
    rank.print("a\n");
    rank.stable(1);
    rank.print("b\n");
    rank.print("c\n");
    assert_eq!(rank.taken(), "a\n");
    rank.page.note_stable(2); // not read since
    rank.die_and_begin(0);
    assert_eq!(rank.taken(), "b\n");
    rank.print("a\nb\n");
    rank.print("another\n");
    assert_eq!(rank.taken(), "", "held back in this life, too");
    rank.stable(2);
    assert_eq!(rank.taken(), "another\n");
    assert!(!rank.output.take_difference());
}

// GATE-1
#[test]
fn what_lies_before_a_checkpoint_needs_no_event_any_more() {
    let mut rank = Rank::new();
    rank.print("a\n");
    rank.print("b");
    rank.mark(1);
    rank.print("ye\nc\n");
    assert_eq!(rank.taken(), "");
    rank.die_and_begin(1);
    assert_eq!(rank.taken(), "a\n", "the next life does not print it");
    rank.print("ye\nother\n");
    rank.stable(1);
    assert_eq!(rank.taken(), "bye\nother\n");
    assert!(!rank.output.is_gated());
}
