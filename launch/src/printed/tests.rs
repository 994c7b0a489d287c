//! Lives that print, die and print again.

use super::*;
use proptest::prelude::*;

fn stream() -> Printed {
    Printed::new(Lines::new(None))
}

/// Prints `text` and returns the output.
fn print(printed: &mut Printed, text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    printed.take(text, &mut out);
    out
}

/// Kills the life; its whole lines were passed on.
fn kill(printed: &mut Printed) {
    printed.end_life(printed.handed_out());
}

fn begin(printed: &mut Printed, checkpoint: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let handed_on = printed.handed_out();
    printed.begin(checkpoint, handed_on, &mut out).unwrap();
    out
}

#[test]
fn a_line_is_handed_out_once_over_all_lives() {
    let mut printed = stream();
    assert_eq!(print(&mut printed, b"a\nb\nc"), b"a\nb\n");
    kill(&mut printed);
    assert_eq!(
        print(&mut printed, b"a\nb"),
        b"",
        "the position is not known"
    );
    assert_eq!(begin(&mut printed, 0), b"");
    assert_eq!(print(&mut printed, b"\ncc\nd"), b"cc\n");
    kill(&mut printed);
    begin(&mut printed, 0);
    kill(&mut printed); // before it has printed as much
    begin(&mut printed, 0);
    assert_eq!(print(&mut printed, b"a\nb\ncc\nd\n"), b"d\n");
    assert!(!printed.take_difference());
}

#[test]
fn a_life_continues_from_its_checkpoint_in_the_middle_of_a_line() {
    let mut printed = stream();
    print(&mut printed, b"a\nb ");
    printed.mark(1);
    assert_eq!(print(&mut printed, b"is half"), b"");
    kill(&mut printed);
    assert_eq!(print(&mut printed, b"welcome\n"), b"");
    assert_eq!(begin(&mut printed, 1), b"", "passed on before");
    assert_eq!(print(&mut printed, b"is half\nc\n"), b"b is half\nc\n");
    kill(&mut printed);
    begin(&mut printed, 1);
    assert_eq!(print(&mut printed, b"is half\nc\nd\n"), b"d\n");
    assert!(!printed.take_difference());
}

#[test]
fn a_checkpoint_that_was_taken_again_counts_from_the_life_that_did() {
    let mut printed = stream();
    print(&mut printed, b"a\n");
    printed.mark(1);
    print(&mut printed, b"b\n");
    printed.mark(2);
    print(&mut printed, b"c\n");
    kill(&mut printed);
    begin(&mut printed, 1);
    assert_eq!(
        printed.lines_before(2),
        None,
        "the checkpoint is taken again"
    );
    print(&mut printed, b"b\n");
    printed.mark(2);
    kill(&mut printed);
    begin(&mut printed, 2);
    assert_eq!(print(&mut printed, b"c\nd\n"), b"d\n");
    assert!(!printed.take_difference());
}

#[test]
fn an_unknown_checkpoint_is_an_error() {
    let mut printed = stream();
    kill(&mut printed);
    let error = printed.begin(3, Position::default(), &mut Vec::new());
    assert!(error.unwrap_err().contains("checkpoint 3"));
}

#[test]
fn marks_are_kept_for_two_generations() {
    let mut printed = stream();
    for checkpoint in 1..=4 {
        printed.mark(checkpoint);
        printed.forget_before(checkpoint);
    }
    let kept: Vec<u64> = printed.marks.keys().copied().collect();
    assert_eq!(kept, [3, 4]);
}

// REC-8
#[test]
fn a_life_that_prints_something_else_is_found_out_once() {
    let mut printed = stream();
    print(&mut printed, b"time 1\nmore\n");
    kill(&mut printed);
    begin(&mut printed, 0);
    print(&mut printed, b"time 2\n");
    assert!(
        !printed.take_difference(),
        "not before all is printed again"
    );
    assert_eq!(print(&mut printed, b"more\nnew\n"), b"new\n");
    assert!(printed.take_difference());
    assert!(!printed.take_difference());
}

/// Prints `text` from `from` to `until`, in parts. A checkpoint is taken at each position of
/// `marks`; the first `taken` of them were taken before. Returns how many are taken at the end.
fn live(
    printed: &mut Printed,
    text: &[u8],
    (from, until): (usize, usize),
    marks: &[usize],
    mut taken: usize,
    step: usize,
    out: &mut Vec<u8>,
) -> usize {
    let mut begin = from;
    for place in from..=until {
        let is_mark = marks.get(taken) == Some(&place);
        if is_mark || place == until || place - begin == step {
            printed.take(&text[begin..place], out);
            begin = place;
        }
        if is_mark {
            taken += 1;
            printed.mark(taken as u64);
        }
    }
    taken
}

proptest! {
    /// The output of a program is passed on exactly once, however the program is cut into lives,
    /// checkpoints and reads.
    #[test]
    fn all_lives_together_print_what_one_life_prints(
        text in "[ab\n]{0,120}",
        deaths in prop::collection::vec((0usize..=120, 0usize..5), 0..6),
        marks in prop::collection::btree_set(0usize..=120, 0..4),
        step in 1usize..20,
    ) {
        let text = text.as_bytes();
        let marks: Vec<usize> = marks.into_iter().collect();
        let (mut printed, mut out) = (stream(), Vec::new());
        let (mut from, mut taken) = (0, 0);
        for (until, checkpoint) in deaths {
            let until = until.min(text.len()).max(from);
            taken = live(&mut printed, text, (from, until), &marks, taken, step, &mut out);
            kill(&mut printed);
            taken = checkpoint.min(taken);
            out.extend(begin(&mut printed, taken as u64));
            from = if taken == 0 { 0 } else { marks[taken - 1] };
        }
        live(&mut printed, text, (from, text.len()), &marks, taken, step, &mut out);
        printed.finish(&mut out);
        prop_assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(text));
        prop_assert!(!printed.take_difference());
    }
}

/// A later run of the job.
fn go_on(printed: &Printed, handed_on: Position) -> Printed {
    let mut later = stream();
    later.go_on(Some(printed.to_save(handed_on)));
    later
}

// JOB-5
#[test]
fn a_later_run_goes_on_behind_what_was_passed_on() {
    let mut printed = stream();
    print(&mut printed, b"a\nb ");
    printed.mark(1);
    print(&mut printed, b"is half\nc");
    let mut later = go_on(&printed, printed.handed_out());
    begin(&mut later, 1);
    assert_eq!(print(&mut later, b"is half\nc and d\n"), b"c and d\n");
    assert!(!later.take_difference());
    // Killed: only what was stored at the mark is known, and the rest comes again.
    let mut printed = stream();
    print(&mut printed, b"a\nb ");
    printed.mark(1);
    let saved = printed.to_save(printed.handed_out());
    print(&mut printed, b"is half\n");
    let mut later = stream();
    later.go_on(Some(saved));
    begin(&mut later, 1);
    assert_eq!(print(&mut later, b"is half\n"), b"b is half\n");
}

/// The file is lost: output comes again, from the checkpoint on.
#[test]
fn a_later_run_without_marks_prints_what_it_prints() {
    let mut later = stream();
    later.go_on(None);
    assert_eq!(print(&mut later, b"welcome\n"), b"");
    assert_eq!(begin(&mut later, 7), b"");
    assert_eq!(print(&mut later, b"a\n"), b"a\n");
}

/// A loss of power has undone the newest mark, and not the checkpoint.
// JOB-5
#[test]
fn output_behind_an_unknown_checkpoint_is_not_taken_for_printed() {
    let mut printed = stream();
    print(&mut printed, b"a\n");
    printed.mark(1);
    print(&mut printed, b"b\n");
    let mut later = go_on(&printed, printed.handed_out());
    begin(&mut later, 2);
    assert_eq!(print(&mut later, b"c\n"), b"c\n");
    // A later life goes on in the same positions.
    later.mark(3);
    assert_eq!(print(&mut later, b"d\n"), b"d\n");
    kill(&mut later);
    begin(&mut later, 3);
    assert_eq!(print(&mut later, b"d\ne\n"), b"e\n");
    assert!(!later.take_difference());
}
