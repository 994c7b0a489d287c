//! Measures the bandwidth of writing and reading checkpoints: `checkpoint_bandwidth PLACE
//! [MIB...]`, where PLACE is a folder, `unix:PATH` or `tcp:HOST:PORT`.

use refrain_checkpoint::{CheckpointStoreSpec, JobName, SectionKind, Store};
use refrain_ring::{Incarnation, Rank};
use std::error::Error;
use std::time::Instant;

const MIB: usize = 1 << 20;

fn gigabytes_per_second(bytes: u64, since: Instant) -> f64 {
    bytes as f64 / since.elapsed().as_secs_f64() / 1e9
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let place: CheckpointStoreSpec = arguments
        .next()
        .ok_or("usage: checkpoint_bandwidth PLACE [MIB...]")?
        .parse()?;
    let mut sizes: Vec<usize> = arguments.map(|it| it.parse()).collect::<Result<_, _>>()?;
    if sizes.is_empty() {
        sizes = vec![1, 16, 128, 1024];
    }
    let name = format!("bandwidth-{}-", std::process::id());
    let store = Store::open(&place, JobName::new(1, name)?)?;
    println!("{}", store.describe());
    let memory: Vec<u8> = (0..64 * MIB).map(|at| (at * 7) as u8).collect();
    for (number, mib) in (1..).zip(sizes) {
        let begin = Instant::now();
        let mut writing = store.begin(Rank(0), Incarnation(0), number)?;
        writing.section(SectionKind::Memory, 0)?;
        let mut left = mib * MIB;
        while left > 0 {
            let now = left.min(memory.len());
            writing.write(&memory[..now])?;
            left -= now;
        }
        let bytes = writing.commit()?.bytes;
        let written = gigabytes_per_second(bytes, begin);
        let begin = Instant::now();
        let mut reading = store.newest(Rank(0))?.ok_or("it is gone")?;
        let checked = gigabytes_per_second(bytes, begin);
        let mut into = vec![0; 4 * MIB];
        let mut section = reading.next_section()?.ok_or("it is empty")?;
        while section.read(&mut into)? > 0 {}
        let read = gigabytes_per_second(bytes, begin);
        println!(
            "{mib:>6} MiB: written {written:.2} GB/s, checked {checked:.2} GB/s, checked and read {read:.2} GB/s"
        );
    }
    store.remove_all()?;
    Ok(())
}
