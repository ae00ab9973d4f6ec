//! A small table: aligned text for people, CSV, NDJSON or JSON for programs.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::report::plain::{columns, cut, plain};

/// Columns that a text keeps where a table must fit a terminal.
const TEXT_COLUMNS_MIN: usize = 12;

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Name: the head in text and CSV, the key in JSON.
    pub name: Cow<'static, str>,
    /// Numbers stand to the right.
    pub is_number: bool,
}

impl Column {
    /// A column of text.
    #[must_use]
    pub const fn text(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), is_number: false }
    }

    /// What stands above it for people. The keys of a policy stay as they are written.
    #[must_use]
    pub fn head(&self) -> String {
        if self.name.contains('.') { self.name.clone().into_owned() } else { self.name.replace('_', " ") }
    }

    /// A column whose name is known at run time only.
    #[must_use]
    pub fn named(name: &str, is_number: bool) -> Self {
        Self { name: Cow::Owned(name.to_owned()), is_number }
    }

    /// A column of numbers.
    #[must_use]
    pub const fn number(name: &'static str) -> Self {
        Self { name: Cow::Borrowed(name), is_number: true }
    }
}

/// Rows under columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Value>>,
}

impl Table {
    /// An empty table.
    #[must_use]
    pub fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// Adds a row; a missing cell is empty.
    pub fn row(&mut self, mut cells: Vec<Value>) {
        cells.resize(self.columns.len(), Value::Null);
        self.rows.push(cells);
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The rows: a cell for each column.
    pub fn rows(&self) -> impl Iterator<Item = &[Value]> {
        self.rows.iter().map(Vec::as_slice)
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Aligned text with a head. A column without a single value is left out. Where a line would be wider than `width` columns, the widest columns of text give way, down to
    /// twelve each.
    #[must_use]
    pub fn to_text(&self, width: Option<usize>, is_styled: bool) -> String {
        let has_value = |at: usize| self.rows.iter().any(|row| row.get(at).is_some_and(|cell| !cell.is_null()));
        let empty: Vec<usize> = (0..self.columns.len()).filter(|at| !self.rows.is_empty() && !has_value(*at)).collect();
        if !empty.is_empty() {
            return self.without(&empty).to_text(width, is_styled);
        }
        let cells: Vec<Vec<String>> = self.rows.iter().map(|row| row.iter().map(shown).collect()).collect();
        let mut widths: Vec<usize> = self.columns.iter().map(|column| columns(&column.name)).collect();
        for row in &cells {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(columns(cell));
            }
        }
        if let Some(width) = width {
            self.fit(&mut widths, width);
        }
        let mut out = String::new();
        let head: Vec<String> = self.columns.iter().map(Column::head).collect();
        let (on, off) = if is_styled { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let _ = writeln!(out, "{on}{}{off}", self.line(&head, &widths));
        for row in &cells {
            let _ = writeln!(out, "{}", self.line(row, &widths));
        }
        out
    }

    fn without(&self, left_out: &[usize]) -> Self {
        fn kept<T: Clone>(all: &[T], left_out: &[usize]) -> Vec<T> {
            all.iter().enumerate().filter(|(at, _)| !left_out.contains(at)).map(|(_, one)| one.clone()).collect()
        }
        Self { columns: kept(&self.columns, left_out), rows: self.rows.iter().map(|row| kept(row, left_out)).collect() }
    }

    fn fit(&self, widths: &mut [usize], width: usize) {
        let mut over = (widths.iter().sum::<usize>() + 2 * widths.len().saturating_sub(1)).saturating_sub(width);
        while over > 0 {
            let texts = self.columns.iter().zip(widths.iter_mut()).filter(|(column, _)| !column.is_number);
            let Some(widest) = texts.map(|(_, width)| width).max().filter(|widest| **widest > TEXT_COLUMNS_MIN) else { return };
            *widest -= 1;
            over -= 1;
        }
    }

    fn line(&self, cells: &[String], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((column, cell), width) in self.columns.iter().zip(cells).zip(widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            let length = columns(cell);
            let (cell, mark) = if length > *width { (cut(cell, width.saturating_sub(1)), "…") } else { (cell.as_str(), "") };
            let padding = " ".repeat(width.saturating_sub(columns(cell) + columns(mark)));
            if column.is_number {
                line.push_str(&padding);
                line.push_str(cell);
            } else {
                line.push_str(cell);
                line.push_str(mark);
                line.push_str(&padding);
            }
        }
        line.trim_end().to_owned()
    }

    /// The rows as JSON objects.
    #[must_use]
    pub fn to_objects(&self) -> Vec<Value> {
        let object = |row: &Vec<Value>| {
            let pairs = self.columns.iter().zip(row).map(|(column, cell)| (column.name.clone().into_owned(), cell.clone()));
            Value::Object(pairs.collect::<Map<String, Value>>())
        };
        self.rows.iter().map(object).collect()
    }

    /// RFC 4180, with a head. A text that a spreadsheet would take for a formula has an apostrophe before it (OWASP, CSV injection):
    /// names of sessions and tools are anybody's.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let quote = |cell: &str| {
            if cell.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", cell.replace('"', "\"\"")) } else { cell.to_owned() }
        };
        let mut out = self.columns.iter().map(|column| quote(&column.name)).collect::<Vec<_>>().join(",");
        out.push('\n');
        for row in &self.rows {
            let inert = |cell: &Value| {
                let text = shown(cell);
                if cell.is_string() && text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
            };
            let cells: Vec<String> = row.iter().map(|cell| quote(&inert(cell))).collect();
            out.push_str(&cells.join(","));
            out.push('\n');
        }
        out
    }
}

/// A cell for people.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&[Column::text("session"), Column::number("count")]);
        table.row(vec!["a,\"b\"\u{1b}[2J".into(), 3.into()]);
        table.row(vec!["a-very-long-session-name".into(), 12_345.into()]);
        table
    }

    #[test]
    fn numbers_stand_to_the_right_and_no_line_is_too_wide() {
        let text = table().to_text(Some(20), false);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["session        count", "a,\"b\"\u{fffd}[2J          3", "a-very-long-…  12345"]);
    }

    #[test]
    fn a_column_of_nothing_is_left_out_for_people_only() {
        let mut table = Table::new(&[Column::text("tool"), Column::number("cost"), Column::number("calls")]);
        table.row(vec!["a".into(), Value::Null, 0.into()]);
        assert_eq!(table.to_text(None, false), "tool  calls\na         0\n");
        assert_eq!(table.to_csv(), "tool,cost,calls\na,,0\n");
    }

    #[test]
    fn csv_quotes_what_needs_it() {
        assert_eq!(table().to_csv(), "session,count\n\"a,\"\"b\"\"\u{fffd}[2J\",3\na-very-long-session-name,12345\n");
    }

    #[test]
    fn csv_holds_no_formula() {
        let mut table = Table::new(&[Column::text("tool"), Column::number("count")]);
        table.row(vec!["=HYPERLINK(\"x\",1)".into(), (-3).into()]);
        table.row(vec!["@a-b".into(), Value::Null]);
        assert_eq!(table.to_csv(), "tool,count\n\"'=HYPERLINK(\"\"x\"\",1)\",-3\n'@a-b,\n");
    }

    #[test]
    fn objects_keep_every_character() {
        assert_eq!(table().to_objects()[0]["session"], "a,\"b\"\u{1b}[2J");
    }
}
