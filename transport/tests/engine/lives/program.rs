//! Programs that do the same again whatever happens to their ranks, and what each
//! of their receives must get.

use crate::rig::payload;

/// Numbers by chance, the same for the same seed.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}

fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[derive(Clone, Copy, Debug)]
pub struct Message {
    pub from: usize,
    pub to: usize,
    pub tag: i32,
    pub bytes: usize,
    pub synchronous: bool,
}

/// One step of a rank; messages by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Send(usize),
    /// Until it is complete.
    WaitSend(usize),
    /// Named, of the message's tag.
    Receive(usize),
    WaitReceive(usize),
    /// One is taken, if no receive is open.
    Checkpoint,
}

/// What a rank has seen so far: what it sends depends on it.
pub type Seen = u64;

pub fn see(seen: Seen, message: usize, bytes: &[u8]) -> Seen {
    let words = bytes.chunks(8).map(|chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        u64::from_le_bytes(word)
    });
    let start = mix(seen ^ message as u64);
    words.fold(start, |sum, word| mix(sum ^ word))
}

/// The bytes of a message, sent by a rank that has seen this.
pub fn bytes_of(message: usize, bytes: usize, seen: Seen) -> Vec<u8> {
    payload(mix(seen ^ message as u64), bytes)
}

#[derive(Clone, Debug)]
pub struct Program {
    pub messages: Vec<Message>,
    /// By rank.
    pub steps: Vec<Vec<Step>>,
    /// What each message must be.
    pub expected: Vec<Vec<u8>>,
}

/// What programs are like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub ranks: usize,
    pub messages: usize,
    /// Lengths are chosen from these.
    pub lengths: &'static [usize],
    /// Steps between two checkpoints, about; 0: none.
    pub checkpoint_steps: usize,
}

impl Program {
    /// In one order of all steps, each has what it needs before it: so ranks that
    /// do only their own never block each other.
    pub fn by_chance(shape: Shape, dice: &mut Dice) -> Self {
        let spread = shape.messages * 3;
        let mut sends = Vec::new();
        let mut posts: Vec<usize> = Vec::new();
        let mut messages = Vec::new();
        for number in 0..shape.messages {
            messages.push(Message {
                from: dice.below(shape.ranks),
                to: dice.below(shape.ranks),
                tag: dice.below(2) as i32,
                bytes: shape.lengths[dice.below(shape.lengths.len())],
                synchronous: dice.once_in(3),
            });
            // No two at the same time.
            let mut time = || dice.below(spread) * shape.messages + number;
            sends.push(time());
            posts.push(time());
        }
        pair_up(&messages, &sends, &mut posts);
        let mut timed: Vec<(usize, usize, Step)> = Vec::new();
        for number in 0..shape.messages {
            let (sent, posted) = (sends[number], posts[number]);
            let both = sent.max(posted) + 1;
            let Message { from, to, .. } = messages[number];
            timed.push((sent, from, Step::Send(number)));
            timed.push((posted, to, Step::Receive(number)));
            timed.push((
                both + dice.below(6 * shape.messages),
                from,
                Step::WaitSend(number),
            ));
            timed.push((
                both + dice.below(6 * shape.messages),
                to,
                Step::WaitReceive(number),
            ));
        }
        timed.sort_by_key(|(time, ..)| *time);
        let mut steps = vec![Vec::new(); shape.ranks];
        for (_, rank, step) in &timed {
            steps[*rank].push(*step);
            if shape.checkpoint_steps > 0 && dice.once_in(shape.checkpoint_steps) {
                steps[*rank].push(Step::Checkpoint);
            }
        }
        let expected = play(&messages, &timed, shape.ranks);
        Self {
            messages,
            steps,
            expected,
        }
    }
}

/// Of one channel and tag the first receive gets the first message.
fn pair_up(messages: &[Message], sends: &[usize], posts: &mut [usize]) {
    let channel = |number: usize| {
        let message = messages[number];
        (message.from, message.to, message.tag)
    };
    for number in 0..messages.len() {
        let of_channel: Vec<usize> = (0..messages.len())
            .filter(|other| channel(*other) == channel(number))
            .collect();
        if of_channel.first() != Some(&number) {
            continue;
        }
        let mut by_send = of_channel.clone();
        by_send.sort_by_key(|other| sends[*other]);
        let mut times: Vec<usize> = of_channel.iter().map(|other| posts[*other]).collect();
        times.sort_unstable();
        for (other, time) in by_send.iter().zip(times) {
            posts[*other] = time;
        }
    }
}

/// What every message is when nothing goes wrong.
fn play(messages: &[Message], timed: &[(usize, usize, Step)], ranks: usize) -> Vec<Vec<u8>> {
    let mut seen = vec![0; ranks];
    let mut bytes = vec![Vec::new(); messages.len()];
    for (_, rank, step) in timed {
        match *step {
            Step::Send(number) => {
                bytes[number] = bytes_of(number, messages[number].bytes, seen[*rank]);
            }
            Step::WaitReceive(number) => seen[*rank] = see(seen[*rank], number, &bytes[number]),
            _ => {}
        }
    }
    bytes
}
