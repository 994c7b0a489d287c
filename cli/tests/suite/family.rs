//! `refrain bench family`: its model, compared with the counters of real jobs of 4 and 8 ranks.
//!
//! How many messages a rank sends until a confirmation is back, and whether it runs ahead of others
//! and so joins two batches, depends on the machine. So counts of what is carried lie between those
//! of the model with the shortest window and with the longest; batches and their bytes are within the
//! factors below. Everything else is exact.

use crate::launched::{refrain, run};
use refrain_bench::family::encoder::Encoder;
use refrain_bench::family::model::{Bytes, Costs, Load, Pattern};
use refrain_logging::Member;
use serde_json::Value;

const ITERATIONS: u64 = 150;
/// Messages of the end of a job, and events of the last iteration that no message carries.
const ENDS: f64 = 0.06;
/// A `wait_some` that ends with several requests is an event of its own.
const COMPLETIONS: f64 = 1.0;
/// A rank is at most an iteration ahead, which joins two batches. Early commits cut them: each event
/// may be one.
const BATCHES_MIN: f64 = 0.3;
/// So bytes for each determinant are between these parts of the model and those of batches of one.
const BYTES_MIN: f64 = 0.5;
/// Completions take less.
const BYTES_MIN_WITH_COMPLETIONS: f64 = 0.25;
/// What is above the bytes of batches of one: larger clocks and numbers.
const BYTES_MORE: f64 = 1.2;
/// With `causal` what is carried is coded against what was carried before, and real events are less regular:
/// bytes for each, at most, ÷ the model.
const BYTES_MAX_CARRIED: f64 = 4.0;

fn load(member: Member, pattern: Pattern, ranks: u64, window: f64) -> Load {
    let costs = Costs {
        gap_us: 1.0,
        confirm_us: window,
        step_us: 1.0,
        byte_ns: 0.0,
        iterations: ITERATIONS,
    };
    Load::of(
        member,
        &pattern.roles(ranks, 2),
        &costs,
        &mut Encoder::default(),
    )
}

/// The counters of a real job.
fn measured(member: Member, pattern: Pattern, ranks: u64) -> Value {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("statistics");
    let tasks = (ITERATIONS * (ranks - 1)).to_string();
    let iterations = ITERATIONS.to_string();
    let workload: &[&str] = match pattern {
        Pattern::Stencil => &[
            "stencil",
            "--any",
            "--size",
            "16",
            "--reduce-every",
            "0",
            "--iterations",
            &iterations,
        ],
        Pattern::AllToAll => &["all-to-all", "--rounds", &iterations],
        Pattern::MasterAndWorkers => &["any-source", "--bytes", "64", "--tasks", &tasks],
    };
    let mut command = refrain();
    command
        .args(["run", "-n", &ranks.to_string(), "--protocol", member.name()])
        .args(["--log-disk", "0", "--stats-file"])
        .arg(&file)
        .args(["--", env!("CARGO_BIN_EXE_refrain-workload")])
        .args(workload);
    run(&mut command).expect(0);
    let text = std::fs::read(file).expect("the launcher wrote it");
    let mut all: Value = serde_json::from_slice(&text).expect("JSON");
    all["total"].take()
}

fn compare(member: Member, pattern: Pattern, ranks: u64) {
    let total = measured(member, pattern, ranks);
    let number = |value: &Value| value.as_u64().expect("a counter") as f64;
    let (logged, at_ranks) = (&total["logged"], &total["logged"]["at_ranks"]);
    let [least, most] = [1.0, 1e6].map(|window| load(member, pattern, ranks, window));
    let told = format!(
        "{} on {ranks} ranks, {pattern:?}: {total}, model {least:?}",
        member.name()
    );

    let messages = number(&total["messages_sent"]) / least.messages;
    assert!(
        (1.0..1.0 + ENDS).contains(&messages),
        "{messages} of {told}"
    );
    let kinds = [
        "matches",
        "merged",
        "completions",
        "probes",
        "nothing",
        "given",
    ];
    let events: f64 = kinds.iter().map(|kind| number(&logged[*kind])).sum();
    let more = events / least.events;
    match pattern {
        Pattern::MasterAndWorkers => {
            assert!(
                (1.0..=1.0 + COMPLETIONS).contains(&more),
                "{more} of {told}"
            );
        }
        _ => assert_eq!(more, 1.0, "{told}"),
    }
    let commits = number(&logged["commits"]) / least.commits;
    assert!(
        commits >= BATCHES_MIN && number(&logged["commits"]) <= events,
        "{commits} of {told}"
    );

    let bytes = |found: &Value, of: f64, model: f64| {
        let ratio = number(found) / of / model;
        let least = match pattern {
            Pattern::MasterAndWorkers => BYTES_MIN_WITH_COMPLETIONS,
            _ => BYTES_MIN,
        };
        let most = match member {
            Member::Causal => BYTES_MAX_CARRIED,
            _ => {
                let single = Encoder::default().of(member.events(), 1, ranks - 1, ranks);
                single / model * BYTES_MORE
            }
        };
        let range = least..=most;
        assert!(range.contains(&ratio), "{ratio}, {range:?} of {told}");
        ratio
    };
    let (own, held) = (number(&at_ranks["own"]), number(&at_ranks["held"]));
    let carried = number(&at_ranks["carried"]);
    let ratio = match member {
        Member::Pessimist => {
            assert_eq!((own, held, carried), (0.0, 0.0, 0.0), "{told}");
            bytes(
                &logged["batch_bytes"],
                events,
                least.logger_bytes / least.events,
            )
        }
        Member::Ticket => {
            assert_eq!((own, held, carried), (events, events, 0.0), "{told}");
            bytes(
                &at_ranks["told_bytes"],
                events,
                least.told_bytes / least.events,
            )
        }
        _ => {
            let range = least.carried * (1.0 - ENDS)..=most.carried * more * (1.0 + ENDS);
            assert!(range.contains(&carried), "{range:?} has not {told}");
            // The newest are not counted, and what was not read at the end.
            let is_nearly = |count: f64, of: f64| (of * (1.0 - ENDS)..=of).contains(&count);
            assert!(is_nearly(own, events) && is_nearly(held, carried), "{told}");
            bytes(
                &at_ranks["carried_bytes"],
                carried,
                least.carried_bytes / least.carried,
            )
        }
    };
    println!(
        "{:9} {ranks} ranks {pattern:?}: messages {messages:.3}, events {more:.3}, commits {commits:.2}, \
         carried {:.2}, bytes {ratio:.2} of the model",
        member.name(),
        if most.carried > 0.0 {
            carried / most.carried
        } else {
            0.0
        },
    );
}

#[test]
fn the_model_agrees_with_real_jobs() {
    for pattern in [
        Pattern::Stencil,
        Pattern::AllToAll,
        Pattern::MasterAndWorkers,
    ] {
        for member in [Member::Pessimist, Member::Ticket, Member::Causal] {
            for ranks in [4, 8] {
                compare(member, pattern, ranks);
            }
        }
    }
}

#[test]
fn a_million_ranks_have_their_load() {
    let folder = tempfile::tempdir().expect("a folder");
    let [json, svg] = ["it.json", "it.svg"].map(|name| folder.path().join(name));
    let mut command = refrain();
    command.args(["bench", "family", "--ranks", "1024,1048576", "--json"]);
    let ended = run(command.arg(&json).arg("--svg").arg(&svg)).expect(0);
    for words in ["1M", "all to all", "master and workers", "causal"] {
        assert!(ended.out.contains(words), "{words}: {}", ended.out);
    }
    let check = [json.as_os_str(), "family".as_ref()];
    run(refrain().args(["bench", "check-experiment"]).args(check)).expect(0);
    assert!(std::fs::read_to_string(&svg).is_ok_and(|text| text.contains("</svg>")));
}
