//! A master sends tasks to workers and receives their results from any source.

use super::error::{WorkloadError, ensure};
use super::horizon::Horizon;
use super::payload;
use super::prng::combine;
use refrain::{Request, Scope, Status, World, from, from_any, to};

/// Sections of the master's checkpoint: its progress, and the results.
const STATE: u64 = 1;
const LEDGER: u64 = 2;
const CONTEXT: u32 = 1;
const TAG_TASK: i32 = 21;
const TAG_RESULT: i32 = 22;
const TAG_STOP: i32 = 23;
/// Length of the task's number in bytes.
const HEAD_BYTES: usize = 8;
/// Number of results per worker that the master awaits at the same time.
const RESULTS_AHEAD: usize = 4;

/// Options of `any-source`.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Number of tasks.
    #[arg(long, default_value_t = 1000)]
    tasks: u64,
    /// Length of a task and of its result in bytes, besides their number.
    #[arg(long, default_value_t = 1024)]
    bytes: usize,
    /// Seed of the tasks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print on standard error the number of results of each worker.
    #[arg(long)]
    verbose: bool,
    #[command(flatten)]
    horizon: Horizon,
}

impl Options {
    fn message_bytes(&self) -> usize {
        HEAD_BYTES + self.bytes
    }

    fn task(&self, number: u64) -> Vec<u8> {
        let mut message = number.to_le_bytes().to_vec();
        message.resize(self.message_bytes(), 0);
        payload::fill(combine(&[self.seed, number]), &mut message[HEAD_BYTES..]);
        message
    }
}

fn number_of(message: &[u8]) -> u64 {
    u64::from_le_bytes(message[..HEAD_BYTES].try_into().expect("a head of 8 bytes"))
}

/// The work of a worker: a payload made from the hash of the whole task.
fn work(task: &[u8]) -> Vec<u8> {
    let mut result = task.to_vec();
    payload::fill(payload::hash(task), &mut result[HEAD_BYTES..]);
    result
}

fn check_status(status: Status, tag: i32, bytes: usize) -> Result<(), WorkloadError> {
    ensure!(
        (status.tag, status.bytes) == (tag, bytes as u64),
        "got {status:?}, expected {bytes} bytes with tag {tag}"
    );
    Ok(())
}

/// Runs the workload on this rank; rank 0 gets the line to print.
///
/// # Errors
/// Those of the library, and wrong results.
pub fn run(world: &mut World, options: &Options) -> Result<Option<String>, WorkloadError> {
    if world.rank().0 > 0 {
        serve(world, options)?;
        return Ok(None);
    }
    let mut ledger = Ledger::new(options, world.size());
    if world.size() == 1 {
        for number in 0..options.tasks {
            ledger.take(&work(&options.task(number)), 0)?;
        }
    } else {
        Master {
            options,
            handed_out: 0,
        }
        .run(world, &mut ledger)?;
    }
    ledger.finish()
}

/// The results received so far.
struct Ledger<'a> {
    options: &'a Options,
    done: Vec<bool>,
    per_rank: Vec<u64>,
    checksum: u64,
}

impl<'a> Ledger<'a> {
    fn new(options: &'a Options, ranks: u32) -> Self {
        Self {
            options,
            done: vec![false; options.tasks as usize],
            per_rank: vec![0; ranks as usize],
            checksum: 0,
        }
    }

    fn missing(&self) -> usize {
        self.done.iter().filter(|&&done| !done).count()
    }

    /// Checks a result and adds it to the checksum, which does not depend on the order of results.
    fn take(&mut self, result: &[u8], worker: u32) -> Result<(), WorkloadError> {
        let number = number_of(result);
        ensure!(
            number < self.options.tasks,
            "rank {worker} delivered task {number}, which does not exist"
        );
        ensure!(
            !self.done[number as usize],
            "the result of task {number} came twice, now from rank {worker}"
        );
        let expected = work(&self.options.task(number));
        if let Some(at) = payload::first_difference(result, &expected) {
            return Err(WorkloadError::Verification(format!(
                "byte {at} of the result of task {number} from rank {worker} is wrong"
            )));
        }
        self.done[number as usize] = true;
        self.per_rank[worker as usize] += 1;
        self.checksum = self.checksum.wrapping_add(payload::hash(result));
        Ok(())
    }

    fn finish(self) -> Result<Option<String>, WorkloadError> {
        let missing = self.missing();
        ensure!(missing == 0, "{missing} results are missing");
        if self.options.verbose {
            for (rank, results) in self.per_rank.iter().enumerate() {
                eprintln!("any-source: rank {rank} delivered {results} results");
            }
        }
        let tasks = self.options.tasks;
        Ok(Some(format!(
            "any-source: tasks {tasks} bytes {} checksum {:016x}",
            self.options.bytes, self.checksum
        )))
    }
}

/// A worker: a result for each task until the stop message.
fn serve(world: &mut World, options: &Options) -> Result<(), WorkloadError> {
    // A restored worker continues with the next task.
    drop(world.restored()?);
    let mut task = vec![0; options.message_bytes()];
    for served in 0.. {
        let status = world.recv(&mut task, from(0).any_tag().context(CONTEXT))?;
        if status.tag == TAG_STOP {
            break;
        }
        check_status(status, TAG_TASK, task.len())?;
        let number = number_of(&task);
        let rank = world.rank();
        ensure!(
            task == options.task(number),
            "task {number} arrived damaged at rank {rank}"
        );
        world.send(&work(&task), to(0).tag(TAG_RESULT).context(CONTEXT))?;
        // The only state of a worker is its position in the loop.
        options.horizon.after(world, served, |_| Ok(()))?;
    }
    Ok(())
}

struct Master<'a> {
    options: &'a Options,
    handed_out: u64,
}

impl Master<'_> {
    fn run(&mut self, world: &mut World, ledger: &mut Ledger<'_>) -> Result<(), WorkloadError> {
        let mut first_wave = 0;
        if let Some(mut restored) = world.restored()? {
            (self.handed_out, first_wave) = restored.value(STATE)?;
            (ledger.done, ledger.per_rank, ledger.checksum) = restored.value(LEDGER)?;
        } else {
            for worker in 1..world.size() {
                self.hand_out(world, worker)?;
            }
        }
        let results_ahead = RESULTS_AHEAD * (world.size() as usize - 1);
        let mut buffers = vec![vec![0; self.options.message_bytes()]; results_ahead];
        for wave in first_wave.. {
            let expected = ledger.missing().min(results_ahead);
            if expected == 0 {
                break;
            }
            let statuses =
                world.scope(|scope| self.wave(scope, &mut buffers[..expected], wave % 2 == 0))?;
            for (buffer, status) in buffers.iter().zip(statuses) {
                check_status(status, TAG_RESULT, buffer.len())?;
                ledger.take(buffer, status.source.0)?;
            }
            let handed_out = self.handed_out;
            self.options.horizon.after(world, wave, |image| {
                image.protect_value(STATE, &(handed_out, wave + 1))?;
                image.protect_value(LEDGER, &(&ledger.done, &ledger.per_rank, ledger.checksum))
            })?;
        }
        Ok(())
    }

    /// Sends the next task to a worker, or the stop message.
    fn hand_out(&mut self, world: &mut World, worker: u32) -> Result<(), refrain::Error> {
        if self.handed_out == self.options.tasks {
            return world.send(&[0u8; 0], to(worker).tag(TAG_STOP).context(CONTEXT));
        }
        let task = self.options.task(self.handed_out);
        self.handed_out += 1;
        world.send(&task, to(worker).tag(TAG_TASK).context(CONTEXT))
    }

    /// Receives one result into each buffer and hands the next task to its worker; returns
    /// the statuses.
    fn wave<'env>(
        &mut self,
        scope: &mut Scope<'_, 'env>,
        buffers: &'env mut [Vec<u8>],
        one_by_one: bool,
    ) -> Result<Vec<Status>, refrain::Error> {
        let mut requests = Vec::with_capacity(buffers.len());
        for buffer in buffers {
            requests.push(scope.irecv(buffer, from_any().tag(TAG_RESULT).context(CONTEXT))?);
        }
        let mut statuses = vec![None; requests.len()];
        while !requests.iter().all(Request::is_null) {
            let completed = if one_by_one {
                scope.wait_any(&mut requests)?.into_iter().collect()
            } else {
                scope.wait_some(&mut requests)?
            };
            for (index, status) in completed {
                statuses[index] = Some(status);
                self.hand_out(scope.world(), status.source.0)?;
            }
        }
        let statuses: Option<Vec<Status>> = statuses.into_iter().collect();
        let missing = "a request ended without a status".to_owned();
        statuses.ok_or(refrain::Error::Argument(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        Options {
            tasks: 5,
            bytes: 100,
            seed: 9,
            verbose: false,
            horizon: Horizon::never(),
        }
    }

    fn line(order: &[u64]) -> String {
        let options = options();
        let mut ledger = Ledger::new(&options, 3);
        for &number in order {
            ledger
                .take(&work(&options.task(number)), 1 + number as u32 % 2)
                .unwrap();
        }
        ledger.finish().unwrap().unwrap()
    }

    #[test]
    fn checksum_does_not_depend_on_the_order_of_results() {
        assert_eq!(line(&[0, 1, 2, 3, 4]), line(&[4, 2, 0, 3, 1]));
    }

    #[test]
    fn damaged_repeated_and_missing_results_are_noticed() {
        let options = options();
        let mut ledger = Ledger::new(&options, 2);
        let good = work(&options.task(3));
        let mut bad = good.clone();
        bad[50] ^= 1;
        assert!(ledger.take(&bad, 1).is_err());
        ledger.take(&good, 1).unwrap();
        assert!(ledger.take(&good, 1).is_err());
        assert!(ledger.finish().is_err());
    }
}
