//! Generates a plan from a seed: rounds, loggers, network, log, faults.

use super::{
    CollectivePlan, FaultKind, FaultPlan, LogPlan, LoggersPlan, MessagePlan, Moment, NetworkPlan,
    Plan, Process, RoundPlan, WayPlan,
};
use crate::collective::{ELEMENT_BYTES, Part, Shape};
use crate::plan::STAMP_BYTES;
use crate::planted::Planted;
use fastrand::Rng;
use refrain_collectives::{Action, Operation};
use refrain_eventlog::Level;
use refrain_logging::Member;
use refrain_logging::held::Tolerance;
use refrain_logging::spill::SpillOptions;
use refrain_ring::{CHUNK_BYTES, Rank};

/// Options of generated plans; the seed decides the rest.
#[derive(Clone, Copy, Debug)]
pub struct PlanOptions {
    /// Number of ranks: 2 to [`PlanOptions::RANKS_MAX`].
    pub ranks: Option<u32>,
    /// The logging protocol.
    pub protocol: Option<Member>,
    /// Approximate number of operations of each rank.
    pub operations: u32,
    /// The bug to plant.
    pub planted: Option<Planted>,
    /// Whether the plan has faults.
    pub has_faults: bool,
}

impl PlanOptions {
    /// Maximum number of ranks.
    pub const RANKS_MAX: u32 = 16;
}

impl Default for PlanOptions {
    fn default() -> Self {
        Self {
            ranks: None,
            protocol: None,
            operations: 200,
            planted: None,
            has_faults: true,
        }
    }
}

/// Numbers of ranks to draw from if the options state none.
const RANKS: [u32; 8] = [2, 3, 3, 4, 4, 4, 5, 6];

impl Plan {
    /// Generates the plan of a seed.
    pub fn generate(seed: u64, options: &PlanOptions) -> Self {
        // Each subject has its own random numbers: an option changes its subject only.
        let chance = |subject: u64| Rng::with_seed(seed ^ subject << 56);
        let mut rng = chance(1);
        let drawn = RANKS[rng.usize(0..RANKS.len())];
        let ranks = options
            .ranks
            .unwrap_or(drawn)
            .clamp(2, PlanOptions::RANKS_MAX);
        let is_classic = rng.u32(0..4) == 0;
        let drawn = match (is_classic, chance(8).u64(..) >> 20 & 7) {
            (false, 0) => Member::Ticket,
            (true, 0) => Member::TicketClassic,
            (false, 1) => Member::Causal,
            (true, 1) => Member::CausalClassic,
            (false, _) => Member::Pessimist,
            (true, _) => Member::PessimistClassic,
        };
        let needs = |what: fn(Planted) -> bool| options.planted.is_some_and(what);
        let lengths = Lengths::new(&mut rng);
        let mut rounds = rounds(&mut chance(2), ranks, options.operations, lengths);
        let groups = add_collectives(&mut chance(6), ranks, &mut rounds, lengths);
        let first_clock = match rng.u32(0..4) {
            0 => (1 << 32) - rng.u64(0..400),
            1 => u64::MAX - (1 << 40) + rng.u64(0..400),
            _ => 0,
        };
        let mut plan = Self {
            seed,
            ranks,
            protocol: options
                .protocol
                .unwrap_or(match needs(Planted::needs_carriers) {
                    true => Member::Causal,
                    false => drawn,
                }),
            rounds,
            groups,
            scripts: Vec::new(),
            loggers: loggers(&mut chance(3)),
            network: network(&mut chance(4)),
            log: super::LogPlan {
                memory_bytes: 0,
                disk_bytes: 0,
            },
            whole: None,
            set_of_rank: Vec::new(),
            failures_at_once: 1,
            has_loggers_beside: false,
            first_clock,
            faults: Vec::new(),
            planted: options.planted,
        };
        let is_whole = needs(Planted::needs_whole_collectives) || chance(7).bool();
        plan.whole = is_whole.then_some(ranks - 1);
        plan.log = log(&plan, lengths);
        add_sets(&mut chance(9), &mut plan, needs(Planted::needs_sets));
        plan.failures_at_once = chance(10).usize(1..=3);
        plan.fit_tolerance();
        let has_loggers_beside = needs(Planted::needs_loggers_beside) || chance(11).u32(0..3) == 0;
        plan.has_loggers_beside = has_loggers_beside && plan.protocol.carries();
        if options.has_faults {
            plan.faults = faults(&mut chance(5), &plan, options.operations);
            plan.has_loggers_beside &= !plan.loses_events();
            if let Some(tolerance) = plan.tolerance() {
                if !plan.has_loggers_beside {
                    let of_loggers =
                        |fault: &FaultPlan| matches!(fault.process, Process::Logger(_));
                    plan.faults.retain(|fault| !of_loggers(fault));
                }
                keep_faults_of_few_ranks(&tolerance, &mut plan.faults);
            }
            if plan.loses_events() {
                // REC-9 compares the messages that peers have, not output.
                plan.rounds
                    .iter_mut()
                    .for_each(|round| round.prints.clear());
            }
        }
        plan
    }
}

/// Some jobs have correlated sets of two ranks or more. Mostly all members of a set take checkpoints in
/// the same rounds; a round of the set needs all of them.
fn add_sets(rng: &mut Rng, plan: &mut Plan, always: bool) {
    if rng.u32(0..4) > 0 && !always {
        return;
    }
    let size = rng.u32(2..=plan.ranks);
    let first = rng.u32(..) % plan.ranks;
    plan.set_of_rank = (0..plan.ranks)
        .map(|rank| (rank + first) % plan.ranks / size)
        .collect();
    let is_alike = rng.u32(0..4) > 0;
    for round in 0..plan.rounds.len() {
        let taking = plan.rounds[round].checkpoints.clone();
        let members: Vec<Rank> = (taking.iter())
            .flat_map(|rank| plan.members_of(*rank))
            .collect();
        for member in members {
            let checkpoints = &mut plan.rounds[round].checkpoints;
            if is_alike && !checkpoints.contains(&member) {
                checkpoints.push(member);
            }
        }
    }
}

/// Where ranks hold events for each other, most jobs would stop because too many ranks die at once:
/// keeps the deaths of as many sets, or ranks, and one more.
fn keep_faults_of_few_ranks(tolerance: &Tolerance, faults: &mut Vec<FaultPlan>) {
    let mut dying = Vec::new();
    faults.retain(|fault| match (fault.process, fault.kind) {
        (Process::Rank(rank), FaultKind::Kill | FaultKind::PowerLoss | FaultKind::Suspect) => {
            let domain = tolerance.domain(rank);
            if !dying.contains(&domain) && dying.len() <= tolerance.failures() {
                dying.push(domain);
            }
            dying.contains(&domain)
        }
        _ => true,
    });
}

/// Number of calls for one message, of its sender and its receiver together, in tenths.
const CALLS_PER_MESSAGE_TENTHS: u32 = 40;
/// Maximum length of a message, in bytes.
const BYTES_MAX: u32 = 100 << 10;

/// The preferred lengths of a plan's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lengths {
    /// Mostly up to 200 bytes; sometimes some KiB, rarely more.
    Short,
    /// Often long enough that logs are spilled.
    Long,
}

impl Lengths {
    pub fn new(rng: &mut Rng) -> Self {
        if rng.u32(0..12) == 0 {
            Self::Long
        } else {
            Self::Short
        }
    }

    fn draw(self, rng: &mut Rng) -> u32 {
        let least = STAMP_BYTES as u32;
        match (self, rng.u32(0..400)) {
            (Self::Short, 0) => rng.u32(10 << 10..=BYTES_MAX),
            (Self::Short, 1..20) => rng.u32(1 << 10..=9 << 10),
            (Self::Long, 0..280) => rng.u32(20 << 10..=BYTES_MAX),
            (_, 20..40) => least,
            _ => rng.u32(least..=200),
        }
    }
}

/// The senders and receivers in a round.
#[derive(Clone, Copy)]
enum Pattern {
    Random,
    /// From all ranks to one.
    Gather,
    /// From one rank to all.
    Scatter,
    /// From each rank to the next.
    Ring,
    /// From one rank to one other.
    Burst,
}

/// Generates rounds with about `operations` calls of each rank.
fn rounds(rng: &mut Rng, ranks: u32, operations: u32, lengths: Lengths) -> Vec<RoundPlan> {
    // If all messages are wild, receives may leave the tag open, too.
    let is_all_wild = rng.u32(0..8) == 0;
    let mut left = (ranks * operations * 10 / CALLS_PER_MESSAGE_TENTHS).max(1);
    let per_rank_max = rng.u32(2..=8);
    let (checkpoints_in_100, prints_in_100) = ([0, 10, 25][rng.usize(0..3)], rng.u32(0..40));
    let mut rounds = Vec::new();
    while left > 0 {
        let count = rng.u32(1..=ranks * per_rank_max).min(left);
        left -= count;
        let some = |rng: &mut Rng, percent: u32| {
            let ranks = (0..ranks).map(Rank);
            ranks.filter(|_| rng.u32(0..100) < percent).collect()
        };
        rounds.push(RoundPlan {
            messages: messages(rng, ranks, count, (lengths, is_all_wild)),
            collectives: Vec::new(),
            style_seed: rng.u64(..),
            checkpoints: some(rng, checkpoints_in_100),
            prints: some(rng, prints_in_100),
        });
    }
    rounds
}

fn messages(
    rng: &mut Rng,
    ranks: u32,
    count: u32,
    (lengths, is_all_wild): (Lengths, bool),
) -> Vec<MessagePlan> {
    let pattern = match rng.u32(0..12) {
        0 => Pattern::Gather,
        1 => Pattern::Scatter,
        2 => Pattern::Ring,
        3 => Pattern::Burst,
        _ => Pattern::Random,
    };
    let wild_in_100 = [10, 40, 70, 100][rng.usize(0..4)];
    let one = rng.u32(0..ranks);
    let next = |rank: u32, by: u32| (rank + by) % ranks;
    let other = |rng: &mut Rng, rank: u32| next(rank, rng.u32(1..ranks));
    (0..count)
        .map(|index| {
            let (from, to) = match pattern {
                Pattern::Random => {
                    let from = rng.u32(0..ranks);
                    match rng.u32(0..24) {
                        0 if !is_all_wild => (from, from),
                        _ => (from, other(rng, from)),
                    }
                }
                Pattern::Gather => (other(rng, one), one),
                Pattern::Scatter => (one, other(rng, one)),
                Pattern::Ring => (index % ranks, next(index, 1)),
                Pattern::Burst => (one, next(one, 1)),
            };
            let is_drawn = rng.u32(0..100) >= wild_in_100;
            let is_named = from == to || is_drawn && !is_all_wild;
            MessagePlan {
                from: Rank(from),
                to: Rank(to),
                is_named,
                bytes: lengths.draw(rng),
                is_synchronous: is_named && rng.u32(0..8) == 0,
            }
        })
        .collect()
}

/// Maximum number of groups.
const GROUPS_MAX: usize = 5;
/// Maximum number of elements that all members give to a collective or get from it.
const ELEMENTS_MAX: u64 = 4096;

/// Adds collectives to the rounds of two plans in three. Returns the groups.
fn add_collectives(
    rng: &mut Rng,
    ranks: u32,
    rounds: &mut [RoundPlan],
    lengths: Lengths,
) -> Vec<Vec<Rank>> {
    let mut groups = vec![(0..ranks).map(Rank).collect::<Vec<_>>()];
    let per_round_max = [0, 2, 4][rng.usize(0..3)];
    let is_any = per_round_max > 0;
    for round in rounds.iter_mut().filter(|_| is_any) {
        let made = groups.len();
        if made < GROUPS_MAX && rng.u32(0..3) == 0 {
            let group = rng.usize(0..made);
            let mut members = groups[group].clone();
            rng.shuffle(&mut members);
            members.truncate(rng.usize(1..=members.len()));
            groups.push(members);
            round.collectives.push(CollectivePlan {
                group,
                shape: Shape {
                    count: 1,
                    is_ragged: false,
                    ..shape(rng, Operation::Allgather, lengths, ranks)
                },
                makes: Some(made),
            });
        }
        for _ in 0..rng.usize(0..=per_round_max) {
            let operation = Operation::ALL[rng.usize(0..Operation::ALL.len())];
            round.collectives.push(CollectivePlan {
                group: rng.usize(0..made),
                shape: shape(rng, operation, lengths, ranks),
                makes: None,
            });
        }
    }
    groups
}

fn shape(rng: &mut Rng, operation: Operation, lengths: Lengths, ranks: u32) -> Shape {
    let algorithms = operation.algorithms();
    let elements = u64::from(lengths.draw(rng)) / ELEMENT_BYTES as u64;
    Shape {
        operation,
        algorithm: algorithms[rng.usize(0..algorithms.len())],
        root: rng.u32(0..ranks),
        count: match rng.u32(0..8) {
            0 => rng.u64(0..2),
            _ => elements.min(ELEMENTS_MAX / u64::from(ranks).pow(2)),
        },
        is_ragged: rng.bool(),
        in_place: rng.bool(),
    }
}

/// Maximum log space of a frame besides its payload, in bytes.
const FRAME_BYTES: u64 = 256;
/// Minimum payload of a fragment, in bytes.
const FRAGMENT_BYTES: u64 = 4 << 10;

/// Any supported configuration of loggers.
fn loggers(rng: &mut Rng) -> LoggersPlan {
    let replicas = [1, 2, 3, 3][rng.usize(0..4)];
    // The quorum is a majority or all.
    let majority = replicas / 2 + 1;
    let quorum = if rng.bool() { majority } else { replicas };
    let level = [Level::Durable, Level::Placed][usize::from(rng.bool())];
    let way = [WayPlan::OneSided, WayPlan::Messages][usize::from(rng.bool())];
    LoggersPlan {
        replicas,
        quorum,
        level,
        way,
    }
}

fn network(rng: &mut Rng) -> NetworkPlan {
    let (is_rough, reads_in_place) = (rng.u32(0..3) > 0, rng.bool());
    let distant_bytes_min = (rng.u32(0..3) == 0).then(|| [64, 512, 4096][rng.usize(0..3)]);
    NetworkPlan {
        is_rough,
        reads_in_place,
        distant_bytes_min,
        is_staged: !reads_in_place && distant_bytes_min.is_none() && rng.bool(),
    }
}

/// A log with room for everything that is ever sent: in memory, or for long messages, which shall
/// be spilled, in memory and on disk. A plan must not make its job stall.
fn log(plan: &Plan, lengths: Lengths) -> LogPlan {
    let peers = u64::from(plan.ranks - 1);
    let chunk = CHUNK_BYTES as u64;
    let most = (0..plan.ranks).map(|rank| needed_bytes(plan, Rank(rank)));
    let most = most.max().unwrap_or_default();
    // Results that are kept go to one more channel.
    let channels = peers + u64::from(plan.whole.is_some());
    if lengths == Lengths::Long {
        LogPlan {
            // The minimum of a real rank: two chunks for each channel, and one to recall spilled
            // messages that a peer needs.
            memory_bytes: (2 * channels + 1) * chunk,
            disk_bytes: (channels * SpillOptions::DISK_BYTES_MIN).max(2 * most)
                + SpillOptions::DISK_BYTES_MIN,
        }
    } else {
        LogPlan {
            memory_bytes: (most + 2 * channels * chunk).next_multiple_of(chunk),
            disk_bytes: 0,
        }
    }
}

/// Maximum log space that the messages of a rank take, in bytes.
fn needed_bytes(plan: &Plan, rank: Rank) -> u64 {
    let messages = plan.rounds.iter().flat_map(|round| &round.messages);
    let its = messages.filter(|message| message.from == rank);
    let messages = its.map(|message| u64::from(message.bytes));
    let collectives = plan.rounds.iter().flat_map(|round| &round.collectives);
    let steps = collectives.clone();
    let steps = steps.flat_map(|collective| steps_of(plan, collective, rank));
    // Results of all members may be kept, and be given to all of them.
    let kept = plan.whole.map_or(0, |failures| 2 * (failures as usize + 1));
    let results = collectives.flat_map(|collective| {
        let elements = collective.shape.count * 2 * u64::from(plan.ranks);
        core::iter::repeat_n(elements * ELEMENT_BYTES as u64, kept)
    });
    let all = messages.chain(steps).chain(results);
    all.map(|bytes| bytes + bytes / 2 + FRAME_BYTES * (1 + bytes / FRAGMENT_BYTES))
        .sum()
}

/// Lengths of the messages that a rank sends in a collective, in bytes.
fn steps_of(plan: &Plan, collective: &CollectivePlan, rank: Rank) -> Vec<u64> {
    let members = &plan.groups[collective.group];
    let Some(me) = members.iter().position(|member| *member == rank) else {
        return Vec::new();
    };
    let part = Part {
        shape: collective.shape,
        size: members.len() as u32,
        me: me as u32,
    };
    let schedule = part.schedule(false).schedule;
    let sends = schedule.steps().iter().flat_map(|step| match step.action {
        Action::Send { from, .. } => vec![from.count],
        Action::Publish { number, from, .. } => vec![from.count; number as usize - 1],
        _ => Vec::new(),
    });
    sends.map(|count| count * ELEMENT_BYTES as u64).collect()
}

/// Approximate number of steps of a job for each operation of a rank.
const STEPS_PER_OPERATION: u64 = 4;

/// The state from which faults are drawn.
struct Draw<'a> {
    rng: &'a mut Rng,
    plan: &'a Plan,
    /// Approximate number of steps of the job.
    steps: u64,
    /// Approximate number of effects of a process.
    effects: u64,
    faults: Vec<FaultPlan>,
}

fn faults(rng: &mut Rng, plan: &Plan, operations: u32) -> Vec<FaultPlan> {
    // Some seeds have no faults: their findings are simpler. Some only lose events: combined with
    // other faults nothing would be promised.
    let is_simple = rng.u32(0..6) == 0;
    let loses_events = is_simple && rng.bool();
    if is_simple && !loses_events {
        return Vec::new();
    }
    let operations = u64::from(operations.max(1));
    let mut draw = Draw {
        rng,
        plan,
        steps: operations * STEPS_PER_OPERATION * u64::from(plan.ranks),
        effects: operations,
        faults: Vec::new(),
    };
    if loses_events {
        let kind = FaultKind::LoseEvents(draw.rng.u8(0..100));
        draw.add_at_step(kind, Draw::some_rank);
    } else {
        for _ in 0..draw.rng.u32(1..=4) {
            draw.more();
        }
    }
    draw.faults
}

impl Draw<'_> {
    fn more(&mut self) {
        match self.rng.u32(0..22) {
            0..6 => self.kill_of_rank(),
            6 => self.correlated(),
            7 => self.again_and_again(),
            8..12 => self.of_logger(),
            12..14 => self.of_checkpoints(),
            14 | 15 => self.pause(),
            16 | 17 => self.add_at_step(FaultKind::Suspect, Self::some_rank),
            18 | 19 => self.add_at_step(FaultKind::Disconnect, Self::some_rank),
            _ => self.of_disk(),
        }
    }

    fn some_rank(&mut self) -> Process {
        Process::Rank(Rank(self.rng.u32(0..self.plan.ranks)))
    }

    fn some_logger(&mut self) -> Process {
        Process::Logger(self.rng.u32(0..self.plan.loggers.replicas))
    }

    fn step(&mut self) -> Moment {
        Moment::Step(self.rng.u64(0..self.steps))
    }

    fn effect(&mut self) -> Moment {
        Moment::Effect {
            number: self.rng.u64(0..self.effects),
            before: self.rng.bool(),
        }
    }

    fn moment(&mut self) -> Moment {
        if self.rng.u32(0..3) == 0 {
            self.step()
        } else {
            self.effect()
        }
    }

    fn add(&mut self, process: Process, moment: Moment, kind: FaultKind) {
        self.faults.push(FaultPlan {
            process,
            moment,
            kind,
        });
    }

    fn add_at_step(&mut self, kind: FaultKind, whom: impl Fn(&mut Self) -> Process) {
        let (process, moment) = (whom(self), self.step());
        self.add(process, moment, kind);
    }

    fn kill_of_rank(&mut self) {
        let (process, moment) = (self.some_rank(), self.moment());
        self.add(process, moment, FaultKind::Kill);
    }

    /// Several kills at one step: ranks, and perhaps a logger.
    fn correlated(&mut self) {
        let moment = self.step();
        let first = self.rng.u32(0..self.plan.ranks);
        for by in 0..self.rng.u32(2..=self.plan.ranks) {
            let rank = Rank((first + by) % self.plan.ranks);
            self.add(Process::Rank(rank), moment, FaultKind::Kill);
        }
        if self.rng.bool() {
            let logger = self.some_logger();
            self.add(logger, moment, FaultKind::Kill);
        }
    }

    /// Several kills of one rank, during its recovery and after.
    fn again_and_again(&mut self) {
        let process = self.some_rank();
        let begin = self.rng.u64(0..self.steps);
        let mut step = begin;
        for _ in 0..self.rng.u32(2..=4) {
            self.add(process, Moment::Step(step), FaultKind::Kill);
            step += self.rng.u64(1..200);
        }
    }

    fn of_logger(&mut self) {
        let (process, moment) = (self.some_logger(), self.moment());
        // Loggers at level `placed` do not promise to survive a power loss.
        let is_durable = self.plan.loggers.level == Level::Durable;
        let kind = match self.rng.u32(0..6) {
            0 | 1 if is_durable => FaultKind::PowerLoss,
            2 => FaultKind::Forget,
            _ => FaultKind::Kill,
        };
        self.add(process, moment, kind);
    }

    fn of_checkpoints(&mut self) {
        let moment = self.moment();
        let kind = [FaultKind::Kill, FaultKind::PowerLoss][usize::from(self.rng.bool())];
        self.add(Process::Checkpoints, moment, kind);
        if self.rng.bool() {
            // The rank then asks for its checkpoint.
            self.kill_of_rank();
        }
    }

    fn pause(&mut self) {
        let steps = self.rng.u64(10..600);
        let process = match self.rng.u32(0..4) {
            0 => self.some_logger(),
            _ => self.some_rank(),
        };
        self.add_at_step(FaultKind::Pause(steps), |_| process);
    }

    fn of_disk(&mut self) {
        let steps = self.rng.u64(10..600);
        let kinds = [FaultKind::DiskSlow(steps), FaultKind::DiskFull(steps)];
        let kind = kinds[usize::from(self.rng.bool())];
        let process = match self.rng.u32(0..3) {
            // Only spilling logs have a disk.
            0 if self.plan.log.disk_bytes > 0 => self.some_rank(),
            1 => Process::Checkpoints,
            _ => self.some_logger(),
        };
        self.add_at_step(kind, |_| process);
    }
}
