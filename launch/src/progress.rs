//! The live view of a job (`refrain run --progress`): one line on standard error, redrawn on a
//! terminal, and printed every few seconds elsewhere.

use super::Job;
use super::glance::Turn;
use crate::polling;
use crate::size::Size;
use refrain_job::machine::default_log_bytes;
use rustix::event::PollFlags;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// Time between two lines: on a terminal, and elsewhere.
const REDRAW: Duration = Duration::from_millis(200);
const REPEAT: Duration = Duration::from_secs(5);
/// Moves to the beginning of the line and clears the line.
const ERASE: &[u8] = b"\r\x1b[K";
/// Turns the wrapping of long lines off, or on again (DECAWM).
const NO_MARGINS: &[u8] = b"\x1b[?7l";
const MARGINS: &[u8] = b"\x1b[?7h";
/// Most terminals have one more column.
const COLUMNS: usize = 79;

/// When the view is drawn next, and whether it is on the terminal.
#[derive(Debug)]
pub struct Progress {
    begin: Instant,
    turn: Turn,
    is_terminal: bool,
    is_drawn: bool,
}

impl Progress {
    /// A view that begins now.
    pub fn new() -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            turn: Turn::at(now),
            is_terminal: io::stderr().is_terminal(),
            is_drawn: false,
        }
    }

    /// When the next step is due.
    pub fn next(&self) -> Instant {
        self.turn.next_step()
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_drawn) {
            write_now(ERASE);
        }
    }
}

/// A line for a terminal. A narrower terminal cuts it instead of wrapping it (automatic margins
/// are off), since a wrapped line could not be redrawn.
fn drawn(line: &str) -> Vec<u8> {
    let line: String = line.chars().take(COLUMNS).collect();
    [ERASE, NO_MARGINS, line.as_bytes(), MARGINS].concat()
}

/// Writes to standard error, if that does not block. Returns whether it was written.
fn write_now(bytes: &[u8]) -> bool {
    let descriptor = rustix::stdio::stderr();
    polling::is_ready(&descriptor, PollFlags::OUT) && rustix::io::write(descriptor, bytes).is_ok()
}

impl Job {
    /// Shows the state of the job in a line on standard error from now on: redrawn in its place on
    /// a terminal, every few seconds elsewhere.
    pub fn show_progress(&mut self) {
        self.progress = Some(Progress::new());
        let survives = self.describe_protection();
        self.say(Some(survives));
    }

    /// What the job survives, and where its log is.
    fn describe_protection(&self) -> String {
        let config = &self.config;
        if config.recovery.max_restarts == 0 {
            return "the job ends when a rank is killed".into();
        }
        let memory = config
            .log_memory_bytes
            .unwrap_or_else(|| default_log_bytes(config.ranks_on_host));
        let disk = match (&config.spill_dir, config.log_disk_bytes) {
            (Some(folder), Some(bytes)) => format!(" and {} in {folder}", Size(bytes)),
            _ => String::new(),
        };
        format!(
            "a rank that is killed continues ({}); the log of a rank has {} of memory{disk}",
            config.protocol,
            Size(memory)
        )
    }

    /// Erases the view on a terminal if output is to be written in its place.
    pub(super) fn hide_progress(&mut self) {
        let is_silent = self.out.is_empty() && self.err.is_empty();
        if let Some(progress) = self.progress.as_mut().filter(|_| !is_silent) {
            progress.erase();
        }
    }

    /// Draws the view, if it is due and no other output is waiting.
    pub(super) fn draw_progress(&mut self) {
        if let Some(mut progress) = self.progress.take() {
            match self.is_running() {
                true => self.draw(&mut progress),
                false => progress.erase(),
            }
            self.progress = Some(progress);
        }
    }

    fn draw(&mut self, progress: &mut Progress) {
        let now = Instant::now();
        if progress.turn.must_ask(now) {
            self.ask_for_statuses();
        }
        let is_due = progress.turn.is_due(now) || progress.is_terminal && !progress.is_drawn;
        if !is_due || !self.out.is_empty() || !self.err.is_empty() {
            return;
        }
        let glance = self.glance(progress.begin, now);
        if progress.is_terminal {
            progress.turn = Turn::at(now + REDRAW);
            progress.is_drawn |= write_now(&drawn(&format!("refrain: {glance}")));
        } else {
            progress.turn = Turn::at(now + REPEAT);
            self.say(Some(glance.to_string()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_by_narrow_terminals_and_not_broken() {
        assert_eq!(drawn("x"), b"\r\x1b[K\x1b[?7lx\x1b[?7h");
        let drawn = String::from_utf8(drawn(&"x".repeat(200))).unwrap();
        assert_eq!(drawn.matches('x').count(), COLUMNS);
    }
}
