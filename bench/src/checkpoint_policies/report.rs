//! Figures of the simulation, as a table and as JSON.

use crate::report::table;
use refrain_checkpoint::policy::{Choice, Comparison, Row};
use refrain_launch::size::Size;
use serde::Serialize;

/// All figures, with the settings.
#[derive(Debug, Serialize)]
pub struct Report {
    pub ranks: usize,
    pub turns: u64,
    pub message_bytes: u64,
    pub state_bytes: u64,
    pub bandwidth_bytes: u64,
    pub interval_turns: u64,
    /// Ordered by pattern, then by policy.
    pub rows: Vec<Figures>,
}

/// Figures of one policy on one pattern.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub pattern: String,
    pub policy: String,
    /// Bytes in all logs together, mean over the turns.
    pub mean_log_bytes: f64,
    /// Bytes in all logs together, maximum.
    pub peak_log_bytes: u64,
    pub checkpoints: u64,
    /// Bytes of all checkpoints written.
    pub checkpoint_bytes: u64,
    /// Bytes that these checkpoints freed in the logs of other ranks.
    pub freed_bytes: u64,
    /// Bytes freed for each byte of checkpoints; `None` without checkpoints.
    pub freed_per_byte: Option<f64>,
    /// Bytes of all messages sent.
    pub sent_bytes: u64,
}

impl Figures {
    fn of(row: &Row) -> Self {
        let written = (row.checkpoint_bytes > 0).then_some(row.checkpoint_bytes as f64);
        Self {
            pattern: row.pattern.to_string(),
            policy: row.policy.to_string(),
            mean_log_bytes: row.mean_log_bytes,
            peak_log_bytes: row.peak_log_bytes,
            checkpoints: row.checkpoints,
            checkpoint_bytes: row.checkpoint_bytes,
            freed_bytes: row.freed_bytes,
            freed_per_byte: written.map(|bytes| row.freed_bytes as f64 / bytes),
            sent_bytes: row.sent_bytes,
        }
    }

    /// Whether it is the policy without checkpoints.
    pub fn is_none(&self) -> bool {
        self.policy == Choice::None.name()
    }
}

impl Report {
    pub fn of(comparison: &Comparison) -> Self {
        let settings = comparison.settings;
        Self {
            ranks: settings.ranks,
            turns: settings.turns,
            message_bytes: settings.message_bytes,
            state_bytes: settings.state_bytes,
            bandwidth_bytes: settings.bandwidth_bytes,
            interval_turns: settings.interval_turns,
            rows: comparison.rows.iter().map(Figures::of).collect(),
        }
    }

    /// The settings, in one line.
    pub fn title(&self) -> String {
        format!(
            "{} ranks, {} turns, messages of {}, memory of {} a rank, {} of checkpoints a turn",
            self.ranks,
            self.turns,
            Size(self.message_bytes),
            Size(self.state_bytes),
            Size(self.bandwidth_bytes)
        )
    }

    /// The table, after a line with the settings.
    pub fn table(&self) -> String {
        let header = [
            "pattern",
            "policy",
            "logs, mean",
            "logs, peak",
            "checkpoints",
            "written",
            "freed",
            "freed/written",
        ];
        let mut before = None;
        let rows = self.rows.iter().map(|row| {
            let is_first = before.replace(&row.pattern) != Some(&row.pattern);
            vec![
                if is_first {
                    row.pattern.clone()
                } else {
                    String::new()
                },
                row.policy.clone(),
                Size(row.mean_log_bytes.round() as u64).to_string(),
                Size(row.peak_log_bytes).to_string(),
                row.checkpoints.to_string(),
                Size(row.checkpoint_bytes).to_string(),
                Size(row.freed_bytes).to_string(),
                ratio(row.freed_per_byte),
            ]
        });
        format!("{}\n{}", self.title(), table(header, rows, 2))
    }
}

/// Two decimal digits; `-` for `None`.
pub fn ratio(value: Option<f64>) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_checkpoint::policy::{Settings, compare};

    /// The paper's finding shows in the table: if one rank receives all messages, the adaptive
    /// order keeps less in logs than round-robin.
    #[test]
    fn the_table_has_every_policy_on_every_pattern() {
        let report = Report::of(&compare(Settings {
            turns: 2000,
            ..Settings::default()
        }));
        let table = report.table();
        for pattern in ["point-to-point", "all-to-all", "broadcast", "reduce"] {
            assert_eq!(table.matches(pattern).count(), 1, "{table}");
        }
        for policy in ["none", "interval", "round-robin", "ratio", "adaptive"] {
            assert!(table.contains(policy), "{table}");
        }
        let of = |policy: &str| {
            let mut rows = report.rows.iter();
            let row = rows.find(|row| row.pattern == "reduce" && row.policy == policy);
            row.expect("it is there").mean_log_bytes
        };
        assert!(of("adaptive") * 4.0 < of("round-robin"), "{table}");
        assert!(of("round-robin") < of("none"), "{table}");
    }
}
