//! A token with a counter and a running hash goes round the ranks; each rank checks it and adds to
//! it.

use super::error::{WorkloadError, ensure};
use super::horizon::Horizon;
use super::payload;
use super::prng::combine;
use refrain::{World, from, to};

const TAG: i32 = 11;
const CONTEXT: u32 = 1;
/// Section of a checkpoint: number of rounds, and the token.
const STATE: u64 = 1;
/// Length of counter and hash in bytes.
const HEAD_BYTES: usize = 16;

/// Options of `token-ring`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Number of times that the token goes round.
    #[arg(long, default_value_t = 1000)]
    rounds: u64,
    /// Length of the token in bytes, at least 16.
    #[arg(long, default_value_t = 64)]
    bytes: usize,
    #[command(flatten)]
    horizon: Horizon,
}

/// The content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Token {
    counter: u64,
    hash: u64,
}

impl Token {
    const START: Token = Token {
        counter: 0,
        hash: 0,
    };

    /// The token after `rank` has added to it.
    fn passed(self, rank: u32) -> Token {
        Token {
            counter: self.counter + 1,
            hash: combine(&[self.hash, self.counter, u64::from(rank)]),
        }
    }

    fn write(self, message: &mut [u8]) {
        let (head, filling) = message.split_at_mut(HEAD_BYTES);
        head[..8].copy_from_slice(&self.counter.to_le_bytes());
        head[8..].copy_from_slice(&self.hash.to_le_bytes());
        payload::fill(self.hash, filling);
    }

    /// Decodes the token of a message, and checks the rest of the message.
    fn read(message: &[u8]) -> Result<Token, WorkloadError> {
        let word = |at: usize| u64::from_le_bytes(message[at..at + 8].try_into().expect("8 bytes"));
        let token = Token {
            counter: word(0),
            hash: word(8),
        };
        let mut expected = vec![0; message.len()];
        token.write(&mut expected);
        if let Some(at) = payload::first_difference(message, &expected) {
            return Err(WorkloadError::Verification(format!(
                "byte {at} of the token {token:?} is wrong"
            )));
        }
        Ok(token)
    }
}

/// The tokens that a rank expects to receive, one per round; computed without messages.
struct Expected {
    token: Token,
    rank: u32,
    size: u32,
}

impl Expected {
    fn new(rank: u32, size: u32) -> Self {
        // Rank 0 sends first, and so receives at the end of each round.
        let before = if rank == 0 { size } else { rank };
        Self {
            token: (0..before).fold(Token::START, Token::passed),
            rank,
            size,
        }
    }

    fn next(&mut self) -> Token {
        let expected = self.token;
        for step in 0..self.size {
            self.token = self.token.passed((self.rank + step) % self.size);
        }
        expected
    }
}

/// Runs the workload on this rank; rank 0 gets the line to print.
///
/// # Errors
/// Those of the library, and a token that is not the expected one.
pub fn run(world: &mut World, options: &Options) -> Result<Option<String>, WorkloadError> {
    if options.bytes < HEAD_BYTES {
        return Err(WorkloadError::Options(format!(
            "a token of {} bytes is too short: give --bytes {HEAD_BYTES} or more",
            options.bytes
        )));
    }
    let (rank, size) = (world.rank().0, world.size());
    let mut expected = Expected::new(rank, size);
    let mut outgoing = vec![0; options.bytes];
    let mut incoming = vec![0; options.bytes];
    let mut token = Token::START;
    let mut first_round = 0;
    if let Some(mut restored) = world.restored()? {
        let (counter, hash);
        (first_round, counter, hash) = restored.value(STATE)?;
        token = Token { counter, hash };
        for _ in 0..first_round {
            expected.next();
        }
    }
    for round in first_round..options.rounds {
        if rank == 0 {
            token = pass_first(world, token, &mut outgoing, &mut incoming)?;
        } else {
            receive(world, &mut incoming)?;
            token = Token::read(&incoming)?;
        }
        let expected = expected.next();
        ensure!(
            token == expected,
            "rank {rank} got {token:?} in round {round}, expected {expected:?}"
        );
        if rank > 0 {
            token.passed(rank).write(&mut outgoing);
            world.send(&outgoing, to((rank + 1) % size).tag(TAG).context(CONTEXT))?;
        }
        options.horizon.after(world, round, |image| {
            image.protect_value(STATE, &(round + 1, token.counter, token.hash))
        })?;
    }
    Ok((rank == 0).then(|| {
        format!(
            "token-ring: rounds {} counter {} hash {:016x}",
            options.rounds, token.counter, token.hash
        )
    }))
}

/// Rank 0 sends the token and waits until it comes back. A single rank is its own neighbour, and
/// has to post the receive while it sends.
fn pass_first(
    world: &mut World,
    token: Token,
    outgoing: &mut [u8],
    incoming: &mut [u8],
) -> Result<Token, WorkloadError> {
    token.passed(0).write(outgoing);
    if world.size() == 1 {
        let (to, from) = (
            to(0).tag(TAG).context(CONTEXT),
            from(0).tag(TAG).context(CONTEXT),
        );
        let status = world.sendrecv(&*outgoing, to, &mut *incoming, from)?;
        check_length(status.bytes, incoming)?;
    } else {
        world.send(&*outgoing, to(1).tag(TAG).context(CONTEXT))?;
        receive(world, incoming)?;
    }
    Token::read(incoming)
}

fn receive(world: &mut World, incoming: &mut [u8]) -> Result<(), WorkloadError> {
    let previous = (world.rank().0 + world.size() - 1) % world.size();
    let status = world.recv(&mut *incoming, from(previous).tag(TAG).context(CONTEXT))?;
    check_length(status.bytes, incoming)
}

fn check_length(bytes: u64, incoming: &[u8]) -> Result<(), WorkloadError> {
    ensure!(
        bytes == incoming.len() as u64,
        "a token of {bytes} bytes arrived, expected {}",
        incoming.len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expected_tokens_are_those_of_a_ring_walked_in_one_thread() {
        for size in 1..6 {
            let mut expected: Vec<_> = (0..size).map(|rank| Expected::new(rank, size)).collect();
            let mut token = Token::START;
            for _ in 0..4 {
                token = token.passed(0);
                for rank in 1..size {
                    assert_eq!(expected[rank as usize].next(), token);
                    token = token.passed(rank);
                }
                assert_eq!(expected[0].next(), token);
            }
            assert_eq!(token.counter, u64::from(4 * size));
        }
    }

    #[test]
    fn a_damaged_token_is_noticed() {
        let mut message = vec![0; 40];
        let token = Token::START.passed(0);
        token.write(&mut message);
        assert_eq!(Token::read(&message).unwrap(), token);
        for at in 8..message.len() {
            let mut damaged = message.clone();
            damaged[at] ^= 0x40;
            assert!(Token::read(&damaged).is_err(), "byte {at}");
        }
    }
}
