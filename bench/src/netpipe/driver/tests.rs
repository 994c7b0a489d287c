//! The sweep with simulated contestants and peers.

use super::*;
use crate::netpipe::arguments::{Arguments, Receive};
use crate::netpipe::log_budget::LogRoom;
use crate::netpipe::log_use::LogUse;
use crate::netpipe::peers::PeerFigure;
use clap::Parser;
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;

type Diary = Rc<RefCell<Vec<String>>>;

struct Pretender {
    fabric: &'static str,
    protocol: &'static str,
    /// Time of round n at any size, µs.
    time_us: fn(u64) -> u64,
    diary: Diary,
    seeds: HashSet<u64>,
    interrupt_after: Option<(usize, Interrupt)>,
}

impl Contestant for Pretender {
    fn fabric(&self) -> &str {
        self.fabric
    }

    fn protocol(&self) -> &str {
        self.protocol
    }

    fn measure(&mut self, round: &Round) -> Result<Samples, BenchError> {
        assert!(self.seeds.insert(round.seed), "each round its own pattern");
        let mut diary = self.diary.borrow_mut();
        diary.push(format!("{} {}", self.protocol, round.bytes));
        if let Some((count, interrupt)) = &self.interrupt_after
            && diary.len() >= *count
        {
            interrupt.request();
        }
        Ok(Samples {
            times_ps: vec![(self.time_us)(round.seed) * 1_000_000; 3],
            batch: 1,
            log: LogUse {
                appended_bytes: 2 * round.bytes,
                payload_bytes: round.bytes,
                ..LogUse::default()
            },
        })
    }
}

fn pretended_peer(diary: Diary, fail_at: u64) -> Peer {
    Peer {
        name: "peer/test".into(),
        receive: Receive::Named,
        groups: |sizes| sizes.chunks(2).map(<[u64]>::to_vec).collect(),
        measure: Box::new(move |group| {
            diary.borrow_mut().push(format!("peer {group:?}"));
            if group.contains(&fail_at) {
                return Err(BenchError::failed("it fell over"));
            }
            let figure = |&bytes: &u64| PeerFigure {
                bytes,
                time_us: 1.0,
            };
            Ok(group.iter().map(figure).collect())
        }),
    }
}

fn settings(min: u64, max: u64, perturbation: u64, rounds: u32) -> Settings {
    let line = format!(
        "netpipe --receive any --time-per-size 0.001 --rounds {rounds} --quiet --min {min} --max {max} \
         --perturbation {perturbation}"
    );
    let line = Line::parse_from(line.split(' '));
    let mut settings = line.arguments.check_with(None).expect("defaults are right");
    settings.log_room = LogRoom::new(1 << 20, 0.25);
    settings
}

#[derive(clap::Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

struct Play {
    records: Vec<Record>,
    diary: Vec<String>,
    result: Result<(), BenchError>,
}

fn play(settings: &Settings, fail_at: u64, interrupt_after: Option<usize>) -> Play {
    let interrupt = Interrupt::default();
    let diary = Diary::default();
    let pretender = |protocol, time_us| Pretender {
        fabric: "sim",
        protocol,
        time_us,
        diary: Rc::clone(&diary),
        seeds: HashSet::new(),
        interrupt_after: interrupt_after.map(|count| (count, interrupt.clone())),
    };
    // In round 1 of 3 the machine is ten times slower for both.
    let mut none = pretender("none", |seed| if seed % 3 == 1 { 100 } else { 10 });
    let mut pessimist = pretender("pessimist", |seed| if seed % 3 == 1 { 120 } else { 12 });
    let mut records = Vec::new();
    let peer = pretended_peer(Rc::clone(&diary), fail_at);
    let result = Sweep {
        settings,
        contestants: vec![&mut none, &mut pessimist],
        disk: None,
        peers: with_groups(vec![peer], &settings.points),
        interrupt: &interrupt,
        progress: &Progress::new("size", settings.points.len(), true),
    }
    .run(&mut |record| {
        records.push(record);
        Ok(())
    });
    let diary = diary.borrow().clone();
    Play {
        records,
        diary,
        result,
    }
}

#[test]
fn protocols_take_turns_within_each_size_and_the_first_one_changes() {
    let play = play(&settings(1, 2, 0, 3), 0, None);
    play.result.unwrap();
    assert_eq!(
        play.diary,
        [
            "none 1",
            "pessimist 1",
            "pessimist 1",
            "none 1",
            "none 1",
            "pessimist 1",
            "pessimist 2",
            "none 2",
            "none 2",
            "pessimist 2",
            "pessimist 2",
            "none 2",
            "peer [1, 2]",
        ]
    );
}

#[test]
fn overhead_is_that_of_the_same_round() {
    let play = play(&settings(64, 64, 0, 3), 0, None);
    let of = |protocol: &str| {
        play.records
            .iter()
            .find(|record| record.protocol == protocol)
            .unwrap()
    };
    assert_eq!(of("none").overhead_vs_none, None);
    let overhead = of("pessimist").overhead_vs_none.unwrap();
    assert!((overhead - 1.2).abs() < 1e-9, "{overhead}");
    assert_eq!(of("pessimist").receive, Receive::Any);
    assert_eq!(of("-").receive, Receive::Named);
    assert_eq!(of("-").fabric, "peer/test");
}

#[test]
fn overhead_is_that_of_the_same_fabric() {
    let diary = Diary::default();
    let pretender = |fabric, protocol, time_us| Pretender {
        fabric,
        protocol,
        time_us,
        diary: Rc::clone(&diary),
        seeds: HashSet::new(),
        interrupt_after: None,
    };
    let mut jobs = [
        pretender("shm", "none", |_| 10),
        pretender("shm", "pessimist", |_| 15),
        pretender("ofi:tcp", "none", |_| 100),
        pretender("ofi:tcp", "pessimist", |_| 120),
    ];
    let contestants = jobs.iter_mut().map(|job| job as &mut dyn Contestant);
    let records = records_of(&settings(64, 64, 0, 2), contestants.collect(), None);
    let overheads: Vec<_> = records
        .iter()
        .map(|record| (record.fabric.as_str(), record.overhead_vs_none))
        .collect();
    assert_eq!(
        overheads,
        [
            ("shm", None),
            ("shm", Some(1.5)),
            ("ofi:tcp", None),
            ("ofi:tcp", Some(1.2))
        ]
    );
}

/// All records of a sweep without peers.
fn records_of<'a>(
    settings: &'a Settings,
    contestants: Vec<&'a mut dyn Contestant>,
    disk: Option<DiskAlone<'a>>,
) -> Vec<Record> {
    let mut records = Vec::new();
    Sweep {
        settings,
        contestants,
        disk,
        peers: Vec::new(),
        interrupt: Box::leak(Box::default()),
        progress: Box::leak(Box::new(Progress::new("size", 1, true))),
    }
    .run(&mut |record| {
        records.push(record);
        Ok(())
    })
    .unwrap();
    records
}

#[test]
fn the_disk_has_a_turn_in_each_round_and_the_target_is_of_that_round() {
    let diary = Diary::default();
    let mut pessimist = Pretender {
        fabric: "sim",
        protocol: "pessimist",
        time_us: |seed| if seed % 3 == 1 { 400 } else { 40 },
        diary: Rc::clone(&diary),
        seeds: HashSet::new(),
        interrupt_after: None,
    };
    let mut turns = Vec::new();
    let mut disk = |time| {
        turns.push(time);
        // As slow as the machine in round 1 of 3.
        Ok(if turns.len() % 3 == 2 { 0.4e6 } else { 4e6 })
    };
    let settings = settings(64, 64, 0, 3);
    let records = records_of(&settings, vec![&mut pessimist], Some(&mut disk));
    assert_eq!(turns, [settings.round_time(); 3]);
    let [record] = records.as_slice() else {
        panic!("{records:?}");
    };
    assert_eq!(record.disk.disk_bytes_per_s, Some(4e6));
    assert_eq!(record.log.log_bytes_per_payload_byte, Some(2.0));
    // 64 bytes in 40 µs are 1.6 MB/s of the 2 MB/s that can be logged twice.
    let of_target = record.disk.of_target.unwrap();
    assert!((of_target - 0.8).abs() < 1e-9, "{record:?}");
}

#[test]
fn a_peer_that_fails_is_left_out_and_the_sweep_goes_on() {
    let play = play(&settings(1, 16, 0, 1), 4, None);
    play.result.unwrap();
    let peer: Vec<_> = play
        .diary
        .iter()
        .filter(|entry| entry.starts_with("peer"))
        .collect();
    assert_eq!(peer, ["peer [1, 2]", "peer [3, 4]"]);
    let last = play.records.last().unwrap();
    assert_eq!((last.bytes, last.protocol.as_str()), (16, "pessimist"));
}

#[test]
fn peers_are_not_measured_at_perturbed_sizes() {
    let play = play(&settings(16, 24, 3, 1), 0, None);
    play.result.unwrap();
    let peers: Vec<_> = play
        .records
        .iter()
        .filter(|record| record.protocol == NO_PROTOCOL)
        .map(|record| record.bytes)
        .collect();
    assert_eq!(peers, [16, 24]);
    assert!(play.records.iter().any(|record| record.perturbed));
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    let play = play(&settings(1, 64, 0, 2), 0, Some(7));
    assert!(matches!(play.result, Err(BenchError::Interrupted)));
    assert_eq!(play.diary.iter().filter(|e| e.ends_with(" 1")).count(), 4);
    let sizes: Vec<_> = play.records.iter().map(|record| record.bytes).collect();
    assert_eq!(sizes, [1, 1], "size 2 was not complete");
}

#[test]
fn the_json_file_has_one_object_a_line_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.json");
    let mut json = JsonFile::create(path.clone()).unwrap();
    let play = play(&settings(1, 2, 0, 1), 0, None);
    for record in &play.records {
        json.write(record).unwrap();
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let read: Vec<Record> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(read, play.records);
    assert!(JsonFile::create(folder.path().into()).is_err());
}
