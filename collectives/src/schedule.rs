//! What a place does in a collective: steps over three buffers.
//!
//! # How a schedule is executed
//!
//! Steps are begun in their order. A step may begin when all steps before [`Step::after`] are
//! complete, so only the oldest step that is not complete has to be watched:
//!
//! ```text
//! while next < steps.len() && steps[next].after <= complete { begin(steps[next]); next += 1 }
//! ```
//!
//! where `complete` is the number of steps at the beginning that are complete. `after` never
//! falls from one step to the next. [`Action::Copy`] and [`Action::Reduce`] are complete when
//! they are begun: steps behind them see their results whatever `after` says. The others
//! complete when the network has taken or brought their message. A send may wait until its
//! message is received: no schedule depends on buffering.
//!
//! # Which receive gets which message
//!
//! The message that is `k`-th from place `s` to place `d` in the order of the steps of `s` goes to
//! the `k`-th receive from `s` in the order of the steps of `d`. So (group, number of the
//! collective in the group, `s`, `d`, `k`) names a message in every execution, and a stream that
//! keeps its order for each pair of places needs no number in the message.

/// One of the three buffers of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Buffer {
    /// What this place contributes; never written. Not used if the call is in place.
    Input,
    /// What this place gets; if the call is in place, also what it contributes.
    Output,
    /// [`Schedule::scratch`] elements, dense, with any content at the beginning.
    Scratch,
}

/// `count` elements of a buffer from element `start` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The buffer.
    pub buffer: Buffer,
    /// The first element.
    pub start: u64,
    /// Number of elements.
    pub count: u64,
}

impl Buffer {
    /// The first `count` elements.
    pub fn first(self, count: u64) -> Part {
        Part {
            buffer: self,
            start: 0,
            count,
        }
    }
}

impl Part {
    /// `count` elements of this part from its element `start` on.
    pub fn part(self, start: u64, count: u64) -> Self {
        debug_assert!(start + count <= self.count);
        Self {
            start: self.start + start,
            count,
            ..self
        }
    }

    /// Segment `index` of this part, in segments of `segment` elements; the last one may be shorter.
    pub fn segment(self, index: u64, segment: u64) -> Self {
        let start = index * segment;
        self.part(start, segment.min(self.count - start))
    }

    /// Whether both parts have an element in common.
    pub fn overlaps(self, other: Self) -> bool {
        self.buffer == other.buffer
            && self.start < other.start + other.count
            && other.start < self.start + self.count
    }
}

/// On which side of the operator an operand stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Before the operator.
    Left,
    /// Behind the operator.
    Right,
}

impl Side {
    /// The side of what comes from `other`, so that lower numbers stand left.
    pub fn of(other: u32, me: u32) -> Self {
        if other < me { Self::Left } else { Self::Right }
    }
}

/// What a step does. ∘ is the operator of the reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Sends `from` to the place `to`.
    Send {
        /// The receiver's place.
        to: u32,
        /// What is sent; may be empty.
        from: Part,
    },
    /// Sends one message to each other place of a range: written once where all can read it,
    /// or as many sends.
    Publish {
        /// The first place.
        first: u32,
        /// Number of places.
        number: u32,
        /// What is sent; may be empty.
        from: Part,
    },
    /// Receives the next message of the place `source`.
    Receive {
        /// The sender's place.
        source: u32,
        /// Where it goes; has the count of the message.
        into: Part,
    },
    /// Receives the next message of the place `source` and combines it: `into` = message ∘ `with`
    /// if `message` is left, `with` ∘ message if it is right.
    ReceiveReduce {
        /// The sender's place.
        source: u32,
        /// On which side the message stands.
        message: Side,
        /// The other operand.
        with: Part,
        /// The result; `with` itself or apart from it.
        into: Part,
    },
    /// `into` = `left` ∘ `right`.
    Reduce {
        /// The left operand.
        left: Part,
        /// The right operand.
        right: Part,
        /// The result; one of the operands or apart from them.
        into: Part,
    },
    /// Copies elements.
    Copy {
        /// The source.
        from: Part,
        /// The destination, apart from the source.
        into: Part,
    },
}

impl Action {
    /// The parts that the action reads.
    pub fn reads(self) -> [Option<Part>; 2] {
        match self {
            Self::Send { from, .. } | Self::Publish { from, .. } | Self::Copy { from, .. } => {
                [Some(from), None]
            }
            Self::Receive { .. } => [None; 2],
            Self::ReceiveReduce { with, .. } => [Some(with), None],
            Self::Reduce { left, right, .. } => [Some(left), Some(right)],
        }
    }

    /// The action between other places and parts; not to publish.
    fn moved(self, places: &[u32], part: impl Fn(Part) -> Part) -> Self {
        let place = |place: u32| places[place as usize];
        match self {
            Self::Send { to, from } => Self::Send {
                to: place(to),
                from: part(from),
            },
            Self::Publish { .. } => unreachable!("its readers may be no range"),
            Self::Receive { source, into } => Self::Receive {
                source: place(source),
                into: part(into),
            },
            Self::ReceiveReduce {
                source,
                message,
                with,
                into,
            } => Self::ReceiveReduce {
                source: place(source),
                message,
                with: part(with),
                into: part(into),
            },
            Self::Reduce { left, right, into } => Self::Reduce {
                left: part(left),
                right: part(right),
                into: part(into),
            },
            Self::Copy { from, into } => Self::Copy {
                from: part(from),
                into: part(into),
            },
        }
    }

    /// The part that the action writes.
    pub fn writes(self) -> Option<Part> {
        match self {
            Self::Send { .. } | Self::Publish { .. } => None,
            Self::Receive { into, .. }
            | Self::ReceiveReduce { into, .. }
            | Self::Reduce { into, .. }
            | Self::Copy { into, .. } => Some(into),
        }
    }
}

/// An action and what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// Begins when all steps before this one are complete.
    pub after: u32,
}

/// The steps of one place; also what algorithms write them with.
///
/// A step that would move no element is left out. Its partner leaves out the same one, as both
/// know the count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    steps: Vec<Step>,
    scratch: u64,
    after: u32,
}

impl Schedule {
    /// The steps, in the order in which they begin.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Elements of [`Buffer::Scratch`] that the steps use.
    pub fn scratch(&self) -> u64 {
        self.scratch
    }

    /// Elements of `buffer` up to the end of the last one that a step uses.
    pub fn extent(&self, buffer: Buffer) -> u64 {
        let parts = self.steps.iter().flat_map(|step| {
            let [one, two] = step.action.reads();
            [one, two, step.action.writes()]
        });
        let ends = parts.flatten().filter(|part| part.buffer == buffer);
        ends.map(|part| part.start + part.count).max().unwrap_or(0)
    }

    /// Forgets all steps and keeps the memory.
    pub fn clear(&mut self) {
        self.steps.clear();
        (self.scratch, self.after) = (0, 0);
    }

    /// Number of steps so far: the number of the next one.
    pub fn next(&self) -> u32 {
        u32::try_from(self.steps.len()).expect("fewer than 2^32 steps")
    }

    /// Lets all following steps wait for all steps so far.
    pub fn fence(&mut self) {
        self.after(self.next());
    }

    /// Lets all following steps wait for all steps before `step`.
    pub fn after(&mut self, step: u32) {
        self.after = self.after.max(step);
    }

    /// Takes `count` more elements of scratch.
    pub fn take_scratch(&mut self, count: u64) -> Part {
        let start = self.scratch;
        self.scratch += count;
        Part {
            buffer: Buffer::Scratch,
            start,
            count,
        }
    }

    /// Adds a step.
    pub fn push(&mut self, action: Action) {
        let after = self.after;
        self.steps.push(Step { action, after });
    }

    /// Sends `from` to `to`.
    pub fn send(&mut self, to: u32, from: Part) {
        if from.count > 0 {
            self.push(Action::Send { to, from });
        }
    }

    /// Sends `from` to every other place of a group of `size`.
    pub fn publish(&mut self, size: u32, from: Part) {
        if from.count > 0 {
            self.push(Action::Publish {
                first: 0,
                number: size,
                from,
            });
        }
    }

    /// Receives `into` from `source`.
    pub fn receive(&mut self, source: u32, into: Part) {
        if into.count > 0 {
            self.push(Action::Receive { source, into });
        }
    }

    /// Receives from `source` and combines the message with `with`, on the side `message`.
    pub fn receive_reduce(&mut self, source: u32, message: Side, with: Part, into: Part) {
        if into.count > 0 {
            self.push(Action::ReceiveReduce {
                source,
                message,
                with,
                into,
            });
        }
    }

    /// `into` = `left` ∘ `right`.
    pub fn reduce(&mut self, left: Part, right: Part, into: Part) {
        if into.count > 0 {
            self.push(Action::Reduce { left, right, into });
        }
    }

    /// Copies `from` into `into`, unless both are the same part.
    pub fn copy(&mut self, from: Part, into: Part) {
        if into.count > 0 && from != into {
            self.push(Action::Copy { from, into });
        }
    }

    /// Adds the steps that the place `me` has in a stage, which waits for all steps so far. The
    /// places of the stage are `places`, its input and its output are `buffers`.
    pub fn append(&mut self, stage: &Self, me: u32, places: &[u32], buffers: [Part; 2]) {
        self.fence();
        let scratch = self.take_scratch(stage.scratch);
        let part = |part: Part| {
            let [input, output] = buffers;
            let whole = match part.buffer {
                Buffer::Input => input,
                Buffer::Output => output,
                Buffer::Scratch => scratch,
            };
            whole.part(part.start, part.count)
        };
        // One that is published to places that are no range becomes several.
        let mut numbers = Vec::with_capacity(stage.steps.len());
        for step in &stage.steps {
            numbers.push(self.next());
            self.after(numbers[step.after as usize]);
            let Action::Publish {
                first,
                number,
                from,
            } = step.action
            else {
                self.push(step.action.moved(places, part));
                continue;
            };
            let readers = &places[first as usize..][..number as usize];
            let from = part(from);
            if readers.windows(2).all(|pair| pair[0] + 1 == pair[1]) {
                self.push(Action::Publish {
                    first: readers[0],
                    number,
                    from,
                });
            } else {
                for to in readers.iter().copied().filter(|to| *to != me) {
                    self.push(Action::Send { to, from });
                }
            }
        }
    }
}
