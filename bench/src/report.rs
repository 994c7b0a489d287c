//! Output of measurements: tables, sizes, progress, files.

use crate::error::BenchError;
use comfy_table::{CellAlignment, Table};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::path::Path;

/// Borders in comfy-table's order: only the line below the header is drawn.
const HEADER_LINE_ONLY: &str = "     ──            ";

/// A table with a line below its header. The first `names` columns are aligned to the left, all
/// others to the right.
pub fn table<H: ToString>(
    header: impl IntoIterator<Item = H>,
    rows: impl IntoIterator<Item = Vec<String>>,
    names: usize,
) -> String {
    let mut table = Table::new();
    let header = header.into_iter().map(|name| name.to_string());
    table
        .load_preset(HEADER_LINE_ONLY)
        .set_header(header)
        .add_rows(rows);
    for column in table.column_iter_mut().skip(names) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}

/// Prints a text on standard output; a closed pipe (`| head`) is no error.
///
/// # Errors
/// Standard output cannot be written.
pub fn print(text: &str) -> Result<(), BenchError> {
    match writeln!(io::stdout().lock(), "{}", text.trim_end_matches('\n')) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(BenchError::system("cannot write to standard output")(error))
        }
        _ => Ok(()),
    }
}

/// The short text of a size: `1`, `1.5K`, `64K`, `4M`; sizes that are no multiples of half a unit
/// in bytes.
pub fn format_size(bytes: u64) -> String {
    for (shift, unit) in [(40, "T"), (30, "G"), (20, "M"), (10, "K")] {
        let one: u64 = 1 << shift;
        if bytes >= one && bytes.is_multiple_of(one) {
            return format!("{}{unit}", bytes >> shift);
        }
        if bytes >= one && bytes.is_multiple_of(one / 2) {
            return format!("{}.5{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Writes a file that appears either whole or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn save(text: &str, path: &Path) -> Result<(), BenchError> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    tempfile::Builder::new()
        .prefix(".refrain-")
        .suffix(".tmp")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(folder)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.persist(path).map_err(|error| error.error)
        })
        .map(drop)
        .map_err(BenchError::write(path))
}

/// A progress bar, if standard error is a terminal. Dropping it removes the bar.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    quiet: bool,
}

impl Progress {
    /// A bar for a number of steps, which are called `unit`.
    pub fn new(unit: &str, steps: usize, quiet: bool) -> Self {
        let target = if quiet || !io::stderr().is_terminal() {
            ProgressDrawTarget::hidden()
        } else {
            // Redrawn seldom: each drawing takes a core from a rank.
            ProgressDrawTarget::stderr_with_hz(2)
        };
        let template = format!(
            "{{bar:30}} {unit} {{pos}} of {{len}}  {{msg:>20}}  {{elapsed}} of about {{duration}}"
        );
        let style = ProgressStyle::with_template(&template).expect("a valid template");
        let bar = ProgressBar::with_draw_target(Some(steps as u64), target).with_style(style);
        Self { bar, quiet }
    }

    /// Shows the name of the measurement that begins.
    pub fn begin(&self, what: impl Into<String>) {
        self.bar.set_message(what.into());
    }

    /// One more step is done.
    pub fn step(&self) {
        self.bar.inc(1);
    }

    /// Prints a line on standard error, above the bar.
    pub fn remark(&self, text: &str) {
        if !self.quiet {
            self.bar.suspend(|| eprintln!("{text}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_short() {
        for (bytes, text) in [
            (1, "1"),
            (1000, "1000"),
            (1024, "1K"),
            (1536, "1.5K"),
            (98_304, "96K"),
            (4 << 20, "4M"),
            ((4 << 20) + 3, "4194307"),
            (3 << 29, "1.5G"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }
}
