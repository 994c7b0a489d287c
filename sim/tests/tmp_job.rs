use refrain_sim::plan::*;
#[test]
fn go() {
    let n: u64 = std::env::var("N")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(10);
    let f: u64 = std::env::var("F")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(0);
    let loud = std::env::var("LOUD").is_ok();
    let nofault = std::env::var("NOFAULT").is_ok();
    let t0 = std::time::Instant::now();
    let mut bad = 0;
    for seed in f..f + n {
        let mut plan = Plan::generate(seed, &Wishes::default());
        if nofault {
            plan.faults.clear();
        }
        if loud {
            println!("{plan}");
        }
        let r = std::panic::catch_unwind(|| refrain_sim::job::run(&plan, loud));
        match r {
            Ok(Ok(t)) => {
                if n <= 20 {
                    println!("{seed}: {t:?}")
                }
            }
            Ok(Err(e)) => {
                bad += 1;
                let s = e.to_string();
                println!("seed {seed}: {}", &s[..s.len().min(4000)])
            }
            Err(_) => {
                bad += 1;
                println!("seed {seed}: panic")
            }
        }
        if bad > 12 {
            break;
        }
    }
    println!("{bad} bad, {:?}", t0.elapsed());
}
