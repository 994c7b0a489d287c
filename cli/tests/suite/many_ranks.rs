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

/// The log of rank 0 has room for eight channels that hold a chunk, and it speaks to 23 ranks in turn:
/// channels whose messages are covered by a checkpoint give back their chunks. Ranks that die
/// afterwards get what followed.
// LOG-3 LOG-4 REC-3
#[test]
fn a_short_log_serves_many_peers_in_turn_and_survives() {
    const RANKS: usize = 24;
    const ROUNDS: usize = 3;
    for kills in [None, Some("7@clock=4"), Some("0@clock=75,20@clock=4")] {
        let mut command = refrain();
        let (ranks, rounds) = (RANKS.to_string(), ROUNDS.to_string());
        command.args(["run", "--no-prefix", "-n", &ranks, "--log-memory", "2M"]);
        command.args(["--log-full", "stop"]);
        if let Some(kills) = kills {
            command.args(["--kill", kills]);
        }
        let program = survivor();
        command.args([
            "--".as_ref(),
            program.as_os_str(),
            "spread".as_ref(),
            rounds.as_ref(),
        ]);
        let ended = run(&mut command).expect(0);
        let expected = (0..ROUNDS * (RANKS - 1)).map(|step| format!("step {step}: {}\n", 2 * step));
        assert_eq!(ended.out, expected.collect::<String>(), "{kills:?}");
        let deaths = ended.err.matches("was killed by SIGKILL").count();
        let expected = kills.map_or(0, |kills| kills.split(',').count());
        assert_eq!(deaths, expected, "{}", ended.err);
    }
}
