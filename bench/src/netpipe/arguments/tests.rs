//! Defaults of options, and values that are refused.

use super::*;
use clap::Parser;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

const MEMORY: Option<u64> = Some(16 << 30);

fn check(options: &[&str]) -> Result<Settings, BenchError> {
    let words = ["netpipe"].iter().chain(options);
    Line::try_parse_from(words)
        .expect("clap takes it")
        .arguments
        .check_with(MEMORY)
}

/// The refused option, the problem and the help.
fn refused(options: &[&str]) -> (String, String, String) {
    match check(options) {
        Err(BenchError::Failed { problem, help }) => {
            let (option, problem) = problem.split_once(": ").expect("an option is blamed");
            (option.into(), problem.into(), help.expect("there is help"))
        }
        other => panic!("{options:?}: {other:?}"),
    }
}

#[test]
fn without_options_everything_has_its_default() {
    let settings = check(&[]).unwrap();
    assert_eq!(settings.arguments.fabric, ["auto"]);
    assert_eq!(settings.arguments.protocol, ["none", "pessimist"]);
    assert_eq!(settings.arguments.receive, Receive::Named);
    assert_eq!(settings.mode, Mode::PingPong);
    assert_eq!(settings.round_time(), Duration::from_millis(50));
    assert_eq!(settings.log_room.memory_bytes, 512 << 20);
    assert_eq!(settings.points.first().unwrap().bytes, 1);
    assert_eq!(settings.largest_bytes(), (4 << 20) + 3);
}

#[test]
fn all_protocols_can_be_compared() {
    let settings = check(&["--protocol", "all", "--log-memory", "1M", "--max", "4K"]).unwrap();
    let protocols = [
        "none",
        "pessimist",
        "pessimist-classic",
        "ticket",
        "ticket-classic",
        "causal",
        "causal-classic",
    ];
    assert_eq!(settings.arguments.protocol, protocols);
}

#[test]
fn options_arrive() {
    let settings = check(&[
        "--protocol",
        "pessimist",
        "--receive",
        "any",
        "--min",
        "64",
        "--max",
        "1K",
        "--perturbation",
        "0",
        "--time-per-size",
        "1",
        "--rounds",
        "4",
        "--stream",
        "--log-memory",
        "1M",
    ])
    .unwrap();
    assert_eq!(settings.arguments.protocol, ["pessimist"]);
    assert_eq!(settings.arguments.receive, Receive::Any);
    assert_eq!(settings.mode, Mode::Stream);
    assert_eq!(settings.round_time(), Duration::from_millis(250));
    assert_eq!(settings.log_room.memory_bytes, 1 << 20);
    assert_eq!(settings.points.len(), 9);
    assert!(settings.points.iter().all(|point| !point.perturbed));
}

#[test]
fn a_wrong_name_is_answered_with_those_that_exist() {
    let (option, problem, _) = refused(&["--fabric", "myrinet"]);
    assert_eq!(option, "--fabric");
    assert!(problem.contains("myrinet") && problem.contains("auto, shm"));
    assert!(refused(&["--fabric", "shm,myrinet"]).1.contains("myrinet"));
    assert!(refused(&["--fabric", "shm,shm"]).1.contains("twice"));
    let (option, problem, help) = refused(&["--protocol", "none,optimist"]);
    assert_eq!(option, "--protocol");
    assert!(problem.contains("`optimist`"));
    assert!(help.contains("none, pessimist"));
    let (_, problem, _) = refused(&["--protocol", "none,none"]);
    assert!(problem.contains("twice"));
}

#[test]
fn several_fabrics_share_the_memory() {
    let settings = check(&["--fabric", "shm,auto"]).unwrap();
    assert_eq!(settings.arguments.fabric, ["shm", "auto"]);
    let problem = refused(&["--fabric", "shm,auto", "--log-memory", "2G"]).1;
    assert!(problem.starts_with("8 ranks"), "{problem}");
}

#[test]
fn a_library_that_is_not_there_is_refused() {
    for name in ["--libfabric", "--libibverbs"] {
        let (option, problem, help) = refused(&[name, "/no/such/library.so.1"]);
        assert_eq!(option, name);
        assert!(problem.contains("/no/such/library.so.1"), "{problem}");
        let variable = name.replace("--", "REFRAIN_").to_uppercase();
        assert!(help.contains(&variable), "{help}");
    }
}

#[test]
fn sizes_outside_their_limits_are_refused() {
    assert_eq!(refused(&["--min", "0"]).0, "--min");
    assert_eq!(refused(&["--max", "0"]).0, "--max");
    let (option, problem, _) = refused(&["--min", "2K", "--max", "1K"]);
    assert_eq!(option, "--min");
    assert!(problem.contains("2K") && problem.contains("1K"));
    assert_eq!(refused(&["--max", "2T"]).0, "--max");
    let (_, problem, help) = refused(&["--max", "512M"]);
    assert!(problem.contains("payload log"));
    assert!(help.contains("--log-memory"));
    assert_eq!(refused(&["--log-memory", "64G"]).0, "--log-memory");
    assert_eq!(refused(&["--log-memory", "0"]).0, "--max");
}

#[test]
fn times_and_rounds_outside_their_limits_are_refused() {
    for seconds in ["0", "-1", "NaN", "inf", "4000"] {
        let option = format!("--time-per-size={seconds}");
        assert_eq!(refused(&[&option]).0, "--time-per-size", "{seconds}");
    }
    assert_eq!(refused(&["--rounds", "0"]).0, "--rounds");
}

#[test]
fn peers_only_play_ping_pong() {
    assert_eq!(refused(&["--peers", "--stream"]).0, "--peers");
    assert!(check(&["--peers"]).unwrap().arguments.peers);
}

#[test]
fn files_in_folders_that_are_not_there_are_refused_early() {
    let (option, problem, _) = refused(&["--plot", "/no/such/folder/a.svg"]);
    assert_eq!(option, "--plot");
    assert!(problem.contains("/no/such/folder"));
    assert_eq!(refused(&["--json", "/tmp"]).0, "--json");
    assert!(check(&["--json", "plain.json"]).is_ok());
}

#[test]
fn clap_refuses_what_contradicts_itself() {
    for options in [
        &["--bidirectional", "--stream"][..],
        &["--receive", "some"],
        &["--min", "4X"],
    ] {
        let words = ["netpipe"].iter().chain(options);
        assert!(Line::try_parse_from(words).is_err(), "{options:?}");
    }
}

#[test]
fn a_log_on_disk_has_its_folder_and_grows_beyond_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let settings = check(&[
        "--spill-dir",
        path,
        "--log-memory",
        "32M",
        "--spill-after",
        "0",
    ])
    .unwrap();
    let spill = &settings.arguments.spill;
    assert_eq!(
        (spill.spill_io.as_str(), spill.spill_after),
        ("auto", Some(0))
    );
    assert_eq!(settings.log_room.between_horizons_bytes, 128 << 20);
    let times = check(&[
        "--spill-dir",
        path,
        "--log-memory",
        "32M",
        "--log-times",
        "2.5",
    ])
    .unwrap();
    assert_eq!(times.log_room.between_horizons_bytes, 80 << 20);
    let without = check(&["--log-memory", "32M"]).unwrap();
    assert!(without.arguments.spill.spill_dir.is_none());
    assert_eq!(without.log_room.between_horizons_bytes, 8 << 20);
}

#[test]
fn a_log_that_fits_nowhere_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    let small = ["--spill-dir", path, "--log-memory", "32M"];
    for (more, option, problem) in [
        (["--log-times", "0"], "--log-times", "0 times"),
        (["--log-times", "nan"], "--log-times", "NaN times"),
        (
            ["--log-disk", "64M"],
            "--log-disk",
            "do not hold the 128 MiB",
        ),
    ] {
        let (blamed, found, _) = refused(&[&small[..], &more[..]].concat());
        assert_eq!(blamed, option);
        assert!(found.contains(problem), "{found}");
    }
    // 1000 GiB, on a smaller disk.
    let free = crate::disk::free_bytes(folder.path()).unwrap();
    if free < 1000 << 30 {
        let large = [
            "--spill-dir",
            path,
            "--log-memory",
            "1G",
            "--log-times",
            "1000",
        ];
        let (option, problem, _) = refused(&large);
        assert_eq!(option, "--spill-dir");
        assert!(problem.contains("are free in"), "{problem}");
    } else {
        println!("skipped a disk that is too small: this one has {free} bytes free");
    }
    let (option, problem, _) = refused(&["--log-times", "2"]);
    assert_eq!(option, "--log-times");
    assert!(problem.contains("do not fit"), "{problem}");
    let (option, ..) = refused(&["--spill-dir", "/nowhere/at/all"]);
    assert_eq!(option, "--spill-dir");
}
