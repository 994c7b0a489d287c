//! The collective operations that the workloads need, built from point-to-point messages in a
//! separate context.

use super::error::WorkloadError;
use refrain::{World, from, to};

/// The context of these operations; workloads do not use it.
pub const CONTEXT: u32 = 0;
const TAG_UP: i32 = 1;
const TAG_DOWN: i32 = 2;
const TAG_BARRIER: i32 = 16;

/// The wrapping sum of the values of all ranks, on all ranks.
///
/// # Errors
/// Those of the library.
pub fn sum(world: &mut World, value: u64) -> Result<u64, WorkloadError> {
    let rank = world.rank().0;
    let children: Vec<u32> = [2 * rank + 1, 2 * rank + 2]
        .into_iter()
        .filter(|&child| child < world.size())
        .collect();
    let mut total = value;
    for &child in &children {
        total = total.wrapping_add(receive_word(world, child, TAG_UP)?);
    }
    if rank > 0 {
        let parent = (rank - 1) / 2;
        send_word(world, parent, TAG_UP, total)?;
        total = receive_word(world, parent, TAG_DOWN)?;
    }
    for child in children {
        send_word(world, child, TAG_DOWN, total)?;
    }
    Ok(total)
}

/// Returns when every rank has called it (dissemination, Hensgen et al. 1988).
///
/// # Errors
/// Those of the library.
pub fn barrier(world: &mut World) -> Result<(), WorkloadError> {
    let (rank, size) = (world.rank().0, world.size());
    let mut distance = 1;
    let mut tag = TAG_BARRIER;
    while distance < size {
        let next = (rank + distance) % size;
        let previous = (rank + size - distance) % size;
        let mut nothing = [0u8; 1];
        world.sendrecv(
            &[0u8; 0],
            to(next).tag(tag).context(CONTEXT),
            &mut nothing,
            from(previous).tag(tag).context(CONTEXT),
        )?;
        distance *= 2;
        tag += 1;
    }
    Ok(())
}

fn send_word(world: &mut World, rank: u32, tag: i32, word: u64) -> Result<(), WorkloadError> {
    world.send(&word.to_le_bytes(), to(rank).tag(tag).context(CONTEXT))?;
    Ok(())
}

fn receive_word(world: &mut World, rank: u32, tag: i32) -> Result<u64, WorkloadError> {
    let mut word = [0; 8];
    world.recv(&mut word, from(rank).tag(tag).context(CONTEXT))?;
    Ok(u64::from_le_bytes(word))
}
