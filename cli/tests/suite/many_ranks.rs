//! More ranks than most tests have: introductions, barriers in trees, small pieces of log memory, several
//! event loggers.

use crate::launched::{refrain, run};
use std::path::PathBuf;

const RANKS: usize = 300;

fn survivor() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_refrain"));
    folder
        .with_file_name("examples")
        .join("refrain-test-survivor")
}

/// REC-3: the rank in the middle has two neighbours; its next life and the others go on.
#[test]
fn hundreds_of_ranks_meet_their_neighbours_and_survive() {
    for (protocol, kill) in [("none", None), ("pessimist", Some("150@clock=3"))] {
        let mut command = refrain();
        let ranks = RANKS.to_string();
        command.args(["run", "--no-prefix", "-n", &ranks, "--protocol", protocol]);
        if let Some(kill) = kill {
            command.args(["--kill", kill]);
        }
        command.args(["--".as_ref(), survivor().as_os_str(), "around".as_ref()]);
        let ended = run(&mut command).expect(0);
        let mut lines: Vec<&str> = ended.out.lines().collect();
        lines.sort_unstable();
        let expected = |rank: usize| format!("rank {rank} has met {}", (rank + RANKS - 1) % RANKS);
        let mut expected: Vec<String> = (0..RANKS).map(expected).collect();
        expected.sort_unstable();
        assert_eq!(lines, expected, "{protocol}");
        let deaths = ended.err.matches("was killed by SIGKILL").count();
        assert_eq!(deaths, usize::from(kill.is_some()), "{}", ended.err);
    }
}
