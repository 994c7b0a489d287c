//! The table and the JSON.

use super::append::Appended;
use super::read_back::ReadBack;
use crate::disk::Transferred;
use comfy_table::{Cell, CellAlignment, Table};
use serde_json::{Value, json};
use std::path::PathBuf;

/// comfy-table's order of borders: only those below the header are drawn.
const HEADER_LINE_ONLY: &str = "     ──            ";

/// All that was measured.
#[derive(Clone, Debug)]
pub struct Report {
    /// Where.
    pub folder: PathBuf,
    /// Memory that the log could use.
    pub log_memory_bytes: u64,
    /// How much stayed in memory before writing began.
    pub spill_after_bytes: u64,
    /// Of each message.
    pub message_bytes: u64,
    /// Transfers under way at once, at most.
    pub in_flight: u64,
    /// Whether the disk alone was reached past the page cache.
    pub disk_direct: bool,
    /// The disk alone, written.
    pub disk_write: Transferred,
    /// The disk alone, read.
    pub disk_read: Transferred,
    /// The log, appended and spilled.
    pub appended: Appended,
    /// The log, read back.
    pub read_back: ReadBack,
}

impl Report {
    /// Spilled bytes per second over those of the disk alone.
    pub fn spill_of_disk(&self) -> f64 {
        ratio(
            self.appended.spilled.bytes_per_s(),
            self.disk_write.bytes_per_s(),
        )
    }

    /// Bytes read back per second over those of the disk alone.
    pub fn read_of_disk(&self) -> f64 {
        ratio(
            self.read_back.read.bytes_per_s(),
            self.disk_read.bytes_per_s(),
        )
    }

    /// What the log took for each byte of payload.
    pub fn log_bytes_per_payload_byte(&self) -> f64 {
        ratio(
            self.appended.log_bytes as f64,
            self.appended.payload_bytes as f64,
        )
    }

    /// One object and a line's end.
    pub fn json(&self) -> String {
        let step = |done: &Transferred| -> Value {
            json!({ "bytes": done.bytes, "seconds": done.seconds, "bytes_per_s": done.bytes_per_s() })
        };
        let report = json!({
            "folder": self.folder.display().to_string(),
            "log_memory_bytes": self.log_memory_bytes,
            "spill_after_bytes": self.spill_after_bytes,
            "message_bytes": self.message_bytes,
            "in_flight": self.in_flight,
            "io": self.appended.how,
            "disk_direct": self.disk_direct,
            "disk_write": step(&self.disk_write),
            "spill": step(&self.appended.spilled),
            "spill_of_disk": self.spill_of_disk(),
            "disk_read": step(&self.disk_read),
            "read_back": step(&self.read_back.read),
            "read_of_disk": self.read_of_disk(),
            "read_back_opening_seconds": self.read_back.opening_seconds,
            "read_back_memory_growth_bytes": self.read_back.memory_growth_bytes,
            "payload_bytes": self.appended.payload_bytes,
            "payload_read_bytes": self.read_back.payload_bytes,
            "log_bytes_per_payload_byte": self.log_bytes_per_payload_byte(),
            "log_memory_peak_bytes": self.appended.memory_peak_bytes,
            "waited_seconds": self.appended.waited_seconds,
        });
        format!("{report}\n")
    }

    /// Steps downwards, and a line or two below.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_preset(HEADER_LINE_ONLY);
        table.set_header(["", "GiB", "s", "GB/s", "÷ disk"].map(Cell::new));
        let steps: [(&str, &Transferred, Option<f64>); 4] = [
            ("disk alone, written", &self.disk_write, None),
            (
                "log, appended and spilled",
                &self.appended.spilled,
                Some(self.spill_of_disk()),
            ),
            ("disk alone, read", &self.disk_read, None),
            (
                "log, read back",
                &self.read_back.read,
                Some(self.read_of_disk()),
            ),
        ];
        for (name, done, ratio) in steps {
            table.add_row([
                Cell::new(name),
                right(format!("{:.2}", done.bytes as f64 / f64::from(1 << 30))),
                right(format!("{:.2}", done.seconds)),
                right(format!("{:.3}", done.bytes_per_s() / 1e9)),
                right(ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"))),
            ]);
        }
        let mib = |bytes: u64| bytes >> 20;
        format!(
            "{table}\n{}: {}; {} at once{}. Messages of {} bytes: {:.3} log bytes per payload byte. \
             Log memory at most {} of {} MiB; without memory for {:.2} s. \
             Reading back took {} MiB of memory more, and {:.2} s of it went into opening.\n",
            self.folder.display(),
            self.appended.how,
            self.in_flight,
            if self.disk_direct {
                ""
            } else {
                " (the disk alone through the page cache)"
            },
            self.message_bytes,
            self.log_bytes_per_payload_byte(),
            mib(self.appended.memory_peak_bytes),
            mib(self.log_memory_bytes),
            self.appended.waited_seconds,
            mib(self.read_back.memory_growth_bytes),
            self.read_back.opening_seconds,
        )
    }
}

fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 0.0 }
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}
