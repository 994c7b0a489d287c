use refrain::{Operator, World};
use std::time::Instant;
fn main() -> Result<(), refrain::Error> {
    let mut world = World::init()?;
    let (all, p, r) = (world.all(), world.size() as usize, world.rank().0);
    // right?
    let half = world.split(all, Some(r % 2), -(r as i64))?.unwrap();
    let mut sum = [0u64];
    world.allreduce(half, Operator::Sum, &[u64::from(r)], &mut sum)?;
    let want: u64 = (0..p as u64).filter(|x| x % 2 == u64::from(r) % 2).sum();
    assert_eq!(sum[0], want);
    let dup = world.duplicate(half)?;
    world.barrier_of(dup)?;
    world.release(half)?;
    for bytes in [8usize, 65536, 1 << 20] {
        let n = bytes / 8;
        let (mut a, mut d) = (vec![1f64; n], vec![0f64; n * p]);
        let reps = if bytes < 100 {
            20000
        } else if bytes < 100_000 {
            1000
        } else {
            100
        };
        for op in [
            "barrier",
            "bcast",
            "allreduce",
            "allgather",
            "alltoall",
            "reduce",
        ] {
            let mut best = f64::MAX;
            for _ in 0..5 {
                world.barrier()?;
                let t = Instant::now();
                for i in 0..reps {
                    match op {
                        "barrier" => world.barrier()?,
                        "bcast" => world.bcast(all, (i % p) as u32, &mut a)?,
                        "allreduce" => world.allreduce(all, Operator::Sum, &a, &mut d[..n])?,
                        "allgather" => world.allgather(all, &a, &mut d)?,
                        "alltoall" => world.alltoall(all, &a[..n / p * p], &mut d[..n / p * p])?,
                        _ => world.reduce(
                            all,
                            0,
                            Operator::Sum,
                            &a,
                            if r == 0 { &mut d[..n] } else { &mut [] },
                        )?,
                    }
                }
                world.publish_horizon()?;
                best = best.min(t.elapsed().as_secs_f64() / reps as f64 * 1e6);
            }
            if r == 0 {
                println!("{op} {bytes} {best:.3} us");
            }
        }
    }
    world.finalize()
}
