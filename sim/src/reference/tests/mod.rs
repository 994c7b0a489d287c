pub(crate) mod ideal;

use super::*;
use crate::plan::{Plan, Wishes};
use ideal::Job;

fn plan(seed: u64) -> Plan {
    Plan::generate(seed, &Wishes::default())
}

/// Whatever timing decides, every program ends, has received every message once,
/// and is played again to the same end from what was recorded. REC-4
#[test]
fn programs_end_and_are_played_again() {
    let (mut calls, mut ranks) = (0, 0);
    for seed in 0..300 {
        let plan = plan(seed);
        let ended = Job::new(&plan, seed).run();
        let ended = ended.unwrap_or_else(|why| panic!("{plan}{why}"));
        calls += ended.calls;
        ranks += plan.ranks;
        for program in &ended.programs {
            assert_eq!(program.complaint(), None, "{plan}");
            assert_eq!(program.messages_received(), program.messages_expected());
        }
        let again = run_job(&plan, ended.choices);
        let again = again.unwrap_or_else(|why| panic!("{plan}{why}"));
        assert_eq!(again, ended.finals, "{plan}");
    }
    println!("{calls} calls of {ranks} ranks");
}
