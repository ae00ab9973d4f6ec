//! The parts of a report: rows, and the sentences about them. A row is a struct: its fields are the columns, in their order, and the keys in
//! JSON.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Row, Width, presets};
use indexmap::IndexMap;
use serde::Serialize;
use serde_json::Value;

use crate::report::plain;

/// Columns that a text keeps where a table must fit a terminal.
const TEXT_COLUMNS_MIN: u16 = 12;

/// A row: its cells by the names of their columns.
type Cells = IndexMap<String, Value>;

/// Rows with the same columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    columns: Vec<String>,
    rows: Vec<Cells>,
}

impl Table {
    /// A table of these rows. Of no rows, the columns are those of a default row.
    pub fn of<T: Serialize + Default>(rows: impl IntoIterator<Item = T>) -> Self {
        let rows: Vec<Cells> = rows.into_iter().map(|row| cells(&row)).collect();
        let columns = rows.first().map_or_else(|| cells(&T::default()), Clone::clone).into_keys().collect();
        Self { columns, rows }
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The columns: name, and whether its cells are numbers.
    pub fn columns(&self) -> impl Iterator<Item = (&str, bool)> {
        let is_number = |cell: &Value| cell.is_number() || cell.is_null();
        self.columns.iter().map(move |name| (name.as_str(), self.cells_of(name).all(is_number)))
    }

    pub fn rows(&self) -> impl Iterator<Item = &Cells> {
        self.rows.iter()
    }

    fn cells_of(&self, column: &str) -> impl Iterator<Item = &Value> {
        self.rows.iter().filter_map(move |row| row.get(column))
    }

    /// Aligned text below a head. A column without a single value is left out. Where a line would be wider than `width`
    /// columns of the terminal, columns of text are cut, each to twelve columns at least.
    pub fn to_text(&self, width: Option<usize>, is_styled: bool) -> String {
        let has_value = |name: &str| self.is_empty() || self.cells_of(name).any(|cell| !cell.is_null());
        let columns: Vec<(&str, bool)> = self.columns().filter(|(name, _)| has_value(name)).collect();
        let mut table = comfy_table::Table::new();
        table.load_style(presets::NOTHING).set_truncation_indicator("…");
        table.set_header(columns.iter().map(|(name, _)| head(name)));
        for row in &self.rows {
            let mut line = Row::from(columns.iter().map(|(name, _)| row.get(*name).map(shown).unwrap_or_default()));
            line.max_height(1);
            table.add_row(line);
        }
        if let Some(width) = width {
            // The space behind the last column is cut off again.
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::try_from(width + 2).unwrap_or(u16::MAX));
        }
        let widest = table.column_max_content_widths();
        for (column, ((_, is_number), widest)) in table.column_iter_mut().zip(columns.iter().zip(widest)) {
            column.set_padding((0, 2));
            if *is_number {
                column.set_cell_alignment(CellAlignment::Right);
                column.set_constraint(ColumnConstraint::ContentWidth);
            } else {
                column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(widest.min(TEXT_COLUMNS_MIN) + 2)));
            }
        }
        let text = table.trim_fmt() + "\n";
        match text.split_once('\n') {
            Some((head, rows)) if is_styled => format!("\x1b[1m{head}\x1b[0m\n{rows}"),
            _ => text,
        }
    }

    /// The rows as JSON objects.
    pub fn to_objects(&self) -> Vec<Value> {
        self.rows.iter().map(|row| Value::Object(row.clone().into_iter().collect())).collect()
    }

    /// RFC 4180, below a head. A text that a spreadsheet would take for a formula gets an apostrophe in front (OWASP, CSV
    /// injection): anybody may choose names of sessions and tools.
    pub fn to_csv(&self) -> String {
        let inert = |cell: &Value| {
            let text = shown(cell);
            if cell.is_string() && text.starts_with(['=', '+', '-', '@']) { format!("'{text}") } else { text }
        };
        let mut csv = csv::Writer::from_writer(Vec::new());
        let records = self.rows.iter().map(|row| row.values().map(inert).collect());
        for record in std::iter::once(self.columns.clone()).chain(records) {
            // Nothing fails in memory, and all rows have the same columns.
            drop(csv.write_record(record));
        }
        String::from_utf8(csv.into_inner().unwrap_or_default()).unwrap_or_default()
    }
}

/// Sentences and rows that belong together. What people read is a list of such parts, with an empty line between two.
#[derive(Debug, Clone, Default)]
pub struct Section {
    /// Above the rows, lines without the end of the last.
    pub lead: String,
    pub table: Option<Table>,
    /// Below the rows, a line each.
    pub notes: Vec<String>,
}

impl Section {
    /// Sentences alone.
    pub fn text(lead: impl Into<String>) -> Self {
        Self { lead: lead.into(), ..Self::default() }
    }

    /// Rows below sentences; nothing above them where these are empty.
    pub fn rows(lead: impl Into<String>, table: Table) -> Self {
        Self { lead: lead.into(), table: Some(table), notes: Vec::new() }
    }
}

/// The fields of a struct in their order, which a JSON text keeps.
fn cells(row: &impl Serialize) -> Cells {
    serde_json::to_string(row).and_then(|json| serde_json::from_str(&json)).unwrap_or_default()
}

/// A column's name for people. Keys of a policy stay as they are written.
pub(super) fn head(column: &str) -> String {
    if column.contains('.') { column.to_owned() } else { column.replace('_', " ") }
}

fn shown(cell: &Value) -> String {
    match cell {
        Value::Null => String::new(),
        Value::String(text) => plain(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Default)]
    struct Named {
        tool: &'static str,
        cost: Option<f64>,
        calls: i64,
    }

    fn table() -> Table {
        let row = |tool, calls| Named { tool, cost: None, calls };
        Table::of([row("a,\"b\"\u{1b}[2J", 3), row("a-very-long-tool-name", 12_345)])
    }

    #[test]
    fn numbers_are_right_aligned_no_line_is_too_wide_and_a_column_of_nothing_is_left_out() {
        let text = table().to_text(Some(20), false);
        assert_eq!(text, "tool          calls\na,\"b\"\u{fffd}[2J         3\na-very-long…  12345\n");
        assert!(table().to_text(None, true).starts_with("\u{1b}[1mtool                   calls\u{1b}[0m\n"));
        assert_eq!(Table::of::<Named>([]).to_text(None, false), "tool  cost  calls\n");
    }

    #[test]
    fn csv_quotes_what_needs_it_and_holds_no_formula() {
        assert_eq!(table().to_csv(), "tool,cost,calls\n\"a,\"\"b\"\"\u{fffd}[2J\",,3\na-very-long-tool-name,,12345\n");
        let tools = ["=HYPERLINK(\"x\",1)", "@a-b"].map(|tool| Named { tool, cost: Some(-0.5), calls: -3 });
        assert_eq!(Table::of(tools).to_csv(), "tool,cost,calls\n\"'=HYPERLINK(\"\"x\"\",1)\",-0.5,-3\n'@a-b,-0.5,-3\n");
        assert_eq!(Table::of::<Named>([]).to_csv(), "tool,cost,calls\n");
    }

    #[test]
    fn objects_keep_every_character() {
        assert_eq!(table().to_objects()[0]["tool"], "a,\"b\"\u{1b}[2J");
    }
}
