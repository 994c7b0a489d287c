//! One output stream of one rank, over all its incarnations: the pipe of the running one,
//! and which lines may be passed on. With `--gate-output` lines wait until the events
//! before them are stable (GATE-1).

use super::printed::Lines;
use super::printed::{Position, Printed, SavedPosition};
use super::sink::Stream;
use refrain_job::output_gate::OutputGate;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;

/// Bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Maximum number of reads of what is left in a pipe: more than its largest capacity (1 MiB). Not
/// until its end: a process that has left the group may keep the pipe open, or fill it again and
/// again.
const DRAIN_READS: usize = 32;

/// Source of the output.
#[derive(Debug)]
enum Source {
    /// The stream has ended.
    None,
    Pipe(OwnedFd),
    /// Output that an agent sends.
    Relayed(Relayed),
}

/// Output that an agent has sent.
#[derive(Debug, Default)]
struct Relayed {
    waiting: VecDeque<u8>,
    read: usize,
}

impl Relayed {
    /// Reads as from an open pipe.
    fn read(&mut self, to: &mut [u8]) -> Result<usize, Errno> {
        // Reading from memory does not fail.
        let count = self.waiting.read(to).unwrap_or(0);
        self.read += count;
        if count > 0 {
            Ok(count)
        } else {
            Err(Errno::AGAIN)
        }
    }
}

/// One output stream of one rank.
#[derive(Debug)]
pub struct Output {
    /// The stream of the launcher that gets the lines.
    pub stream: Stream,
    source: Source,
    printed: Printed,
    /// Lines whose events are not stable.
    gated: GatedLines,
    /// Position up to which lines were passed on.
    handed_on: Position,
    /// A later life may end a line that this life did not end.
    has_later_lives: bool,
}

impl Output {
    /// Standard output and error of a rank, with `prefix` before each line.
    pub fn both(prefix: Option<String>, has_later_lives: bool) -> Vec<Self> {
        let of = |stream| Self {
            stream,
            source: Source::None,
            printed: Printed::new(Lines::new(prefix.clone())),
            gated: GatedLines::default(),
            handed_on: Position::default(),
            has_later_lives,
        };
        [Stream::Out, Stream::Err].map(of).into()
    }

    /// Takes the launcher's end of the pipe from a life that was started.
    ///
    /// # Errors
    /// Of the system.
    pub fn connect(&mut self, child: &mut Child) -> io::Result<()> {
        let pipe: Option<OwnedFd> = match self.stream {
            Stream::Out => child.stdout.take().map(Into::into),
            Stream::Err => child.stderr.take().map(Into::into),
        };
        if let Some(pipe) = &pipe {
            fcntl_setfl(pipe, fcntl_getfl(pipe)? | OFlags::NONBLOCK)?;
        }
        self.source = pipe.map_or(Source::None, Source::Pipe);
        Ok(())
    }

    /// Connects a life that an agent starts: its output arrives by [`pass_on`](Self::pass_on).
    pub fn connect_far(&mut self) {
        self.source = Source::Relayed(Relayed::default());
    }

    /// Adds output that an agent has sent.
    pub fn pass_on(&mut self, bytes: &[u8]) {
        if let Source::Relayed(relayed) = &mut self.source {
            relayed.waiting.extend(bytes);
        }
    }

    /// Number of bytes sent by an agent that were read since the last call.
    pub fn take_read(&mut self) -> usize {
        match &mut self.source {
            Source::Relayed(relayed) => std::mem::take(&mut relayed.read),
            _ => 0,
        }
    }

    /// Whether output that an agent has sent was not read yet.
    pub fn has_relayed(&self) -> bool {
        matches!(&self.source, Source::Relayed(relayed) if !relayed.waiting.is_empty())
    }

    /// The pipe, unless it has ended.
    pub fn pipe(&self) -> Option<BorrowedFd<'_>> {
        match &self.source {
            Source::Pipe(pipe) => Some(pipe.as_fd()),
            Source::None | Source::Relayed(_) => None,
        }
    }

    /// Reads once. New whole lines go to `out`, or are kept until the events that `gate` has
    /// recorded are stable (GATE-1). `false`: no output now, or the end.
    pub fn read(&mut self, gate: Option<&OutputGate>, out: &mut Vec<u8>) -> bool {
        let mut bytes = [0; READ_BYTES];
        let read = match &mut self.source {
            Source::None => return false,
            Source::Pipe(pipe) => rustix::io::read(pipe, &mut bytes),
            Source::Relayed(relayed) => relayed.read(&mut bytes),
        };
        match read {
            Err(Errno::AGAIN) => false,
            Err(Errno::INTR) => true,
            Ok(0) | Err(_) => {
                self.source = Source::None;
                if !self.has_later_lives {
                    self.pass(gate, out, Printed::finish);
                }
                false
            }
            Ok(read) => {
                self.pass(gate, out, |printed, out| printed.take(&bytes[..read], out));
                true
            }
        }
    }

    /// Reads all that is in the pipe.
    pub fn drain(&mut self, gate: Option<&OutputGate>, out: &mut Vec<u8>) {
        let _ = (0..DRAIN_READS).find(|_| !self.read(gate, out));
    }

    fn pass(
        &mut self,
        gate: Option<&OutputGate>,
        out: &mut Vec<u8>,
        cut: impl FnOnce(&mut Printed, &mut Vec<u8>),
    ) {
        let Some(gate) = gate else {
            cut(&mut self.printed, out);
            self.handed_on = self.printed.handed_out();
            return;
        };
        let mut lines = Vec::new();
        cut(&mut self.printed, &mut lines);
        // Counted after the read: at least the events on which the output can depend.
        let events = gate.recorded();
        if !lines.is_empty() && events > gate.stable() {
            gate.want(events);
        }
        self.gated.push(events, self.printed.handed_out(), lines);
    }

    /// Passes on the lines whose events are stable. GATE-1
    pub fn release(&mut self, gate: &OutputGate, out: &mut Vec<u8>) {
        // Lines of the earlier life wait until it is known where this life begins.
        if self.printed.has_begun() {
            let end = self.gated.release(gate.stable(), out);
            self.handed_on = end.unwrap_or(self.handed_on);
        }
    }

    /// Whether the output of this life waits for its events.
    pub fn is_gated(&self) -> bool {
        self.printed.has_begun() && !self.gated.is_empty()
    }

    /// What a rank has to do before its output can be passed on, if it has printed more than is
    /// kept.
    pub fn too_long_without(&self) -> Option<&'static str> {
        if self.printed.early_bytes() > GATED_BYTES_MAX {
            return Some(
                "reaching the end of its earlier incarnation: let it call World::init first",
            );
        }
        (self.gated.bytes() > GATED_BYTES_MAX).then_some(
            "a call that would make its events stable: \
             let it call World::progress, or leave out --gate-output",
        )
    }

    /// All that was printed up to now comes before this checkpoint. The rank waits.
    pub fn mark(&mut self, checkpoint: u64, gate: Option<&OutputGate>, out: &mut Vec<u8>) {
        self.drain(gate, out);
        self.printed.mark(checkpoint);
    }

    /// No life will begin before the last but one stable checkpoint.
    pub fn forget_before(&mut self, stable: u64) {
        self.printed.forget_before(stable);
    }

    /// Whether it is known where in the stream this life begins.
    pub fn has_begun(&self) -> bool {
        self.printed.has_begun()
    }

    /// What a later run of the job has to know. JOB-5
    pub fn to_save(&self) -> SavedPosition {
        self.printed.to_save(self.handed_on)
    }

    /// Goes on behind what earlier runs of the job have passed on. JOB-5
    pub fn go_on(&mut self, saved: Option<SavedPosition>) {
        self.printed.go_on(saved);
        self.handed_on = self.printed.handed_out();
    }

    /// The life was killed: reads what is left in its pipe. Lines whose events are stable are
    /// passed on; the others wait until it is known where the next life begins.
    pub fn end_life(&mut self, gate: Option<&OutputGate>, out: &mut Vec<u8>) {
        self.drain(gate, out);
        self.source = Source::None;
        if let Some(gate) = gate {
            self.release(gate, out);
        }
        self.printed.end_life(self.handed_on);
    }

    /// A later life begins with this checkpoint, and waits. Its output up to now is from its
    /// start, before the checkpoint was loaded. Has no effect on a life that has begun already.
    ///
    /// # Errors
    /// The checkpoint was never marked.
    pub fn begin(
        &mut self,
        checkpoint: u64,
        gate: Option<&OutputGate>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        if self.printed.has_begun() {
            return Ok(());
        }
        self.drain(gate, out);
        if let Some(before) = self.printed.lines_before(checkpoint) {
            let end = self.gated.settle(before, out);
            self.handed_on = end.unwrap_or(self.handed_on);
        }
        let mut known = Ok(());
        let handed_on = self.handed_on;
        self.pass(gate, out, |printed, out| {
            known = printed.begin(checkpoint, handed_on, out);
        });
        known
    }

    /// The rank has ended: reads what is left in the pipe, and a last line without an end. Returns
    /// the number of bytes that are dropped because the events before them were not stable.
    pub fn conclude(&mut self, gate: Option<&OutputGate>, out: &mut Vec<u8>) -> usize {
        // A life that has not reported where it begins started from the beginning.
        let _ = self.begin(0, gate, out);
        self.drain(gate, out);
        self.source = Source::None;
        self.pass(gate, out, Printed::finish);
        if let Some(gate) = gate {
            self.release(gate, out);
        }
        let dropped_bytes = self.gated.bytes();
        self.gated.drop_all();
        dropped_bytes
    }

    /// Whether the life has printed other output than earlier ones; reported once.
    pub fn take_difference(&mut self) -> bool {
        self.printed.take_difference()
    }
}

/// Maximum number of bytes that one rank may print before their events are stable. They cannot
/// stay in the pipe: a rank that waits for room there makes no events stable.
pub const GATED_BYTES_MAX: usize = 64 << 20;

/// Whole lines of one read.
#[derive(Debug)]
struct Waiting {
    /// The number of events that must be stable first.
    events: u64,
    /// Position of their end in the stream.
    end: Position,
    lines: Vec<u8>,
}

/// Whole lines of one stream that wait for events, in order.
#[derive(Debug, Default)]
pub struct GatedLines {
    waiting: VecDeque<Waiting>,
    bytes: usize,
}

impl GatedLines {
    /// Keeps `lines`, which end at `end`, until `events` events are stable.
    pub fn push(&mut self, events: u64, end: Position, lines: Vec<u8>) {
        if lines.is_empty() {
            return;
        }
        self.bytes += lines.len();
        self.waiting.push_back(Waiting { events, end, lines });
    }

    /// Passes on the lines that wait for at most `stable` events. Returns the position of their
    /// end, if there are any.
    pub fn release(&mut self, stable: u64, out: &mut Vec<u8>) -> Option<Position> {
        self.release_while(|waiting| waiting.events <= stable, out)
    }

    /// Settles the lines of an earlier life when a later life begins with a checkpoint. Lines up
    /// to `before` are passed on: the later life will not print them again, and the events before
    /// the checkpoint are never undone. The rest is dropped: their events may be undone. Returns
    /// as [`release`](Self::release).
    pub fn settle(&mut self, before: Position, out: &mut Vec<u8>) -> Option<Position> {
        let end = self.release_while(|waiting| waiting.end.bytes <= before.bytes, out);
        self.drop_all();
        end
    }

    fn release_while(
        &mut self,
        may_go: impl Fn(&Waiting) -> bool,
        out: &mut Vec<u8>,
    ) -> Option<Position> {
        let mut end = None;
        while let Some(waiting) = self.waiting.pop_front_if(|waiting| may_go(waiting)) {
            self.bytes -= waiting.lines.len();
            out.extend_from_slice(&waiting.lines);
            end = Some(waiting.end);
        }
        end
    }

    /// Whether no lines wait.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Bytes of the lines that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops the lines that wait: their events will never be stable.
    pub fn drop_all(&mut self) {
        self.waiting.clear();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod gated_tests {
    use super::*;

    fn at(bytes: usize) -> Position {
        let mut position = Position::default();
        position.advance(&vec![b'x'; bytes]);
        position
    }

    fn of_four() -> GatedLines {
        let mut held = GatedLines::default();
        held.push(0, at(2), b"a\n".to_vec());
        held.push(3, at(4), b"b\n".to_vec());
        held.push(3, at(6), b"c\n".to_vec());
        held.push(4, at(8), b"d\n".to_vec());
        held.push(4, at(8), Vec::new());
        held
    }

    // GATE-1
    #[test]
    fn lines_go_in_order_and_only_when_their_events_are_stable() {
        let (mut held, mut out) = (of_four(), Vec::new());
        assert_eq!(held.release(2, &mut out), Some(at(2)));
        assert_eq!(out, b"a\n");
        assert_eq!(held.release(2, &mut out), None);
        assert_eq!(held.release(3, &mut out), Some(at(6)));
        assert_eq!(out, b"a\nb\nc\n");
        assert_eq!(held.bytes(), 2);
        held.drop_all();
        held.release(u64::MAX, &mut out);
        assert_eq!((out.len(), held.bytes(), held.is_empty()), (6, 0, true));
    }

    // GATE-1
    #[test]
    fn what_lies_before_a_checkpoint_goes_and_the_rest_is_dropped() {
        let (mut held, mut out) = (of_four(), Vec::new());
        assert_eq!(held.settle(at(4), &mut out), Some(at(4)));
        assert_eq!(out, b"a\nb\n");
        assert_eq!((held.bytes(), held.is_empty()), (0, true));
        assert_eq!(of_four().settle(at(0), &mut out), None);
        assert_eq!(out.len(), 4);
    }
}
