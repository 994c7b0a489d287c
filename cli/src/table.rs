//! Tables for people.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, ContentArrangement, Table};

/// A column: its header, and the function that gives its text for a row.
pub type Column<T> = (&'static str, fn(&T) -> String);

/// A table whose columns are as wide as their content, aligned to the left.
pub fn words<'a>(header: impl IntoIterator<Item = &'a str>, rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table
        .load_preset(NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.into_iter().collect::<Vec<_>>())
        .add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
}

/// A table as of [`words`], for numbers: aligned to the right.
pub fn numbers<'a>(header: impl IntoIterator<Item = &'a str>, rows: Vec<Vec<String>>) -> String {
    let mut table = words(header, rows);
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt()
}
