//! The measured loops, and the number of their repetitions.
//!
//! Rank 0 has the clock: it measures the time of an exchange and sends rank 1 the number of
//! exchanges before each phase, in a message on a separate context.

use super::arguments::{Mode, Receive};
use super::command::{Round, Samples};
use super::log_budget::{LogAccount, LogRoom};
use super::log_use::LogUse;
use crate::buffer::{Buffer, Pattern};
use refrain::{Error, Request, World, from, from_any, to};
use std::time::{Duration, Instant};

/// Context of the messages with the number of exchanges.
const PLAN_CONTEXT: u32 = 1;
/// Tag of a stream's acknowledgements.
const ACK_TAG: i32 = 1;
/// Exchanges shorter than this are timed in batches.
const TIMED_ALONE: Duration = Duration::from_micros(2);
/// Approximate duration of a batch; a batch is longer if there would be too many batches.
const BATCH_TIME: Duration = Duration::from_micros(5);
/// Maximum number of samples of one round.
const SAMPLES_MAX: u32 = 100_000;
/// Minimum number of samples of one round, regardless of their duration.
const SAMPLES_MIN: u64 = 3;
/// Portions of the timed part of a round; the number of exchanges is planned for each.
const PORTIONS: u32 = 4;
/// Minimum duration of a warm-up, and the number of batches of its median (fewer if they would
/// take more than half of the round).
const CALIBRATION_TIME_MIN: Duration = Duration::from_micros(200);
const CALIBRATION_BATCHES: usize = 16;
/// Maximum number of messages in a stream's window, and of their bytes.
const WINDOW_MESSAGES: u64 = 64;
const WINDOW_BYTES: u64 = 64 << 20;

/// Buffers and log account of a rank, kept from round to round.
#[derive(Debug)]
pub struct RankState {
    first: Buffer,
    second: Buffer,
    log: LogAccount,
    requests: Vec<Request>,
}

impl RankState {
    pub fn new(largest_bytes: usize, log_room: Option<LogRoom>) -> Self {
        Self {
            first: Buffer::new(largest_bytes),
            second: Buffer::new(largest_bytes),
            log: LogAccount::new(log_room),
            requests: Vec::with_capacity(WINDOW_MESSAGES as usize),
        }
    }
}

/// Measures one round on this rank, together with the other.
///
/// # Errors
/// A call fails or the data is wrong.
pub fn measure(world: &mut World, state: &mut RankState, round: &Round) -> Result<Samples, String> {
    let bytes = round.bytes as usize;
    let rank = world.rank().0;
    let before = world.statistics();
    let mut end = RankEnd {
        peer: 1 - rank,
        leads: rank == 0,
        mode: round.mode,
        receive: round.receive,
        window: window_messages(round, &state.log),
        swapped: false,
        world,
        first: state.first.first(bytes),
        second: state.second.first(bytes),
        requests: &mut state.requests,
    };
    end.write_patterns(round.seed);
    let samples = match end.leads {
        true => lead(&mut end, &mut state.log, round),
        false => follow(&mut end, &mut state.log, round).map(|()| Samples::default()),
    };
    let samples = samples.map_err(|error| error.to_string())?;
    let mismatch = end.mismatch(round).map_err(|error| error.to_string())?;
    if let Some(at) = mismatch {
        return Err(format!(
            "wrong data: byte {at} of a {}-byte message is not what was sent ({}, {} receive)",
            round.bytes,
            round.mode.name(),
            round.receive.name()
        ));
    }
    Ok(Samples {
        log: LogUse::since(&before, world),
        ..samples
    })
}

/// Number of messages in a window of a stream: limited in number, bytes and log.
fn window_messages(round: &Round, log: &LogAccount) -> u64 {
    match round.mode {
        Mode::Stream => (WINDOW_BYTES / round.bytes.max(1))
            .min(log.messages_max(round.bytes))
            .clamp(1, WINDOW_MESSAGES),
        Mode::PingPong | Mode::Bidirectional => 1,
    }
}

/// Number of exchanges of a phase and of each batch. Zero exchanges: the round is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Plan {
    exchanges: u64,
    batch: u64,
}

impl Plan {
    /// The plan that ends a round.
    const END: Plan = Plan {
        exchanges: 0,
        batch: 1,
    };

    fn encode(self) -> [[u8; 8]; 2] {
        [self.exchanges, self.batch].map(u64::to_le_bytes)
    }

    fn decode(words: [[u8; 8]; 2]) -> Self {
        let [exchanges, batch] = words.map(u64::from_le_bytes);
        Self { exchanges, batch }
    }

    /// Number of exchanges that are timed together, given the time of one.
    fn batch(exchange_ns: u64, time: Duration, window: u64) -> u64 {
        let exchange = Duration::from_nanos(exchange_ns);
        if exchange < TIMED_ALONE || exchange * SAMPLES_MAX < time {
            let batch_time = BATCH_TIME.max(time / SAMPLES_MAX);
            (batch_time.as_nanos() as u64)
                .div_ceil(exchange_ns.max(1))
                .next_multiple_of(window)
        } else {
            window
        }
    }

    /// A plan whose batches take about `time` together.
    fn lasting(time: Duration, exchange_ns: u64, batch: u64) -> Self {
        let batch_ns = exchange_ns.saturating_mul(batch).max(1);
        let batches = (time.as_nanos() as u64 / batch_ns).max(1);
        Self {
            exchanges: batches * batch,
            batch,
        }
    }
}

/// Rank 0's part of a round: warm-up with calibration, then the timed part, in portions, so that a
/// wrong estimate (another process had the core) affects one portion and not the round.
fn lead(end: &mut RankEnd<'_, '_>, log: &mut LogAccount, round: &Round) -> Result<Samples, Error> {
    let began = Instant::now();
    let exchange_ns = calibrate(end, log, round)?;
    let batch = Plan::batch(exchange_ns, round.time, end.window);
    let mut batches_ns = Vec::new();
    loop {
        let left = round.time.saturating_sub(began.elapsed());
        let done = batches_ns.len() as u64;
        if left < round.time / 20 && done >= SAMPLES_MIN {
            break;
        }
        let portion = left.min(round.time / PORTIONS);
        let plan = Plan::lasting(portion, exchange_ns, batch);
        batches_ns.extend(end.timed(log, round, plan)?);
    }
    end.announce(Plan::END)?;
    let one_way = batch * if round.mode == Mode::PingPong { 2 } else { 1 };
    Ok(Samples {
        times_ps: batches_ns.iter().map(|ns| ns * 1000 / one_way).collect(),
        batch,
        ..Samples::default()
    })
}

/// The time of one exchange in ns. Doubles the number of exchanges until the time is enough for a
/// warm-up and for a median.
fn calibrate(end: &mut RankEnd<'_, '_>, log: &mut LogAccount, round: &Round) -> Result<u64, Error> {
    let enough = (round.time / 10).max(CALIBRATION_TIME_MIN);
    let began = Instant::now();
    let mut exchanges = end.window;
    loop {
        let plan = Plan {
            exchanges,
            batch: end.window,
        };
        let mut batches_ns = end.timed(log, round, plan)?;
        let spent = began.elapsed();
        let seen = batches_ns.len() >= CALIBRATION_BATCHES || spent >= round.time / 2;
        if spent >= enough && seen {
            batches_ns.sort_unstable();
            return Ok(batches_ns[batches_ns.len() / 2] / end.window);
        }
        exchanges *= 2;
    }
}

/// Rank 1's part of a round.
fn follow(end: &mut RankEnd<'_, '_>, log: &mut LogAccount, round: &Round) -> Result<(), Error> {
    loop {
        let mut words = [[0; 8]; 2];
        let source = from(end.peer).context(PLAN_CONTEXT);
        end.world.recv(words.as_flattened_mut(), source)?;
        let plan = Plan::decode(words);
        if plan.exchanges == 0 {
            return Ok(());
        }
        end.phase(log, round.bytes, plan, None)?;
    }
}

/// The clock of rank 0. One reading per batch: the end of a batch is the beginning of the next.
struct Stopwatch {
    last: Instant,
    batches_ns: Vec<u64>,
}

impl Stopwatch {
    fn start(plan: Plan) -> Self {
        Self {
            last: Instant::now(),
            batches_ns: Vec::with_capacity((plan.exchanges / plan.batch) as usize),
        }
    }

    #[inline]
    fn batch(&mut self) {
        let now = Instant::now();
        let time = now - self.last;
        self.last = now;
        self.batches_ns.push(time.as_nanos() as u64);
    }
}

/// State of this rank during one round.
struct RankEnd<'w, 'b> {
    world: &'w mut World,
    peer: u32,
    /// This is rank 0, which sends first.
    leads: bool,
    mode: Mode,
    receive: Receive,
    /// Number of messages per exchange: those of a stream's window, else 1.
    window: u64,
    first: &'b mut [u8],
    second: &'b mut [u8],
    /// Bidirectional: the last received message is in `second`.
    swapped: bool,
    requests: &'b mut Vec<Request>,
}

impl RankEnd<'_, '_> {
    fn announce(&mut self, plan: Plan) -> Result<(), Error> {
        let destination = to(self.peer).context(PLAN_CONTEXT);
        self.world.send(plan.encode().as_flattened(), destination)
    }

    /// Rank 0: runs a phase with the clock. Returns the time of each batch in ns.
    fn timed(
        &mut self,
        log: &mut LogAccount,
        round: &Round,
        plan: Plan,
    ) -> Result<Vec<u64>, Error> {
        let mut clock = Stopwatch::start(plan);
        self.announce(plan)?;
        self.phase(log, round.bytes, plan, Some(&mut clock))?;
        Ok(clock.batches_ns)
    }

    /// Runs `plan.exchanges`; frees the log when necessary, outside the timed parts.
    fn phase(
        &mut self,
        log: &mut LogAccount,
        bytes: u64,
        plan: Plan,
        mut clock: Option<&mut Stopwatch>,
    ) -> Result<(), Error> {
        let mut left = plan.exchanges;
        while left > 0 {
            let segment = log.segment(bytes, left, plan.batch);
            if segment.horizon_first {
                self.world.publish_horizon()?;
            }
            self.meet()?;
            if let Some(clock) = &mut clock {
                clock.last = Instant::now();
            }
            for _ in 0..segment.messages / plan.batch {
                self.batch(plan.batch)?;
                if let Some(clock) = &mut clock {
                    clock.batch();
                }
            }
            left -= segment.messages;
        }
        Ok(())
    }

    /// Waits for the other rank, so that neither rank times while the other still prepares.
    fn meet(&mut self) -> Result<(), Error> {
        let (destination, source) = (
            to(self.peer).context(PLAN_CONTEXT),
            from(self.peer).context(PLAN_CONTEXT),
        );
        if self.leads {
            self.world.send(&[], destination)?;
            self.world.recv(&mut [], source)?;
        } else {
            self.world.recv(&mut [], source)?;
            self.world.send(&[], destination)?;
        }
        Ok(())
    }

    #[inline]
    fn batch(&mut self, exchanges: u64) -> Result<(), Error> {
        match (self.mode, self.receive) {
            (Mode::PingPong, Receive::Named) => self.ping_pong::<false>(exchanges),
            (Mode::PingPong, Receive::Any) => self.ping_pong::<true>(exchanges),
            (Mode::Bidirectional, Receive::Named) => self.exchange_both::<false>(exchanges),
            (Mode::Bidirectional, Receive::Any) => self.exchange_both::<true>(exchanges),
            (Mode::Stream, Receive::Named) => self.stream::<false>(exchanges),
            (Mode::Stream, Receive::Any) => self.stream::<true>(exchanges),
        }
    }

    fn ping_pong<const ANY: bool>(&mut self, exchanges: u64) -> Result<(), Error> {
        for _ in 0..exchanges {
            if self.leads {
                self.world.send(&*self.first, to(self.peer))?;
                receive::<ANY>(self.world, self.first, self.peer)?;
            } else {
                receive::<ANY>(self.world, self.first, self.peer)?;
                self.world.send(&*self.first, to(self.peer))?;
            }
        }
        Ok(())
    }

    fn exchange_both<const ANY: bool>(&mut self, exchanges: u64) -> Result<(), Error> {
        for _ in 0..exchanges {
            let (outgoing, incoming) = if self.swapped {
                (&*self.second, &mut *self.first)
            } else {
                (&*self.first, &mut *self.second)
            };
            let peer = self.peer;
            self.world.scope(|scope| {
                let source = if ANY { from_any() } else { from(peer) };
                let mut received = scope.irecv(incoming, source)?;
                let mut sent = scope.isend(outgoing, to(peer))?;
                if ANY {
                    scope.wait_any(std::slice::from_mut(&mut received))?;
                } else {
                    scope.wait(&mut received)?;
                }
                scope.wait(&mut sent)?;
                Ok(())
            })?;
            self.swapped = !self.swapped;
        }
        Ok(())
    }

    fn stream<const ANY: bool>(&mut self, messages: u64) -> Result<(), Error> {
        for _ in 0..messages / self.window {
            if self.leads {
                self.send_window()?;
                self.world.recv(&mut [], from(self.peer).tag(ACK_TAG))?;
            } else {
                for _ in 0..self.window {
                    receive::<ANY>(self.world, self.first, self.peer)?;
                }
                self.world.send(&[], to(self.peer).tag(ACK_TAG))?;
            }
        }
        Ok(())
    }

    fn send_window(&mut self) -> Result<(), Error> {
        let (data, peer, window) = (&*self.first, self.peer, self.window);
        let requests = &mut *self.requests;
        self.world.scope(|scope| {
            requests.clear();
            for _ in 0..window {
                requests.push(scope.isend(data, to(peer))?);
            }
            for request in requests {
                scope.wait(request)?;
            }
            Ok(())
        })
    }

    fn pattern(&self, seed: u64, origin: u32) -> Pattern {
        Pattern { seed, origin }
    }

    /// Writes the pattern to the buffer that rank 0 (bidirectional: each rank) sends first; all
    /// buffers that are to be overwritten differ from it in every byte.
    fn write_patterns(&mut self, seed: u64) {
        let own = self.pattern(seed, 1 - self.peer);
        if self.leads || self.mode == Mode::Bidirectional {
            own.fill(self.first);
        } else {
            self.pattern(seed, 0).fill_inverted(self.first);
        }
        self.pattern(seed, self.peer).fill_inverted(self.second);
    }

    /// Offset of the first byte that differs from what was sent, if any.
    fn mismatch(&mut self, round: &Round) -> Result<Option<usize>, Error> {
        let (received, origin): (&[u8], u32) = match self.mode {
            Mode::PingPong => {
                // One more exchange into the other buffer: rank 0's first buffer may have what
                // rank 0 itself wrote.
                if self.leads {
                    self.world.send(&*self.first, to(self.peer))?;
                    self.world.recv(&mut *self.second, from(self.peer))?;
                } else {
                    self.world.recv(&mut *self.second, from(self.peer))?;
                    self.world.send(&*self.first, to(self.peer))?;
                }
                (self.second, 0)
            }
            // Each pattern is sent to the other rank and comes back.
            Mode::Bidirectional if self.swapped => (self.second, self.peer),
            Mode::Bidirectional => (self.first, 1 - self.peer),
            Mode::Stream => (self.first, 0),
        };
        Ok(self.pattern(round.seed, origin).mismatch(received))
    }
}

#[inline]
fn receive<const ANY: bool>(world: &mut World, buffer: &mut [u8], peer: u32) -> Result<(), Error> {
    if ANY {
        world.scope(|scope| {
            let mut received = [scope.irecv(&mut *buffer, from_any())?];
            scope.wait_any(&mut received)?;
            Ok(())
        })
    } else {
        world.recv(buffer, from(peer))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_travel() {
        let plan = Plan {
            exchanges: u64::MAX,
            batch: 7,
        };
        assert_eq!(Plan::decode(plan.encode()), plan);
    }

    #[test]
    fn short_exchanges_are_timed_in_batches_and_long_ones_alone() {
        let time = Duration::from_millis(50);
        for (exchange_ns, batch) in [
            (100, 50),
            (1_999, 3),
            (2_000, 1),
            (40_000_000, 1),
            (0, 5000),
        ] {
            assert_eq!(Plan::batch(exchange_ns, time, 1), batch, "{exchange_ns} ns");
        }
    }

    #[test]
    fn plans_last_as_long_as_asked_but_one_batch_at_least() {
        let time = Duration::from_millis(50);
        assert_eq!(Plan::lasting(time, 100, 50).exchanges, 500_000);
        assert_eq!(Plan::lasting(time, 1_000_000_000, 1).exchanges, 1);
        assert_eq!(Plan::lasting(time, u64::MAX, 64).exchanges, 64);
        assert!(Plan::lasting(Duration::ZERO, 0, 1) != Plan::END);
    }

    #[test]
    fn long_rounds_do_not_make_endless_samples() {
        let time = Duration::from_secs(60);
        for exchange_ns in [50, 1_000, 2_000, 3_000, 100_000] {
            let batch = Plan::batch(exchange_ns, time, 1);
            let plan = Plan::lasting(time, exchange_ns, batch);
            assert!(
                plan.exchanges / batch <= u64::from(SAMPLES_MAX),
                "{exchange_ns}"
            );
        }
    }

    #[test]
    fn batches_of_a_stream_hold_whole_windows() {
        let time = Duration::from_millis(10);
        assert_eq!(Plan::batch(30, time, 64), 192);
        assert_eq!(Plan::lasting(time, 30, 192).exchanges % 192, 0);
        assert_eq!(Plan::batch(9_000, time, 64), 64);
    }

    #[test]
    fn windows_are_bounded_in_number_bytes_and_log() {
        let round = |bytes, mode| Round {
            bytes,
            mode,
            receive: Receive::Named,
            time: Duration::from_nanos(1),
            seed: 0,
        };
        let log = LogAccount::new(Some(LogRoom::new(512 << 20, 0.25)));
        let window = |bytes| window_messages(&round(bytes, Mode::Stream), &log);
        assert_eq!(window(1), 64);
        assert_eq!(window(4 << 20), 16);
        assert_eq!(window(256 << 20), 1);
        let small = LogAccount::new(Some(LogRoom::new(32 << 20, 0.25)));
        assert_eq!(
            window_messages(&round(1 << 20, Mode::Stream), &small),
            7,
            "8 MiB with headers"
        );
        assert_eq!(window_messages(&round(1, Mode::PingPong), &log), 1);
    }
}
