//! Options, limits, exit statuses and messages.

use crate::launched::{Ended, job, refrain, run};

/// Runs `refrain` with arguments separated by blanks.
fn with(arguments: &str) -> Ended {
    run(refrain().args(arguments.split_whitespace()))
}

#[test]
fn what_cannot_be_is_refused_with_what_can() {
    for (arguments, words) in [
        ("run -n 0 -- true", &["1", "4096", "-n"][..]),
        ("run -n 100000 -- true", &["4096"]),
        ("run -n x -- true", &["4096"]),
        (
            "run -n 2 --fabric warp -- true",
            &["--fabric", "\"warp\"", "auto, shm"],
        ),
        (
            "run -n 2 --protocol hope -- true",
            &["--protocol", "\"hope\"", "none, pessimist"],
        ),
        (
            "run -n 2 --log-memory 5MB -- true",
            &["--log-memory", "5MB", "512M"],
        ),
        (
            "run -n 2 --log-memory 99999999T -- true",
            &["--log-memory", "more than"],
        ),
        (
            "run -n 2 --log-memory 900T -- true",
            &["--log-memory", "2 ranks", "are available"],
        ),
        (
            "run -n 2 --protocol none --log-memory 900T -- true",
            &["--log-memory", "2 ranks", "are available"],
        ),
        (
            "run -n 2 --fabric ofi: -- true",
            &["--fabric", "has no provider"],
        ),
        (
            "run -n 2 --peer-timeout 0 -- true",
            &["--peer-timeout", "like 30 or 0.5"],
        ),
        (
            "run -n 2 --suspect-after never -- true",
            &["--suspect-after", "or off"],
        ),
        (
            "run -n 2 --divergence ignore -- true",
            &["--divergence", "\"ignore\"", "stop, warn, auto"],
        ),
        ("run -n 2 --divergence -- true", &["--divergence"]),
        ("run -n 2", &["PROGRAM"]),
        ("run -- true", &["-n"]),
        ("run -n 2 --frobnicate -- true", &["--frobnicate"]),
        ("frobnicate", &["frobnicate"]),
        ("", &["Usage"]),
    ] {
        let ended = with(arguments).expect(2);
        for word in words {
            assert!(
                ended.err.contains(word),
                "{word:?} for {arguments:?} in {}",
                ended.err
            );
        }
    }
}

#[test]
fn a_program_that_cannot_be_started_is_named() {
    let ended = with("run -n 2 -- no-such-program").expect(127);
    assert!(
        ended.err.contains("no-such-program") && ended.err.contains("PATH"),
        "{}",
        ended.err
    );
    let ended = with("run -n 2 -- /etc/passwd").expect(126);
    assert!(ended.err.contains("chmod"), "{}", ended.err);
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let ended = run(refrain().args(["run", "-n", "2", "--"]).arg(&script)).expect(126);
    assert!(ended.err.contains("interpreter"), "{}", ended.err);
}

#[test]
fn a_program_beside_refrain_is_found_by_name() {
    let ended = run(refrain()
        .args(["run", "-n", "1", "--", "refrain", "--version"])
        .env("PATH", "/nowhere"));
    let ended = ended.expect(0);
    assert!(ended.of_rank(0)[0].starts_with("refrain "), "{}", ended.out);
}

#[test]
fn a_job_has_the_status_of_its_first_failed_rank() {
    for (steps, status, words) in [
        ("hello 1:exit=7 fence", 7, &["rank 1", "status 7"][..]),
        ("1:exit=7 hang", 7, &["rank 1", "status 7"]),
        (
            "hello fence 1:kill-myself=9 hang",
            137,
            &["rank 1", "SIGKILL", "dmesg"],
        ),
        ("hello 1:kill-myself=11 hang", 139, &["rank 1", "SIGSEGV"]),
        (
            "hello 0:exit=0 0:finalize 1:finalize",
            1,
            &["rank 0", "finalize"],
        ),
        (
            "1:exit=0 fence",
            1,
            &["rank 1", "before it joined", "rank 0 waits in a fence"],
        ),
        (
            "0:finalize 0:exit=0 fence",
            1,
            &["rank 0 has left", "rank 1 waits in a fence"],
        ),
        ("get=x", 1, &["\"x\"", "wait for each other"]),
        (
            "0:exit=0 get=x",
            1,
            &["rank 0", "rank 1 waits for the key \"x\""],
        ),
        (
            "hello 1:abort=enough 1:exit=5 hang",
            5,
            &["rank 1 aborted", "enough"],
        ),
        (
            "hello 1:abort=enough 1:exit=0 hang",
            1,
            &["rank 1 aborted", "enough"],
        ),
        ("hello 0:garbage hang", 1, &["rank 0", "not a frame"]),
        (
            "0:finalize 0:fence hang",
            1,
            &["rank 0", "after it has left"],
        ),
    ] {
        let ended = run(&mut job("-n 2", steps)).expect(status);
        for word in words {
            assert!(
                ended.err.contains(word),
                "{word:?} for {steps:?} in {ended:?}"
            );
        }
        assert_eq!(
            ended.err.lines().count(),
            1,
            "one clear error: {}",
            ended.err
        );
    }
}

#[test]
fn ranks_that_wait_learn_why_the_job_ends() {
    // SIGTERM follows the reason, so it has to be ignored while the reason is read.
    for (waiting, shown) in [
        ("0:fence", "fence failed"),
        ("0:get=k", "get failed"),
        ("0:check-until-stopped", ""),
    ] {
        let steps =
            format!("hello 0:ignore-term 0:put=ready {waiting} 1:get=ready 1:exit=6 finalize");
        let ended = run(&mut job("-n 2", &steps)).expect(6);
        let last = *ended.of_rank(0).last().unwrap();
        assert!(last.starts_with(shown), "{last}");
        assert!(
            last.contains("the job is being ended: rank 1 exited with status 6"),
            "{last}"
        );
    }
}

#[test]
fn ranks_know_their_numbers() {
    let ended = run(&mut job(
        "-n 2 --fabric shm",
        "environment hello put=a finalize",
    ))
    .expect(0);
    for rank in 0..2 {
        let expected = [
            format!("{rank} of 2"),
            format!("rank {rank} of 2, fabric shm, 2 on host"),
        ];
        assert_eq!(ended.of_rank(rank), expected);
    }
}

#[test]
fn what_one_rank_puts_another_gets() {
    let ended = run(&mut job("-n 3", "2:put=address get=address fence finalize")).expect(0);
    for rank in 0..3 {
        assert_eq!(ended.of_rank(rank), ["address is \"value of address\""]);
    }
}

#[test]
fn a_process_joins_once_and_its_children_do_not() {
    let ended = run(&mut job("-n 1", "hello join-again")).expect(9);
    assert!(
        ended.of_rank(0)[1].contains("joined its job already"),
        "{}",
        ended.out
    );
    let ended = run(&mut job("-n 1", "hello child-joins finalize")).expect(0);
    let child = ended.of_rank(0)[1];
    assert!(
        child.contains("REFRAIN_CONTROL_FD") && child.contains("unset it"),
        "{child}"
    );
}

/// A program joins for its wrapper, but only one.
#[test]
fn a_wrapper_may_start_one_program_that_joins() {
    let joins = format!("{} hello finalize", crate::launched::test_rank().display());
    let wrapped = |script: &str| run(refrain().args(["run", "-n", "1", "--", "sh", "-c", script]));
    let ended = wrapped(&format!("{joins}; true")).expect(0);
    assert_eq!(ended.of_rank(0).len(), 1);
    let ended = wrapped(&format!("{joins}; {joins}")).expect(9);
    assert!(
        ended
            .out
            .contains("another process has joined as this rank"),
        "{}",
        ended.out
    );
}

#[test]
fn ranks_are_pinned_when_there_are_cores_for_all() {
    let allowed = std::thread::available_parallelism().unwrap().get();
    let cores = |ended: &Ended, rank| ended.of_rank(rank)[0].split(',').count();
    let ended = run(&mut job("-n 1", "affinity")).expect(0);
    assert_eq!(cores(&ended, 0), 1);
    let ended = run(&mut job("-n 1 --no-pin", "affinity")).expect(0);
    assert_eq!(cores(&ended, 0), allowed);
    let ended = run(&mut job(&format!("-n {}", allowed + 1), "affinity")).expect(0);
    assert!(
        (0..=allowed as u32).all(|rank| cores(&ended, rank) == allowed),
        "{}",
        ended.out
    );
    let ended = run(&mut job(&format!("-n {allowed}"), "affinity")).expect(0);
    let mut pinned: Vec<&str> = (0..allowed as u32)
        .map(|rank| ended.of_rank(rank)[0])
        .collect();
    pinned.sort_unstable();
    pinned.dedup();
    assert_eq!(pinned.len(), allowed, "each has a core of its own");
}

/// Refused before any rank is started: `touch` would leave its file.
fn refused_before_the_start(arguments: &[&str], library: Option<(&str, &str)>) -> String {
    let folder = tempfile::tempdir().unwrap();
    let witness = folder.path().join("started");
    let mut command = refrain();
    command.args(["run", "-n", "2"]).args(arguments);
    command.args(["--", "touch"]).arg(&witness);
    command
        .env_remove("REFRAIN_LIBFABRIC")
        .env_remove("REFRAIN_LIBIBVERBS");
    command.envs(library);
    let ended = run(&mut command).expect(2);
    assert!(!witness.exists(), "a rank was started");
    ended.err
}

#[test]
fn a_library_that_cannot_be_used_is_named_with_what_to_do() {
    let text = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(text.path(), "no library").unwrap();
    let text = text.path().to_str().unwrap();
    for (file, words) in [
        ("/no/such/libfabric.so.1", "not found"),
        (text, "is no library"),
    ] {
        let given = ["--fabric", "ofi:tcp", "--libfabric", file];
        let by_option = refused_before_the_start(&given, None);
        let variable = ("REFRAIN_LIBFABRIC", file);
        let by_variable = refused_before_the_start(&["--fabric", "ofi"], Some(variable));
        for complaint in [by_option, by_variable] {
            // Long words are wrapped.
            let complaint = complaint.replace(' ', "");
            for word in [file, words, "libfabric 1.17"] {
                let word = word.replace(' ', "");
                assert!(complaint.contains(&word), "{word:?} in {complaint}");
            }
        }
        let ended = run(refrain().args(["info", "--providers", "--libfabric", file])).expect(0);
        assert_eq!(ended.out.lines().count(), 1, "{}", ended.out);
        assert!(ended.out.contains(file), "{}", ended.out);
        let ended = run(refrain().args(["info", "--libfabric", file])).expect(0);
        let ofi = ended.out.lines().find(|line| line.starts_with("  ofi "));
        assert!(ofi.unwrap().contains("not available"), "{}", ended.out);
    }
}

#[test]
fn a_libibverbs_that_cannot_be_used_is_named_with_what_to_do() {
    for (file, words) in [
        ("/no/such/libibverbs.so.1", "install rdma-core"),
        ("libm.so.6", "name the file of libibverbs"),
    ] {
        let given = ["--fabric", "verbs", "--libibverbs", file];
        let by_option = refused_before_the_start(&given, None);
        let variable = ("REFRAIN_LIBIBVERBS", file);
        let by_variable = refused_before_the_start(&given[..2], Some(variable));
        for complaint in [by_option, by_variable] {
            // Lines are not wrapped, so that names in them can be copied.
            for word in [file, words] {
                assert!(complaint.contains(word), "{word:?} in {complaint}");
            }
        }
        let ended = run(refrain().args(["info", "--verbs", "--libibverbs", file])).expect(0);
        assert_eq!(ended.out.lines().count(), 1, "{}", ended.out);
        assert!(ended.out.contains(file), "{}", ended.out);
        let ended = run(refrain().args(["info", "--libibverbs", file])).expect(0);
        let verbs = ended.out.lines().find(|line| line.starts_with("  verbs "));
        assert!(verbs.unwrap().contains("not available"), "{}", ended.out);
    }
}

/// Commands that do not need libfabric or libibverbs run without them.
#[test]
fn without_native_libraries_jobs_on_one_host_run() {
    for fabric in ["auto", "shm"] {
        let mut command = job(&format!("-n 2 --fabric {fabric}"), "hello finalize");
        let none = ["REFRAIN_LIBFABRIC", "REFRAIN_LIBIBVERBS"].map(|name| (name, "/no/such/file"));
        run(command.envs(none)).expect(0);
    }
}

#[test]
fn an_unknown_provider_is_answered_with_those_that_are_installed() {
    let found = run(refrain()
        .args(["info", "--providers"])
        .env_remove("REFRAIN_LIBFABRIC"));
    if !found.out.contains(" yes ") {
        return println!("skipped unknown providers: {}", found.out);
    }
    let complaint = refused_before_the_start(&["--fabric", "ofi:warp"], None);
    assert!(
        complaint.contains("\"warp\"") && complaint.contains("tcp"),
        "{complaint}"
    );
}

#[test]
fn a_signal_ends_a_job_whose_launcher_has_loaded_libfabric() {
    let found = run(refrain()
        .args(["info", "--providers"])
        .env_remove("REFRAIN_LIBFABRIC"));
    if !found.out.contains(" yes ") {
        return println!("skipped signals with libfabric: {}", found.out);
    }
    let mut launched =
        crate::launched::Launched::start(&mut job("-n 2 --fabric ofi", "ignore-term process hang"));
    launched.wait_for("process", 2);
    launched.signal(rustix::process::Signal::TERM);
    let ended = launched.end().expect(143);
    assert!(ended.err.contains("ended by SIGTERM"), "{}", ended.err);
}
