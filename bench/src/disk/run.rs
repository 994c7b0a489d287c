//! Many blocks, several at once.

use super::{BLOCK_BYTES, Block, DiskError, Lane, Transferred};
use crate::interrupt::Interrupt;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often Ctrl-C is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// To the disk, or from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To it.
    Write,
    /// From it.
    Read,
}

/// How much is transferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// Every block of every lane, once.
    Through,
    /// As much as goes in `timed`, from `warm_up` on; lanes begin anew at their
    /// end.
    Time {
        /// Not counted.
        warm_up: Duration,
        /// Counted.
        timed: Duration,
    },
}

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// To the disk, or from it.
    pub access: Access,
    /// Transfers under way at once, for each lane.
    pub in_flight: usize,
    /// How much.
    pub until: Until,
}

/// What the threads of one run share.
struct Shared {
    access: Access,
    around: bool,
    done_bytes: AtomicU64,
    stop: AtomicBool,
    failed: Mutex<Option<io::Error>>,
}

impl Shared {
    fn fail(&self, error: io::Error) {
        self.stop.store(true, Ordering::Relaxed);
        let mut failed = self.failed.lock().unwrap_or_else(|held| held.into_inner());
        failed.get_or_insert(error);
    }
}

/// Transfers on all lanes at once, in order on each. `folder` is for messages.
///
/// # Errors
/// When a transfer fails, or somebody asks for the end.
pub fn run(
    lanes: &[Lane],
    folder: &Path,
    load: Load,
    interrupt: &Interrupt,
) -> Result<Transferred, DiskError> {
    let Load {
        access,
        in_flight,
        until,
    } = load;
    let shared = Shared {
        access,
        around: until != Until::Through,
        done_bytes: AtomicU64::new(0),
        stop: AtomicBool::new(false),
        failed: Mutex::new(None),
    };
    let cursors: Vec<AtomicU64> = lanes.iter().map(|_| AtomicU64::new(0)).collect();
    // Before the clock runs: filling them takes as long as writing some of them.
    let blocks: Vec<Block> = (0..lanes.len() * in_flight)
        .map(|index| Block::random(index as u64))
        .collect();
    let transferred = thread::scope(|scope| {
        let mut workers = Vec::new();
        let began = Instant::now();
        for (index, mut block) in blocks.into_iter().enumerate() {
            let (lane, cursor) = (&lanes[index / in_flight], &cursors[index / in_flight]);
            let shared = &shared;
            workers.push(scope.spawn(move || {
                transfer(lane, cursor, &mut block, shared)
                    .unwrap_or_else(|error| shared.fail(error));
            }));
        }
        let is_over = || workers.iter().all(thread::ScopedJoinHandle::is_finished);
        let transferred = match until {
            Until::Through => {
                nap(Duration::MAX, interrupt, is_over);
                None
            }
            Until::Time { warm_up, timed } => {
                nap(warm_up, interrupt, is_over);
                let (before, from) = (shared.done_bytes.load(Ordering::Relaxed), Instant::now());
                nap(timed, interrupt, is_over);
                let bytes = shared.done_bytes.load(Ordering::Relaxed) - before;
                Some((bytes, from.elapsed()))
            }
        };
        shared.stop.store(true, Ordering::Relaxed);
        for worker in workers {
            // A panic there would be one here.
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
        transferred.unwrap_or_else(|| (shared.done_bytes.load(Ordering::Relaxed), began.elapsed()))
    });
    interrupt.check()?;
    let failed = shared
        .failed
        .into_inner()
        .unwrap_or_else(|held| held.into_inner());
    if let Some(error) = failed {
        let attempted = match access {
            Access::Write => "cannot write",
            Access::Read => "cannot read",
        };
        return Err(DiskError::system(attempted, folder)(error));
    }
    let (bytes, time) = transferred;
    Ok(Transferred {
        bytes,
        seconds: time.as_secs_f64(),
    })
}

/// Waits for `time`, the end of the work, or Ctrl-C, whatever is first.
fn nap(time: Duration, interrupt: &Interrupt, is_over: impl Fn() -> bool) {
    let began = Instant::now();
    while !interrupt.requested() && !is_over() {
        let left = time.saturating_sub(began.elapsed());
        if left.is_zero() {
            return;
        }
        // The end of a run through is to be seen soon; it counts.
        let look = if time == Duration::MAX {
            Duration::from_millis(1)
        } else {
            LOOK
        };
        thread::sleep(left.min(look));
    }
}

/// What one of the threads of a lane does: block after block, each once.
fn transfer(lane: &Lane, cursor: &AtomicU64, block: &mut Block, shared: &Shared) -> io::Result<()> {
    while !shared.stop.load(Ordering::Relaxed) {
        let index = cursor.fetch_add(1, Ordering::Relaxed);
        if index >= lane.blocks() && !shared.around {
            break;
        }
        let offset = index % lane.blocks() * BLOCK_BYTES as u64;
        match shared.access {
            Access::Write => lane.file().write_all_at(block.bytes(), offset)?,
            Access::Read => lane.file().read_exact_at(block.bytes_mut(), offset)?,
        }
        shared
            .done_bytes
            .fetch_add(BLOCK_BYTES as u64, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Way;

    fn load(access: Access, until: Until) -> Load {
        Load {
            access,
            in_flight: 3,
            until,
        }
    }

    fn lanes(folder: &Path, blocks: u64) -> Vec<Lane> {
        let lane = || Lane::create(folder, blocks * BLOCK_BYTES as u64, Way::Direct).unwrap();
        vec![lane(), lane()]
    }

    #[test]
    fn every_block_of_every_lane_is_written_once_and_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let lanes = lanes(folder.path(), 21);
        let interrupt = Interrupt::default();
        for access in [Access::Write, Access::Read] {
            let done = run(
                &lanes,
                folder.path(),
                load(access, Until::Through),
                &interrupt,
            )
            .unwrap();
            assert_eq!(done.bytes, 2 * 21 * BLOCK_BYTES as u64, "{access:?}");
            assert!(done.bytes_per_s() > 0.0);
        }
        // Preallocated blocks are zero until they are written.
        let mut block = Block::random(0);
        for lane in &lanes {
            for index in 0..21 {
                let offset = index * BLOCK_BYTES as u64;
                lane.file()
                    .read_exact_at(block.bytes_mut(), offset)
                    .unwrap();
                assert!(block.bytes().iter().any(|byte| *byte != 0), "block {index}");
            }
        }
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            0,
            "no names"
        );
    }

    #[test]
    fn a_timed_run_goes_around_and_never_beyond_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let lanes = lanes(folder.path(), 2);
        let until = Until::Time {
            warm_up: Duration::from_millis(20),
            timed: Duration::from_millis(200),
        };
        let done = run(
            &lanes,
            folder.path(),
            load(Access::Write, until),
            &Interrupt::default(),
        )
        .unwrap();
        assert!(done.seconds >= 0.2);
        for lane in &lanes {
            let length = lane.file().metadata().unwrap().len();
            assert_eq!(length, 2 * BLOCK_BYTES as u64);
        }
    }

    #[test]
    fn errors_and_interrupts_end_it() {
        let folder = tempfile::tempdir().unwrap();
        let lanes = lanes(folder.path(), 4);
        lanes[1].file().set_len(0).unwrap();
        let result = run(
            &lanes,
            folder.path(),
            load(Access::Read, Until::Through),
            &Interrupt::default(),
        );
        assert!(
            matches!(
                result,
                Err(DiskError::System {
                    attempted: "cannot read",
                    ..
                })
            ),
            "{result:?}"
        );
        let interrupt = Interrupt::default();
        interrupt.request();
        let result = run(
            &lanes,
            folder.path(),
            load(Access::Write, Until::Through),
            &interrupt,
        );
        assert!(
            matches!(result, Err(DiskError::Interrupted(_))),
            "{result:?}"
        );
    }
}
