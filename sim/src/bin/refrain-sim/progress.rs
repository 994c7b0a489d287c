//! How far a campaign is, on a terminal.

use crate::campaign::Seeds;
use indicatif::{ProgressBar, ProgressStyle};

/// Says nothing where nobody looks: it draws on a terminal only.
pub struct Progress(ProgressBar);

impl Progress {
    /// Of a campaign that begins.
    pub fn new(seeds: Seeds) -> Self {
        let bar = match seeds {
            Seeds::Count(_, count) => ProgressBar::new(count),
            Seeds::Time(..) => ProgressBar::no_length(),
        };
        let template = match seeds {
            Seeds::Count(..) => "{elapsed} {bar:40} {pos} of {len} seeds, {per_sec}",
            Seeds::Time(..) => "{elapsed} {pos} seeds, {per_sec}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Self(bar)
    }

    /// One seed more.
    pub fn ran(&self) {
        self.0.inc(1);
    }

    /// The campaign is over.
    pub fn end(&self) {
        self.0.finish_and_clear();
    }
}
