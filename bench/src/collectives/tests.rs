use super::arguments::{Point, log_bytes};
use super::figures::{Overlap, figures};
use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: Arguments,
}

fn arguments(options: &str) -> Arguments {
    Line::parse_from(std::iter::once("collectives").chain(options.split_whitespace())).arguments
}

const OUTPUT: &str = "a warning of the library\n\
    figure 8 algorithm flat\nfigure 8 blocking 2.5e-7\nfigure 8 mean 3e-7\nfigure 8 log-bytes 128\n\
    figure 8 non-blocking 0.000001\nfigure 8 computation 0.000002\nfigure 8 both 0.0000025\n\
    figure 64 blocking 3e-7\nfigure 64 mean 3e-7\nfigure 64 non-blocking 1e-6\nfigure 64 computation 1e-6\nfigure 64 both 2e-6\n";

#[test]
fn figures_are_found_among_other_lines() {
    let found = figures(OUTPUT, &[8, 64], true).unwrap();
    assert!((found[0].blocking_us - 0.25).abs() < 1e-9);
    assert_eq!(found[0].algorithm.as_deref(), Some("flat"));
    assert_eq!(found[0].log_bytes, Some(128.0));
    assert!((found[0].overlap.unwrap().hidden() - 0.5).abs() < 1e-9);
    assert_eq!(
        (found[1].algorithm.clone(), found[1].log_bytes),
        (None, None)
    );
    assert!(found[1].overlap.unwrap().hidden().abs() < 1e-9);
    assert_eq!(figures(OUTPUT, &[8], false).unwrap()[0].overlap, None);
}

#[test]
fn a_missing_figure_is_an_error() {
    let missing = figures(OUTPUT, &[16], false).unwrap_err();
    assert_eq!(missing, "no time `blocking` of 16 bytes");
    let without = OUTPUT.replace("figure 8 both", "figure 8 none");
    assert!(figures(&without, &[8], true).is_err());
    for time in ["0", "nan", "-1", "inf", "x"] {
        assert!(
            figures(
                &format!("figure 4 mean 1\nfigure 4 blocking {time}"),
                &[4],
                false
            )
            .is_err()
        );
    }
}

#[test]
fn a_hidden_part_may_be_less_than_nothing() {
    let overlap = Overlap {
        non_blocking_us: 1.0,
        computation_us: 1.0,
        both_us: 3.0,
    };
    assert_eq!(overlap.hidden(), -1.0);
}

#[test]
fn a_point_is_a_size_and_a_batch() {
    for text in ["8:100", "0:1"] {
        assert_eq!(text.parse::<Point>().unwrap().to_string(), text);
    }
    for text in ["", "8:", "8:0", "6:1", ":1", "-4:1"] {
        assert!(text.parse::<Point>().is_err(), "{text}");
    }
}

#[test]
fn the_loop_gets_what_the_log_holds_between_horizons() {
    let of = arguments("--sizes 8,1M --ranks 4 --log-memory 64M --time 0.5 --blocking --tests 3");
    of.check().unwrap();
    let batches: Vec<_> = of.points(Operation::Bcast).collect();
    let room = |point: &Point| point.batch * log_bytes(point.bytes, 4);
    assert!(batches.iter().all(|point| room(point) <= 16 << 20));
    assert_eq!(batches[1].batch, 2);
    let words = of.words(Operation::ReduceScatter).join(" ");
    assert!(
        words.starts_with("reduce-scatter 0.5 3 false 8:"),
        "{words}"
    );
    assert!(words.ends_with("1048576:2"), "{words}");
    assert_eq!(
        of.points(Operation::Barrier)
            .map(|it| it.bytes)
            .collect::<Vec<_>>(),
        [0]
    );
}

#[test]
fn wrong_options_are_refused() {
    for (options, words) in [
        ("--sizes 6", "6 bytes are no elements"),
        ("--sizes 0", "--sizes"),
        ("--sizes 4M --ranks 64", "64 ranks with 4M"),
        ("--protocol optimist", "none, pessimist"),
        ("--time 0", "0 seconds"),
    ] {
        let error = arguments(options).check().unwrap_err().to_string();
        assert!(error.contains(words), "{options}: {error}");
    }
    arguments("").check().unwrap();
    arguments("--ranks 8").check().unwrap();
}

#[test]
fn ratios_are_to_the_faster_peer_and_within_a_repetition() {
    let of = arguments("--operations barrier,bcast --sizes 8,64 --repetitions 2");
    let names = ["none", "pessimist", "Open MPI", "MPICH"].map(str::to_owned);
    let mut runs = Vec::new();
    for repetition in 0..2 {
        for (name, time_us) in names.iter().zip([1.0, 1.5, 5.0, 3.0]) {
            for (operation, bytes) in [
                (Operation::Barrier, 0),
                (Operation::Bcast, 8),
                (Operation::Bcast, 64),
            ] {
                let time_us = time_us * f64::from(1 + 9 * repetition);
                let text = ["blocking", "mean"]
                    .map(|name| format!("figure {bytes} {name} {}\n", time_us / 1e6))
                    .concat();
                let mut figures = figures(&text, &[bytes], false).unwrap().remove(0);
                figures.overlap = Some(Overlap {
                    non_blocking_us: 4.0,
                    computation_us: 4.0,
                    both_us: 5.0,
                });
                runs.push(Run {
                    repetition,
                    operation,
                    contestant: name.clone(),
                    figures,
                });
            }
        }
    }
    let text = report::text(&of, &runs, &names);
    let row: Vec<&str> = (text.lines())
        .find(|line| line.trim_start().starts_with("bcast") && line.contains(" 64 "))
        .unwrap()
        .split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect();
    // Times, pessimist ÷ none, none ÷ MPICH, pessimist ÷ MPICH.
    assert_eq!(row[row.len() - 3..], ["1.50", "0.33", "0.50"], "{text}");
    assert_eq!(text.matches("0.75").count(), 3 * 4, "{text}");
    let drawing = report::chart(&of, &runs, &names).draw().unwrap();
    for words in ["bcast, µs", "barrier, µs", "Open MPI", "2 ranks"] {
        assert!(drawing.contains(words), "{words}");
    }
}
