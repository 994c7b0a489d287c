//! Collectives of all kinds on several groups, blocking, non-blocking and persistent, with messages
//! from any source between them. All ranks derive the same plan from the seed, and each compares
//! its results with the plainest way to them.

mod case;
mod spread;

use super::error::{WorkloadError, ensure};
use super::horizon::Horizon;
use super::prng::{Prng, combine};
use super::watchdog::Watchdog;
use case::{Buffers, Case};
use refrain::collective::{InPlace, Operator, allreduce};
use refrain::{Group, Request, Scope, World, from_any};

/// Collectives of a round.
const CASES: u32 = 12;
/// Groups that a rank is in, beside that of all ranks.
const SLOTS: usize = 3;
/// Section of a checkpoint: number of rounds, checksum, and groups.
const STATE: u64 = 1;

/// Options of `collectives`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of rounds, each with 12 collectives.
    #[arg(long, default_value_t = 40)]
    rounds: u64,
    /// Length of the longest block or vector in bytes.
    #[arg(long, default_value_t = 64 << 10)]
    bytes_max: u64,
    /// Time without progress of a rank after which it gives up; 0: never.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
    #[command(flatten)]
    horizon: Horizon,
}

/// State of a rank between two rounds.
#[derive(Clone, Copy, Debug, Default, serde::Serialize, serde::Deserialize)]
struct State {
    rounds: u64,
    checksum: u64,
    /// `None`: this rank is in no group of this slot.
    groups: [Option<Group>; SLOTS],
}

/// How a collective is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Blocking,
    NonBlocking,
    /// Twice, if that has the same result.
    Persistent,
}

/// A collective of a round at this rank.
struct Part {
    /// Index of the collective in the round, the same at all members.
    index: u32,
    group: Group,
    manner: Manner,
    case: Case,
    buffers: Buffers,
}

/// Runs the workload on this rank; rank 0 gets the line to print.
///
/// # Errors
/// Those of the library, and a result that is not the expected one.
pub fn run(world: &mut World, options: &Options) -> Result<Option<String>, WorkloadError> {
    let watchdog = Watchdog::start(options.patience);
    let mut state = match world.restored()? {
        Some(mut restored) => restored.value(STATE)?,
        None => State::default(),
    };
    while state.rounds < options.rounds {
        let round = state.rounds;
        let place = format!("seed {}, round {round}", options.seed);
        watchdog.place(place.clone());
        let checksum = next_groups(world, options.seed, &mut state)
            .and_then(|()| run_round(world, options, &state))
            .map_err(|error| error.at(&place))?;
        state.checksum = combine(&[state.checksum, checksum]);
        state.rounds += 1;
        options
            .horizon
            .after(world, round, |image| image.protect_value(STATE, &state))?;
    }
    let mut checksum = [state.checksum];
    world.collective(allreduce(
        world.all(),
        Operator::Sum,
        InPlace,
        &mut checksum,
    ))?;
    let [checksum] = checksum;
    Ok((world.rank().0 == 0).then(|| {
        format!(
            "collectives: seed {} rounds {} checksum {checksum:016x}",
            options.seed, options.rounds
        )
    }))
}

/// Replaces the groups of one slot: by parts of another group, or by a duplicate.
fn next_groups(world: &mut World, seed: u64, state: &mut State) -> Result<(), WorkloadError> {
    let mut random = Prng::new(combine(&[seed, 2, state.rounds]));
    let (slot, parent) = (random.below(SLOTS), random.below(SLOTS + 1));
    let (duplicates, colors) = (random.chance(4), 1 + random.below(3) as u64);
    let parent = match parent {
        SLOTS => Some(world.all()),
        _ if parent == slot => Some(world.all()),
        _ => state.groups[parent],
    };
    let own = |what| combine(&[seed, what, state.rounds, world.rank().0.into()]);
    let (color, key) = (own(3) % (colors + 1), own(4) as i64);
    let made = match parent {
        None => None,
        Some(parent) if duplicates => Some(world.duplicate(parent)?),
        Some(parent) => {
            let color = (color < colors).then_some(color as u32);
            world.split(parent, color, key)?
        }
    };
    let old = core::mem::replace(&mut state.groups[slot], made);
    if let Some(old) = old {
        world.release(old)?;
    }
    Ok(())
}

/// Runs a round; returns a checksum of all results.
fn run_round(world: &mut World, options: &Options, state: &State) -> Result<u64, WorkloadError> {
    let mut parts = plan(world, options, state)?;
    let own = combine(&[options.seed, 5, state.rounds, world.rank().0.into()]);
    let mut random = Prng::new(own);
    let mut shifts = Vec::new();
    world.scope(|scope| {
        let mut pending = Vec::new();
        for part in &mut parts {
            let (index, group) = (part.index, part.group);
            run_part(scope, part, &mut pending)?;
            if index % 3 == 0 {
                shifts.push(shift(scope.world(), group, index)?);
            }
            if random.chance(2) {
                complete_some(scope, &mut pending, &mut random)?;
            }
        }
        scope.wait_all(&mut pending)
    })?;
    let mut checksum = combine(&shifts);
    for part in &parts {
        let (is, expected) = (&part.buffers.output, &part.buffers.expected);
        let expected = expected.as_ref().unwrap_or(is);
        let checked = &is[..expected.len()];
        let differs = checked.iter().zip(expected).position(|(is, it)| is != it);
        ensure!(
            differs.is_none(),
            "collective {}: element {} is {:#x}, expected {:#x}: {:?} of {:?}",
            part.index,
            differs.unwrap_or_default(),
            checked[differs.unwrap_or_default()],
            expected[differs.unwrap_or_default()],
            part.case,
            part.group
        );
        checksum = combine(&[checksum, combine(checked)]);
    }
    Ok(checksum)
}

/// The collectives of a round at this rank.
fn plan(world: &mut World, options: &Options, state: &State) -> Result<Vec<Part>, WorkloadError> {
    let mut random = Prng::new(combine(&[options.seed, 6, state.rounds]));
    let mut parts = Vec::new();
    for index in 0..CASES {
        let slot = random.below(SLOTS + 1);
        let manner = [
            Manner::Blocking,
            Manner::NonBlocking,
            Manner::NonBlocking,
            Manner::Persistent,
        ];
        let manner = random.pick(&manner);
        let group = match state.groups.get(slot) {
            Some(group) => *group,
            None => Some(world.all()),
        };
        let Some(group) = group else { continue };
        let first = world.members(group)?[0];
        let seed = combine(&[options.seed, 7, state.rounds, index.into(), first.0.into()]);
        let case = Case::random(group.size(), options.bytes_max / 8, seed);
        parts.push(Part {
            index,
            group,
            manner,
            buffers: case.buffers(group.place())?,
            case,
        });
    }
    Ok(parts)
}

fn run_part<'env>(
    scope: &mut Scope<'_, 'env>,
    part: &'env mut Part,
    pending: &mut Vec<Request>,
) -> Result<(), refrain::Error> {
    let Part {
        group,
        manner,
        case,
        buffers,
        ..
    } = part;
    match manner {
        Manner::Blocking => {
            let call = case.collective(*group, buffers)?;
            scope.world().collective(call)
        }
        Manner::NonBlocking => {
            pending.push(scope.icollective(case.collective(*group, buffers)?)?);
            Ok(())
        }
        Manner::Persistent => {
            let repeats = case.may_repeat();
            let mut request = scope.collective_init(case.collective(*group, buffers)?)?;
            scope.start(&mut request)?;
            if repeats {
                scope.wait(&mut request)?;
                scope.start(&mut request)?;
            }
            pending.push(request);
            Ok(())
        }
    }
}

/// Each member sends a word to a member above it, and receives from any.
fn shift(world: &mut World, group: Group, index: u32) -> Result<u64, refrain::Error> {
    let to = (group.place() + index) % group.size();
    let to = world.to_member(group, to)?.tag(index as i32);
    let from = from_any().tag(index as i32).context(to.context);
    let mut word = [0; 8];
    world.sendrecv(&u64::from(group.place()).to_le_bytes(), to, &mut word, from)?;
    Ok(u64::from_le_bytes(word))
}

/// Completes some of the pending collectives, perhaps none.
fn complete_some(
    scope: &mut Scope<'_, '_>,
    pending: &mut Vec<Request>,
    random: &mut Prng,
) -> Result<(), refrain::Error> {
    let Some(last) = pending.len().checked_sub(1) else {
        return Ok(());
    };
    let one = random.below(last + 1);
    match random.below(4) {
        0 => drop(scope.wait(&mut pending[one])?),
        1 => drop(scope.test(&mut pending[one])?),
        2 => drop(scope.wait_any(pending)?),
        _ => drop(scope.test_some(pending)?),
    }
    pending.retain(|request| !request.is_null() && scope.is_active(request));
    Ok(())
}

#[cfg(test)]
mod tests;
