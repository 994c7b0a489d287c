//! The progress bar, where standard error is a terminal.

use super::sizes::format_size;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// Shows how far the sweep is, and passes on remarks.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

impl Progress {
    /// For a sweep of `sizes` sizes.
    pub fn new(sizes: usize, quiet: bool) -> Self {
        let target = if quiet || !std::io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            // Seldom: each drawing takes a core from a rank.
            ProgressDrawTarget::stderr_with_hz(2)
        };
        let style = ProgressStyle::with_template(
            "{bar:30} size {pos} of {len}  {msg:>20}  {elapsed} of about {duration}",
        )
        .expect("a valid template");
        let bar = ProgressBar::with_draw_target(Some(sizes as u64), target).with_style(style);
        Self { bar, quiet }
    }

    /// `bytes` is measured now.
    pub fn size(&self, bytes: u64) {
        self.bar.set_message(format_size(bytes));
    }

    /// A peer is measured now.
    pub fn peer(&self, name: &str) {
        self.bar.set_message(name.to_owned());
    }

    /// One size more is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// A line for people on standard error, above the bar.
    pub fn remark(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| eprintln!("{text}"));
        }
    }

    /// Takes the bar away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
