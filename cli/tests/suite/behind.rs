//! Ranks that are killed after the last fence, when other ranks have ended already: they are
//! restarted, replay from the logs of the other ranks, and finish their work. REC-3, LOG-2

use crate::launched::{Ended, Launched, refrain};
use std::fs;
use std::path::{Path, PathBuf};

fn survivor() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_BIN_EXE_refrain"));
    folder
        .with_file_name("examples")
        .join("refrain-test-survivor")
}

/// A job whose ranks `victims` die in `times` lives after their finalize; `$` in the options
/// stands for the folder. `more`: further arguments of the program.
fn play(folder: &Path, ranks: u32, options: &str, victims: (&str, u32), more: &[&str]) -> Ended {
    let options = options.replace('$', folder.to_str().unwrap());
    let mut command = refrain();
    command
        .args(["run", "--no-prefix", "-n"])
        .arg(ranks.to_string())
        .args(options.split_whitespace())
        .arg("--")
        .arg(survivor())
        .arg("behind")
        .arg(folder)
        .arg(victims.0)
        .arg(victims.1.to_string())
        .args(more);
    Launched::start(&mut command).end()
}

/// All output and files of the ranks exist, exactly once. Returns the number of deaths.
#[track_caller]
fn expect_all(folder: &Path, ranks: u32, ended: Ended) -> usize {
    let ended = ended.expect(0);
    let mut lines: Vec<&str> = ended.out.lines().collect();
    lines.sort_unstable();
    let of_rank = |rank| (0..10).map(move |line| format!("rank {rank} line {line}"));
    let expected: Vec<String> = (0..ranks).flat_map(of_rank).collect();
    assert_eq!(lines, expected, "{ended:?}");
    for rank in 0..ranks {
        let file = fs::read_to_string(folder.join(format!("out-{rank}"))).unwrap();
        assert_eq!(file.lines().count(), 10, "{file}");
        let first = file.lines().next().unwrap();
        let sum = first.strip_prefix("line 0 of ").unwrap();
        assert!(
            file.lines().all(|line| line.ends_with(sum)) && sum != "0",
            "{file}"
        );
    }
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    ended.err.matches("was killed by SIGKILL").count()
}

#[track_caller]
fn survives(ranks: u32, options: &str, victims: (&str, u32), more: &[&str], deaths: usize) {
    let folder = tempfile::tempdir().unwrap();
    let ended = play(folder.path(), ranks, options, victims, more);
    let told = expect_all(folder.path(), ranks, ended);
    assert_eq!(told, deaths, "{options}");
}

// REC-3
#[test]
fn a_rank_that_is_killed_when_all_others_have_ended_does_the_rest() {
    survives(3, "", ("1", 1), &[], 1);
}

// REC-6
/// Where ranks hold events for each other, each has left its own before the fence. TICKET-2
#[test]
fn ranks_that_hold_events_are_killed_behind_the_last_fence() {
    survives(3, "--protocol ticket", ("0,2", 1), &[], 2);
    survives(2, "--protocol ticket-classic", ("1", 2), &[], 2);
    survives(3, "--protocol causal", ("1,2", 2), &[], 4);
    let loggers = "--protocol causal --event-loggers 1";
    survives(3, loggers, ("1,2", 2), &[], 4);
    let messages = format!("{loggers} --event-way messages");
    survives(3, &messages, ("0", 2), &["6"], 2);
    // In the logs of other ranks are carriers, too. CAUSAL-1
    survives(4, "--protocol causal-classic", ("1,2", 2), &[], 4);
}

#[test]
fn several_ranks_are_killed_behind_the_last_fence_and_again() {
    survives(3, "", ("0,2", 2), &[], 4);
}

#[test]
fn all_ranks_are_killed_behind_the_last_fence() {
    survives(3, "", ("0,1,2", 1), &[], 3);
}

#[test]
fn a_checkpoint_shortens_what_is_played_again_behind_the_last_fence() {
    survives(3, "--checkpoint-dir $", ("0,2", 2), &["6"], 4);
}

// LOG-2
#[test]
fn what_peers_have_spilled_is_read_from_their_files() {
    let options = "--log-memory 4M --spill-dir $ --spill-after 1M";
    survives(3, options, ("1", 2), &[], 2);
}

/// The messages of collectives are freed; their results are read where ranks that have ended kept them.
// WHOLE-2 WHOLE-5
#[test]
fn results_of_collectives_are_left_behind_the_last_fence() {
    let reduced = &["0", "reduced"];
    survives(4, "--collectives whole", ("2", 1), reduced, 1);
    let options = "--collectives whole --collective-failures 2";
    survives(4, options, ("0,3", 2), reduced, 4);
    let options = format!("{options} --sets 2");
    survives(4, &options, ("2", 2), reduced, 2);
    survives(4, &options, ("1,3", 1), reduced, 2);
}

/// Members that have ended begin again, too: what they sent to the dead one is in no log. Their output is
/// not shown again.
// SET-4 SET-5
#[test]
fn a_set_goes_back_behind_the_last_fence() {
    for protocol in ["pessimist", "ticket", "causal"] {
        for (more, arguments) in [
            ("", &[][..]),
            ("--checkpoint-dir $", &["6"]),
            ("--gate-output", &[]),
            ("--fabric ofi:tcp", &[]),
            ("--log-memory 4M --spill-dir $ --spill-after 1M", &[]),
        ] {
            let options = format!("--protocol {protocol} --sets 2 {more}");
            survives(5, &options, ("1", 2), arguments, 2);
        }
        let options = format!("--protocol {protocol} --sets 2");
        survives(4, &options, ("0,2", 2), &[], 4);
    }
    let loggers = "--protocol causal --event-loggers 1 --sets 2";
    survives(4, loggers, ("1", 2), &["6"], 2);
    survives(3, "--sets host", ("1", 2), &[], 2);
    // A rank that is in no set with others meets none.
    survives(3, "--sets 2", ("2", 2), &[], 2);
}

/// The launcher kills members that work or replay, and those that die by themselves at the same time.
// SET-5 REC-6
#[test]
fn members_of_a_set_are_killed_together_behind_the_last_fence() {
    for (victims, more) in [(("0,1,2,3", 2), &[][..]), (("1,2", 3), &["0", "replaying"])] {
        for options in [
            "--sets 2",
            "--sets host",
            "--sets 2 --protocol ticket",
            "--sets 2 --protocol causal",
        ] {
            let folder = tempfile::tempdir().unwrap();
            let options = &format!("--max-restarts 100 {options}");
            let ended = play(folder.path(), 4, options, victims, more);
            let deaths = expect_all(folder.path(), 4, ended);
            assert!(deaths >= 6, "{options}: {deaths}");
        }
    }
}

/// A rank that is not restarted ends the replay of its set, and no other rank.
// SET-5
#[test]
fn a_set_without_restarts_left_is_given_up_behind_the_last_fence() {
    for (times, how) in [(2, ""), (3, "replaying")] {
        let folder = tempfile::tempdir().unwrap();
        let options = "--sets 2 --max-restarts 1";
        let ended = play(folder.path(), 4, options, ("1", times), &["0", how]).expect(137);
        let lines = |rank| ended.out.matches(&format!("rank {rank} line")).count();
        assert_eq!([0, 1, 2, 3].map(lines), [10, 6, 10, 10], "{ended:?}");
        let why = "rank 1 was killed by SIGKILL";
        assert!(ended.err.contains(why), "{ended:?}");
        assert!(
            ended.err.contains("it is not restarted: the limit"),
            "{ended:?}"
        );
    }
}
