//! Results of `refrain log bench`, as a table and as JSON.

use super::append::Appended;
use super::arguments::Arguments;
use super::read_back::ReadBack;
use crate::disk::Transferred;
use crate::report::table;
use serde_json::{Value, json};

/// All measurements.
#[derive(Clone, Debug)]
pub struct Report {
    pub arguments: Arguments,
    /// Whether access to the disk alone bypassed the page cache.
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
    /// Rate of spilling relative to writing to the disk alone.
    fn spill_of_disk(&self) -> f64 {
        let spilled = &self.appended.spilled;
        ratio(spilled.bytes_per_s(), self.disk_write.bytes_per_s())
    }

    /// Rate of reading back relative to reading from the disk alone.
    fn read_of_disk(&self) -> f64 {
        let read = &self.read_back.read;
        ratio(read.bytes_per_s(), self.disk_read.bytes_per_s())
    }

    /// Bytes of the log per byte of payload.
    pub fn log_bytes_per_payload_byte(&self) -> f64 {
        let Appended {
            log_bytes,
            payload_bytes,
            ..
        } = self.appended;
        ratio(log_bytes as f64, payload_bytes as f64)
    }

    /// One JSON object in one line.
    pub fn json(&self) -> String {
        let step = |done: &Transferred| -> Value {
            json!({ "bytes": done.bytes, "seconds": done.seconds, "bytes_per_s": done.bytes_per_s() })
        };
        let report = json!({
            "folder": self.arguments.folder.display().to_string(),
            "log_memory_bytes": self.arguments.log_memory,
            "spill_after_bytes": self.arguments.spill_after,
            "message_bytes": self.arguments.message,
            "in_flight": self.arguments.in_flight,
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
        report.to_string()
    }

    /// One row per step, and one or two lines below.
    pub fn table(&self) -> String {
        let appended = &self.appended;
        let spilled = Some(self.spill_of_disk());
        let read = Some(self.read_of_disk());
        let row = |(name, done, ratio): (&str, &Transferred, Option<f64>)| {
            vec![
                name.to_owned(),
                format!("{:.2}", done.bytes as f64 / f64::from(1 << 30)),
                format!("{:.2}", done.seconds),
                format!("{:.3}", done.bytes_per_s() / 1e9),
                ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}")),
            ]
        };
        let rows = [
            ("disk alone, written", &self.disk_write, None),
            ("log, appended and spilled", &appended.spilled, spilled),
            ("disk alone, read", &self.disk_read, None),
            ("log, read back", &self.read_back.read, read),
        ];
        let table = table(["", "GiB", "s", "GB/s", "÷ disk"], rows.map(row), 1);
        let mib = |bytes: u64| bytes >> 20;
        format!(
            "{table}\n{}: {}; {} at once{}. Messages of {} bytes: {:.3} log bytes per payload byte. \
             Log memory at most {} of {} MiB; without memory for {:.2} s. \
             Reading back took {} MiB of memory more, and {:.2} s of it went into opening.\n",
            self.arguments.folder.display(),
            self.appended.how,
            self.arguments.in_flight,
            if self.disk_direct {
                ""
            } else {
                " (the disk alone through the page cache)"
            },
            self.arguments.message,
            self.log_bytes_per_payload_byte(),
            mib(self.appended.memory_peak_bytes),
            mib(self.arguments.log_memory),
            self.appended.waited_seconds,
            mib(self.read_back.memory_growth_bytes),
            self.read_back.opening_seconds,
        )
    }
}

fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 0.0 }
}
