//! Deaths of ranks that communicate over libfabric.

use super::batch::Batch;
use crate::launched::{refrain, run};

/// The usable providers of the installed libfabric.
fn providers() -> Vec<String> {
    let ended = run(refrain().args(["info", "--providers"])).expect(0);
    let rows = ended.out.lines().map(|line| line.split_whitespace());
    rows.filter_map(|mut cells| {
        let name = cells.next()?;
        (cells.nth(1)? == "yes").then(|| name.to_owned())
    })
    .collect()
}

/// New connections replace those to the earlier life.
// REC-1 REC-3 FENCE-1
#[test]
fn ranks_survive_on_libfabric() {
    let found = providers();
    for provider in ["tcp", "tcp;ofi_rxm"] {
        // `tcp` is also found as part of a layered provider.
        let is_it = |name: &String| name == provider || name.split(';').next() == Some(provider);
        if !found.iter().any(is_it) {
            println!("skipped ofi:{provider}: usable are {found:?}");
            continue;
        }
        let mut batch = Batch::new("libfabric");
        for (kills, workload) in [
            ("1@clock=40", "token-ring --rounds 60"),
            (
                "0@clock=40,2@clock=60",
                "token-ring --rounds 60 --checkpoint-every 10",
            ),
            ("0@clock=90", "any-source --tasks 100 --bytes 5000"),
            (
                "0@clock=50,1@clock=70",
                "chaos --operations 500 --patience 30",
            ),
        ] {
            let options = format!("--fabric ofi:{provider} --kill {kills}");
            batch.survives(3, &options, workload);
        }
        batch.finish(4);
    }
}
