//! `refrain run` with ranks that are killed and restarted: their output, and the options that
//! kill, stop and suspect them.

use crate::launched::{Ended, job, run};
use std::path::Path;
use std::time::{Duration, Instant};

/// Runs the test program with a protocol that can recover; `$` stands for a folder.
fn play(folder: &Path, options: &str, steps: &str) -> Ended {
    let steps = steps.replace('$', folder.to_str().unwrap());
    let options = format!("--protocol pessimist {options}");
    run(&mut job(&options, &steps))
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn what_was_printed_before_a_death_is_printed_once() {
    let folder = folder();
    // Dies with an unfinished line, with lines in the pipe, and before it has printed as much as
    // the earlier life.
    let steps = "say=start join later:begin=0 lines=3000 complain=woe mutter=unfin die=2/$/a \
                 mutter=ished say= later:recovered=3 lines=10 die=3/$/a say=end last-fence";
    for options in ["-n 1", "-n 1 --no-prefix"] {
        let ended = play(folder.path(), options, steps).expect(0);
        let lines = |count| (0..count).map(|i| format!("line {i} {}\n", "x".repeat(90)));
        let mut expected = "start\n".to_owned();
        expected.extend(lines(3000));
        expected += "unfinished\n";
        expected.extend(lines(10));
        expected += "end\n";
        let out = ended.out.replace("[0] ", "");
        assert!(out == expected, "{options}: {} bytes", out.len());
        let own = |line: &&str| !line.starts_with("refrain: ");
        let err: Vec<&str> = ended.err.lines().filter(own).collect();
        assert!(err == ["[0] woe"] || err == ["woe"], "{err:?}");
        assert!(!ended.err.contains("printed other output"), "{}", ended.err);
        std::fs::remove_file(folder.path().join("a")).unwrap();
    }
}

#[test]
fn a_life_that_begins_with_a_checkpoint_prints_what_comes_behind_it() {
    let folder = folder();
    let steps = "say=start first:say=a first:mutter=b first:mark=1 first:stable=1 \
                 later:begin=1 say=c say=d first:mark=2 die=1/$/a mutter=e die=2/$/a \
                 say=f later:recovered=3 last-fence";
    let ended = play(
        folder.path(),
        "-n 2 --no-prefix",
        &format!("1:join {}", only(0, steps)),
    );
    let ended = ended.expect(0);
    assert_eq!(ended.out, "start\na\nbc\nd\nef\n");
    assert!(!ended.err.contains("printed other output"), "{}", ended.err);
}

/// Steps for one rank; the other rank waits for it.
fn only(rank: u32, steps: &str) -> String {
    let own = steps
        .split_whitespace()
        .map(|step| format!("{rank}:{step}"));
    let own: Vec<String> = own.collect();
    format!("{} 1:last-fence", own.join(" "))
}

// REC-8
#[test]
fn a_life_that_prints_other_output_is_reported_once() {
    let folder = folder();
    let steps = "join later:begin=0 first:say=heads later:say=tails die=1/$/a \
                 later:recovered=3 say=more die=2/$/a say=end last-fence";
    let ended = play(folder.path(), "-n 1 --no-prefix", steps).expect(0);
    assert_eq!(ended.out, "heads\nmore\nend\n");
    let told = ended.err.matches("rank 0 printed other output").count();
    assert_eq!(told, 1, "{}", ended.err);
    assert!(ended.err.contains("--gate-output"), "{}", ended.err);
}

#[test]
fn a_life_that_never_reports_its_beginning_began_at_the_beginning() {
    let folder = folder();
    let steps = "say=once join die=2/$/a last-fence say=more";
    let ended = play(folder.path(), "-n 1 --no-prefix", steps).expect(0);
    assert_eq!(ended.out, "once\nmore\n");
}

const START: &str = "address first:ask later:begin=0 later:meet later:recovered=7";

#[test]
fn a_rank_is_killed_on_request_and_reported() {
    let folder = folder();
    let steps = format!("{START} 1:first:hang 0:wait-up=1.1 last-fence");
    let ended = play(folder.path(), "-n 2 --kill 1@0.2", &steps).expect(0);
    let line = "refrain: rank 1 was killed by SIGKILL (incarnation 0, by --kill); incarnation 1 continues after ";
    assert!(ended.err.contains(line), "{}", ended.err);
    assert!(
        ended.err.contains("noticed ") && ended.err.contains("7 events"),
        "{}",
        ended.err
    );
}

#[test]
fn event_loggers_are_killed_too() {
    let folder = folder();
    let steps = "first:hang later:begin=0 later:recovered=0 last-fence";
    let options = "-n 1 --kill eventlogger.0@0.05,0@0.5";
    let ended = play(folder.path(), options, steps).expect(0);
    assert!(
        ended.err.contains("event logger 0 was killed by SIGKILL"),
        "{}",
        ended.err
    );
}

#[test]
fn the_clock_that_kills_a_first_life_is_sent_to_its_rank_alone() {
    let folder = folder();
    let steps = "0:clock= 1:first:clock=77 1:first:kill-myself=9 1:later:clock= \
                 later:recovered=0 last-fence";
    let ended = play(folder.path(), "-n 2 --kill 1@clock=77", steps).expect(0);
    assert!(
        ended.err.contains("(incarnation 0, by --kill)"),
        "{}",
        ended.err
    );
}

#[test]
fn ranks_are_killed_at_random_until_they_are_through() {
    let folder = folder();
    let steps = format!("{START} hang");
    let options = "-n 3 --max-restarts 3 --kill-random 0.02,5";
    let ended = play(folder.path(), options, &steps).expect(137);
    assert!(ended.err.contains("the seed is 5"), "{}", ended.err);
    assert!(ended.err.contains("by --kill-random"), "{}", ended.err);
    assert!(ended.err.contains("--max-restarts 3"), "{}", ended.err);
}

#[test]
fn a_pause_that_is_too_long_is_a_death_and_a_shorter_one_is_none() {
    let folder = folder();
    let steps = format!("{START} 1:first:hang 0:wait-up=1.1 last-fence");
    let options = "-n 2 --pause 1@0.1:1000 --suspect-ranks-after 0.2";
    let ended = play(folder.path(), options, &steps).expect(0);
    assert!(
        ended
            .err
            .contains("by --suspect-ranks-after: it was stopped"),
        "{}",
        ended.err
    );

    let begin = Instant::now();
    let options = "-n 2 --pause 1@0:0.4 --suspect-ranks-after 600";
    let ended = play(folder.path(), options, "hello fence last-fence").expect(0);
    assert!(
        begin.elapsed() >= Duration::from_millis(400),
        "it was stopped"
    );
    assert!(!ended.err.contains("killed"), "{}", ended.err);
}

#[test]
fn faults_that_cannot_be_are_refused() {
    for (options, words) in [
        ("-n 2 --kill 2@1", "ranks 0 to 1"),
        ("-n 2 --kill 1", "3@1.5"),
        ("-n 2 --kill eventlogger.0@1", "0 event loggers"),
        ("-n 2 --pause 1@1", "3@1.5:0.2"),
        ("-n 2 --kill-random 0", "2.5,42"),
        ("-n 2 --max-restarts 1", "pessimist"),
        ("-n 2 --suspect-ranks-after 0", "or off"),
        ("-n -1", "from 1 to 4096"),
        (
            "-n 2 --protocol pessimist --event-replicas 3 --event-loggers tcp:127.0.0.1:1",
            "--event-replicas 3",
        ),
    ] {
        let ended = run(&mut job(options, "hello")).expect(2);
        assert!(ended.err.contains(words), "{options}: {}", ended.err);
    }
}

/// With a protocol that cannot recover, a kill ends the job.
#[test]
fn a_kill_ends_a_job_that_cannot_recover() {
    let ended = run(&mut job("-n 2 --kill 1@0.1", "hang")).expect(137);
    assert!(
        ended
            .err
            .contains("rank 1 was killed by SIGKILL (by --kill)"),
        "{}",
        ended.err
    );
}

/// Later lives die before they have caught up.
// REC-6
#[test]
fn a_rank_without_progress_is_reported_early_and_at_the_end() {
    let folder = folder();
    let steps = "join later:begin=0 die=9/$/a last-fence";
    let ended = play(folder.path(), "-n 1", steps).expect(137);
    let told = |text: &str| ended.err.matches(text).count();
    let early = "rank 0 was killed 2 times in a row during replay";
    assert_eq!(told(early), 1, "{}", ended.err);
    assert_eq!(told("It is restarted after 0.1 s"), 1, "{}", ended.err);
    // The error at the end.
    let end = "the limit of --max-restarts 8 is reached";
    let last = ended.err.lines().find(|line| line.contains(end)).unwrap();
    let words = "it was killed 4 times in a row during replay";
    assert!(
        last.contains(words) && last.contains("--checkpoint-policy"),
        "{last}"
    );
    // One line for the first life, one for the next life.
    assert_eq!(
        told("was killed by SIGKILL (incarnation"),
        1,
        "{}",
        ended.err
    );
    // The next start was delayed: all lives existed.
    assert_eq!(std::fs::read(folder.path().join("a")).unwrap().len(), 5);
}

#[test]
fn the_figures_of_recoveries_are_in_the_file() {
    let folder = folder();
    let steps = format!("{START} 1:die=1/$/a 0:wait-up=1.1 last-fence");
    let file = folder.path().join("stats.json");
    let options = format!("-n 2 --stats-file {}", file.display());
    play(folder.path(), &options, &steps).expect(0);
    let text = std::fs::read(file).unwrap();
    let read: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let recovery = &read["recoveries"][0];
    assert_eq!(recovery["rank"], 1);
    assert_eq!(recovery["incarnation"], 0);
    assert_eq!(recovery["signal"], 9);
    assert_eq!(recovery["cause"], "unknown");
    assert_eq!(recovery["figures"]["events"], 7);
    assert!(recovery["total_us"].is_u64() && recovery["noticed_us"].is_null());
}

#[test]
fn progress_is_printed_where_there_is_no_terminal() {
    let folder = folder();
    let steps = format!("{START} 1:die=1/$/a 0:wait-up=1.1 last-fence");
    let ended = play(folder.path(), "-n 2 --progress", &steps).expect(0);
    let line = ended.err.lines().find(|line| line.contains("ranks run"));
    assert!(
        line.is_some_and(|line| line.starts_with("refrain: 0 s: ")),
        "{}",
        ended.err
    );
}
