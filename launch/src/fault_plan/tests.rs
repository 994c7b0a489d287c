//! Texts of faults, and the times at which faults are due.

use super::*;

fn kill(text: &str) -> Kill {
    text.parse().unwrap()
}

fn rank_after(rank: u32, milliseconds: u64) -> Kill {
    Kill {
        target: Target::Rank(rank),
        moment: Moment::After(Duration::from_millis(milliseconds)),
    }
}

#[test]
fn faults_are_read_as_they_are_written() {
    assert_eq!(kill("3@1.5"), rank_after(3, 1500));
    assert_eq!(kill("0@0"), rank_after(0, 0));
    let clock = Kill {
        target: Target::Rank(7),
        moment: Moment::Clock(u64::MAX),
    };
    assert_eq!(kill("7@clock=18446744073709551615"), clock);
    assert_eq!(kill("eventlogger.2@3").target, Target::EventLogger(2));
    let pause = Pause {
        rank: 1,
        at: Duration::from_secs(2),
        length: Duration::from_millis(250),
    };
    assert_eq!("1@2:0.25".parse(), Ok(pause));
    let random = |seed| KillRandom {
        mean: Duration::from_millis(500),
        seed,
    };
    assert_eq!("0.5".parse(), Ok(random(None)));
    assert_eq!("0.5,42".parse(), Ok(random(Some(42))));
}

#[test]
fn what_is_no_fault_is_explained_by_an_example() {
    for text in [
        "",
        "3",
        "3@",
        "@1",
        "-1@1",
        "3@-1",
        "3@NaN",
        "3@clock=",
        "3@clock=-1",
        "x@1",
        "eventlogger@1",
        "eventlogger.x@1",
        "3@1e30",
    ] {
        let error = text.parse::<Kill>().unwrap_err();
        assert!(error.to_string().contains("3@1.5"), "{text:?}: {error}");
    }
    assert_eq!(
        "eventlogger.0@clock=5".parse::<Kill>(),
        Err(FaultSpecError::LoggerClock)
    );
    for text in [
        "",
        "1@2",
        "1@:2",
        "1@2:",
        "x@1:1",
        "1@1:-1",
        "eventlogger.0@1:1",
    ] {
        let error = text.parse::<Pause>().unwrap_err();
        assert!(error.to_string().contains("3@1.5:0.2"), "{text:?}: {error}");
    }
    for text in ["", "0", "-1", "x", "1,", "1,x", "1,-1", "1,2,3"] {
        let error = text.parse::<KillRandom>().unwrap_err();
        assert!(error.to_string().contains("2.5,42"), "{text:?}: {error}");
    }
}

#[test]
fn faults_of_what_is_not_there_are_refused() {
    let check = |kills: &[&str], pauses: &[&str]| {
        let spec = FaultSpec {
            kills: kills.iter().map(|text| kill(text)).collect(),
            pauses: pauses.iter().map(|text| text.parse().unwrap()).collect(),
            ..FaultSpec::default()
        };
        spec.check(4, 2)
    };
    assert_eq!(
        check(&["3@1", "3@2", "3@clock=5", "eventlogger.1@1"], &["0@1:1"]),
        Ok(())
    );
    for (kills, pauses, words) in [
        (&["4@1"][..], &[][..], "ranks 0 to 3"),
        (&["4@clock=1"], &[], "--kill 4"),
        (&["eventlogger.2@1"], &[], "2 event loggers"),
        (&["1@clock=1", "1@clock=2"], &[], "one clock"),
        (&[], &["9@1:1"], "--pause 9"),
    ] {
        let why = check(kills, pauses).unwrap_err();
        assert!(why.contains(words), "{why}");
    }
}

#[test]
fn the_schedule_gives_each_fault_at_its_time_in_order() {
    let spec = FaultSpec {
        kills: vec![kill("1@2"), kill("2@clock=9"), kill("0@1"), kill("3@1")],
        pauses: vec!["2@1.5:3".parse().unwrap()],
        ..FaultSpec::default()
    };
    assert_eq!(
        (spec.kill_at_clock(2), spec.kill_at_clock(1)),
        (Some(9), None)
    );
    let mut schedule = Schedule::new(&spec, 0);
    let at = Duration::from_secs_f64;
    let killed = |rank| Some(Action::Kill(Target::Rank(rank), Cause::Kill));
    assert_eq!(schedule.next_due(), Some(at(1.0)));
    assert_eq!(schedule.take_due(at(0.9)), None);
    assert_eq!(schedule.take_due(at(1.5)), killed(0));
    assert_eq!(schedule.take_due(at(1.5)), killed(3));
    assert_eq!(schedule.take_due(at(1.5)), Some(Action::Stop(2, at(3.0))));
    schedule.add(at(4.5), Action::Continue(2, 0));
    assert_eq!(schedule.take_due(at(9.0)), killed(1));
    assert_eq!(schedule.take_due(at(9.0)), Some(Action::Continue(2, 0)));
    assert_eq!(
        (schedule.take_due(at(9.0)), schedule.next_due()),
        (None, None)
    );
}

#[test]
fn random_kills_come_again_with_their_seed_and_in_the_mean() {
    let spec = FaultSpec {
        kill_random: Some("2".parse().unwrap()),
        ..FaultSpec::default()
    };
    let first = |seed, kills| {
        let mut schedule = Schedule::new(&spec, seed);
        let mut times = Vec::new();
        while times.len() < kills {
            let at = schedule.next_due().unwrap();
            assert_eq!(schedule.take_due(at), Some(Action::KillAny));
            times.push((at, schedule.choose(5).unwrap()));
        }
        times
    };
    assert_eq!(first(7, 20), first(7, 20));
    assert_ne!(first(7, 20), first(8, 20));
    let many = first(7, 10_000);
    let mean = many[9_999].0.as_secs_f64() / 10_000.0;
    assert!((1.9..2.1).contains(&mean), "{mean}");
    assert!((0..5).all(|rank| many.iter().any(|(_, chosen)| *chosen == rank)));
    assert_eq!(Schedule::new(&spec, 0).choose(0), None);
}
