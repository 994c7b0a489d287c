//! Output before a death is printed once.

use super::batch::Batch;
use super::program;

/// The lines that begin with this prefix, in order.
fn of<'a>(out: &'a str, rank: &str) -> Vec<&'a str> {
    out.lines().filter(|line| line.starts_with(rank)).collect()
}

/// With and without checkpoints, at clocks of which some are between the two lines of a round, and
/// with events that are not stable when a line is printed.
// REC-4 REC-5
#[test]
fn every_line_is_printed_once() {
    let mut batch = Batch::new("output");
    let survivor = program::path();
    let run = |batch: &mut Batch, options: &str, every: &str| {
        let ended = batch.run_program(2, options, &[&survivor, "print", every]);
        let ended = ended.expect(0);
        assert!(
            !ended.err.contains("printed other output"),
            "{options}: {ended:?}"
        );
        ["rank 0", "rank 1"].map(|rank| of(&ended.out, rank).join("\n"))
    };
    let expected = run(&mut batch, "--protocol none", "0");
    assert_eq!(expected[0].lines().count(), 40);
    for every in ["0", "1", "6"] {
        for protocol in ["pessimist", "pessimist --gate-output", "pessimist-classic"] {
            for clock in [1, 9, 22, 33] {
                let options = format!(
                    "--protocol {protocol} --kill 0@clock={clock},1@clock={}",
                    clock + 1
                );
                let found = run(&mut batch, &options, every);
                assert_eq!(found, expected, "{options}, checkpoints: {every}");
            }
        }
    }
    batch.finish(30);
}
